"""Projects of `gpubuild init`, with each of its options: they build, run, and pass their own CI."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from conftest import fill
from e2e.command import ROOT, execute, gpubuild, launcher, seed, shared_cache, without_settings

EXPECTED = "scale: OK (0 of 1000 elements wrong)\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a CI service gives its jobs, with the ``gpubuild`` that is under test."""
    path = f"{launcher(tmp_path / 'bin')}:{os.environ['PATH']}"
    return without_settings() | {"PATH": path} | shared_cache()


def github(folder: Path) -> list[str]:
    yaml = pytest.importorskip("yaml")
    # YAML reads `on` as a truth.
    document = yaml.safe_load((folder / ".github/workflows/gpubuild.yml").read_text())
    return [step["run"] for step in document["jobs"]["build"]["steps"] if "run" in step]


def gitlab(folder: Path) -> list[str]:
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((folder / ".gitlab-ci.yml").read_text())["build"]
    return [*job["before_script"], *job["script"]]


@pytest.mark.parametrize("service", [github, gitlab])
def test_the_jobs_of_a_new_project_pass(service, environment: dict[str, str], tmp_path: Path) -> None:
    project = tmp_path / "project"
    gpubuild("init", project, "--ci", service.__name__, cwd=tmp_path, code=0)
    summary = tmp_path / "summary.md"
    scripts = service(project)
    assert scripts[0].startswith("pip install gpubuild==")
    out = ""
    for script in scripts[1:]:
        command = ("bash", "-e", "-o", "pipefail", "-c", script)
        out += execute(*command, cwd=project, env=environment | {"GITHUB_STEP_SUMMARY": str(summary)}).out
    assert "1 program: 1 ok\n" in out
    assert (project / "gpubuild-cache.tar").stat().st_size > 10_000
    assert summary.exists() == (service is github)


def test_no_compiler_is_needed(tmp_path: Path) -> None:
    gpubuild("init", "project", cwd=tmp_path, code=0)
    variables = {"PATH": str(tmp_path), "GPUBUILD_DEVICE": "cpu"} | shared_cache()
    tools = gpubuild("doctor", "--json", cwd=tmp_path, env=variables).document["tools"]
    assert {t["source"] for t in tools if t["name"] in ("cc", "cxx", "ar")} == {"PyPI package ziglang"}
    ran = gpubuild("run", "-q", cwd=tmp_path / "project", env=variables)
    assert (ran.code, ran.out) == (0, EXPECTED), ran.err
    tested = gpubuild("test", "--junit", "tests.xml", cwd=tmp_path / "project", env=variables)
    assert (tested.code, tested.out) == (0, "ok      scale/cpu [cpu]\nwrote tests.xml\n1 case: 1 ok\n")
    main_file = tmp_path / "project/main.c"
    main_file.write_text(main_file.read_text().replace("scale: %s", "scaled: %s"))
    failed = gpubuild("test", "-q", cwd=tmp_path / "project", env=variables, code=1)
    assert "  | -scale: OK (0 of 1000 elements wrong)\n  | +scaled: OK" in failed.out


def test_a_second_project_takes_from_the_cache_of_the_first(tmp_path: Path) -> None:
    variables = {"XDG_CACHE_HOME": str(tmp_path / "mine")}
    (tmp_path / "mine/gpubuild").mkdir(parents=True)
    seed(tmp_path / "mine")  # with the runtime alone, which takes longest to compile
    (tmp_path / "mine/cache").rename(tmp_path / "mine/gpubuild/results")
    for name, status in (("one", "ran"), ("two", "hit-local")):
        gpubuild("init", name, cwd=tmp_path, code=0)
        built = gpubuild("build", "--json", cwd=tmp_path / name, env=variables)
        assert {s for step, s in built.statuses().items() if step != "runtime"} == {status}, built.out
        assert not (tmp_path / name / "cache").exists()
    shared = tmp_path / "mine/gpubuild/results"
    assert gpubuild("doctor", "--json", cwd=tmp_path / "two", env=variables).document["cache"] == {
        "directory": str(shared), "problem": "",
    }  # fmt: skip
    gpubuild("clean", cwd=tmp_path / "one", env=variables, code=0)
    refused = gpubuild("cache", "clear", cwd=tmp_path / "one", env=variables)
    assert (refused.code, refused.out) == (2, "")
    assert f"{shared} has the results of all your projects" in refused.err
    again = gpubuild("build", "--json", cwd=tmp_path / "one", env=variables)
    assert set(again.statuses().values()) == {"hit-local"}
    cleared = gpubuild("cache", "clear", "--json", "--cache-dir", shared, cwd=tmp_path, env=variables)
    assert cleared.document["freed_bytes"] > 10_000
    (tmp_path / "mine/gpubuild").rename(tmp_path / "old")
    (tmp_path / "mine/gpubuild").touch()
    doctor = gpubuild("doctor", cwd=tmp_path / "two", env=variables).out
    assert f"cache {tmp_path / 'two/cache'}: {tmp_path / 'mine/gpubuild'} is not a folder" in doctor


def test_a_new_project_builds_with_scons(environment: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("SCons")
    gpubuild("init", "project", "--scons", cwd=tmp_path, code=0)
    project = tmp_path / "project"
    scons = [sys.executable, "-m", "SCons", "-Q"]
    execute(*scons, cwd=project, env=environment)
    done = execute(project / "build/scale/scale", env=environment | {"GPUBUILD_DEVICE": "cpu"})
    assert done.out == EXPECTED == (project / "expected.txt").read_text()
    again = execute(*scons, cwd=project, env=environment)
    assert again.out == "scons: `.' is up to date.\n"


def test_the_first_project_of_readme_runs(environment: dict[str, str], tmp_path: Path) -> None:
    """The line under "A project of your own" in README.md."""
    page = (ROOT / "README.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("gpubuild init demo"))
    done = execute("bash", "-e", "-c", line, cwd=tmp_path, env=environment, code=None)
    assert (done.code, done.out.splitlines()[-1:]) == (0, [EXPECTED.rstrip()]), done.err


def test_what_could_not_be_written_is_not_in_the_way_of_the_next_try(small_disk: Path) -> None:
    filling = fill(small_disk)
    os.truncate(filling, filling.stat().st_size - (2 << 12))  # room for two files of five
    refused = gpubuild("init", "new", cwd=small_disk)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == "error: cannot write new/main.c: No space left on device\n"
    filling.unlink()
    gpubuild("init", "new", cwd=small_disk, code=0)
