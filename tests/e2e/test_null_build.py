"""A build with nothing to do, by the real command: quick, silent about nothing, never wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from e2e.command import ROOT, Outcome, execute, gpubuild, run_on_cpu, shared_cache, without_settings
from variants import few

HEADER = '#define TEXT "one"\n'
MAIN = '#include <stdio.h>\n#include "inc/text.h"\nint main(void) { puts(TEXT); return 0; }\n'
# Shows the macro NAME, and whether the compiler optimises.
PRINTED = """\
#define SHOWN(x) #x
#define SHOW(x) SHOWN(x)
#ifdef __OPTIMIZE__
#define WORD SHOW(NAME)
#else
#define WORD SHOW(NAME) " slow"
#endif
int"""
YAML = """\
version: 1
targets: {cpu: {}}
programs:
  hello: {sources: [main.c]}
  other: {sources: [other.c]}
"""
HEAVY = ("yaml", "networkx", "mlir", "llvmlite", "rich", "dataclasses", "argparse", "typing")
# What a build that finds everything in the cache has no use for.
NOT_WARM = {
    "networkx", "mlir", "llvmlite", "rich", "numpy", "jsonschema", "importlib.metadata",
    "bz2", "concurrent.futures", "copy", "dataclasses", "difflib", "inspect", "logging", "lzma", "pickle",
    "random", "secrets", "shlex", "shutil", "socket", "string", "subprocess", "tempfile", "weakref",
    "gpubuild.build.diagnosis", "gpubuild.cli.json_document",
    "gpubuild.report.trace", "gpubuild.engine", "gpubuild.execute.local", "gpubuild.toolchain.run",
}  # fmt: skip


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project built by copies of real tools, old enough for its stat data to be trusted."""
    project = tmp_path_factory.mktemp("null") / "project"
    (project / "inc").mkdir(parents=True)
    (project / "inc/text.h").write_text(HEADER)
    (project / "main.c").write_text(MAIN)
    (project / "other.c").write_text("int main(void) { return 0; }\n")
    (project / "targets.yaml").write_text(YAML)
    gpubuild("build", cwd=project, seeded=True, code=0)
    time.sleep(2.1)
    gpubuild("build", cwd=project, code=0)
    assert was_quick(project)
    return project


def modules_of_build(project: Path, *arguments: str, env: dict[str, str] | None = None) -> set[str]:
    """Build once more, and tell the modules that were imported."""
    environment = without_settings() | (env or {})
    command = (sys.executable, "-X", "importtime", "-m", "gpubuild", "build")
    done = execute(*command, *arguments, cwd=project, env=environment)
    return {line.rpartition("|")[2].strip() for line in done.err.splitlines()}


def was_quick(project: Path, *arguments: str, env: dict[str, str] | None = None) -> bool:
    """Build once more: whether that was answered without the whole command."""
    imported = modules_of_build(project, *arguments, env=env)
    if "yaml" in imported:
        return False
    # A document is written by who writes all documents, whose records import typing.
    assert not imported & ({*HEAVY} - {"typing" if "--json" in arguments else ""})
    return True


def without_seconds(document: dict[str, Any]) -> dict[str, Any]:
    for entry in (document["summary"], *document["steps"]):
        entry.pop("seconds")
    return document


def whole(project: Path, *arguments: str) -> Outcome:
    shutil.rmtree(project / "build/.gpubuild/receipts")
    return gpubuild("build", *arguments, cwd=project)


def test_the_document_is_the_same(settled: Path) -> None:
    expected = whole(settled, "--json").document
    quick = gpubuild("build", "--json", cwd=settled)
    assert was_quick(settled, "--json")
    assert without_seconds(quick.document) == without_seconds(expected)
    assert json.dumps(quick.document) == json.dumps(json.loads(quick.out))


@pytest.mark.parametrize(
    "arguments", few([[], ["--explain"], ["-q"], ["-v"], ["-k", "-j3"], ["-q", "--explain"]], 3)
)
def test_the_text_is_the_same(settled: Path, arguments: list[str]) -> None:
    def lines(outcome: Outcome) -> list[str]:
        assert outcome.code == 0
        assert not outcome.err
        return sorted(line.partition(" in 0.")[0] for line in outcome.out.splitlines())

    expected = whole(settled, *arguments)
    assert was_quick(settled, *arguments)
    assert lines(gpubuild("build", *arguments, cwd=settled)) == lines(expected)


def test_the_text_of_a_dry_run_is_the_same(settled: Path) -> None:
    assert was_quick(settled, "-n")
    quick, expected = gpubuild("build", "-n", cwd=settled).out, whole(settled, "-n").out
    assert re.sub("[0-9.]+ s$", "", quick.strip()) == re.sub("[0-9.]+ s$", "", expected.strip())
    gpubuild("build", cwd=settled, code=0)


def test_colour_is_the_same(settled: Path) -> None:
    def colored() -> Outcome:
        return gpubuild("build", "--explain", cwd=settled, env={"FORCE_COLOR": "1"})

    shutil.rmtree(settled / "build/.gpubuild/receipts")
    expected = colored().out
    assert "\x1b[2mup-to-date\x1b[0m  " in expected
    assert {*colored().out.splitlines()[:-1]} == {*expected.splitlines()[:-1]}


def test_a_misspelt_variable_is_told_of(settled: Path) -> None:
    env = {"GPUBUILD_JOB": "2", "GPUBUILD_OF_MY_OWN": "x"}
    assert was_quick(settled, env=env)
    told = gpubuild("build", cwd=settled, env=env).err
    assert told == "warning: there is no variable GPUBUILD_JOB; did you mean GPUBUILD_JOBS?\n"
    shutil.rmtree(settled / "build/.gpubuild/receipts")
    assert gpubuild("build", cwd=settled, env=env).err == told


def test_a_warm_checkout_imports_what_it_needs(settled: Path, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path / "home")}  # where what is known of tools is kept
    (tmp_path / "home/gpubuild").mkdir(parents=True)
    (tmp_path / "home/gpubuild/results").touch()  # results are those of the project's cache
    for name in ("first", "second"):
        checkout = shutil.copytree(settled, tmp_path / name, ignore=shutil.ignore_patterns("build"))
        imported = modules_of_build(Path(checkout), env=env)
    assert "gpubuild.cache.local.index" in imported
    assert imported & NOT_WARM == set(), (
        "import these where they are needed; gpubuild.support.frozen is for dataclasses"
    )


def test_each_request_has_its_own_answer(settled: Path) -> None:
    gpubuild("build", "hello", cwd=settled, code=0)
    assert was_quick(settled, "hello")
    assert was_quick(settled)
    assert "no program 'helo'" in gpubuild("build", "helo", cwd=settled).err
    assert was_quick(settled, "-f", str(settled / "targets.yaml"))


def test_a_folder_below(settled: Path) -> None:
    """The project file of a folder above is found, and named."""
    # `python -m` looks for packages in the current folder, which is a part of what is proven.
    assert gpubuild("build", cwd=settled / "inc").err == "project: ../targets.yaml\n"
    assert was_quick(settled / "inc")
    quick = gpubuild("build", cwd=settled / "inc")
    assert quick.err == "project: ../targets.yaml\n"
    assert quick.out.endswith(f" → {settled}/build/hello/hello, {settled}/build/other/other\n")
    assert not gpubuild("build", "-q", cwd=settled / "inc").err
    assert gpubuild("-C", "inc", "build", cwd=settled).err == quick.err
    whole = gpubuild("build", "-n", cwd=settled / "inc")
    assert (whole.code, whole.err) == (0, quick.err)


def said(project: Path, folder: str = "build") -> str:
    return run_on_cpu(project / folder / "hello/hello").out


def test_each_variant_has_its_own_answer(settled: Path, tmp_path: Path) -> None:
    """Profiles, --set, -D and included files: never "nothing to do" for another request or content."""
    project = Path(shutil.copytree(settled, tmp_path / "copy", ignore=shutil.ignore_patterns("build")))
    (project / "main.c").write_text(
        MAIN.replace("puts(TEXT)", 'puts(TEXT " " WORD)').replace("int", PRINTED, 1)
    )
    yaml = project / "targets.yaml"
    yaml.write_text(YAML + "include: [more.yaml]\nprofiles: {slow: {defaults: {opt_level: 0}}}\n")
    included = project / "more.yaml"
    included.write_text("host: {define: {NAME: 1}}\n")
    extra = project / "src"
    extra.mkdir()
    for name in ("one", "zero"):
        (extra / f"{name}.c").write_text(f"int {name};\n")
    yaml.write_text(yaml.read_text().replace("[main.c]", "[main.c, 'src/**/*.c']"))
    requests: dict[tuple[str, ...], tuple[str, str]] = {
        ("-D", "NAME=2"): ("build", "one 2"),
        ("--set", "host.define.NAME=3"): ("build", "one 3"),
        ("--profile", "slow"): ("build-slow", "one 1 slow"),
        (): ("build", "one 1"),
    }
    for arguments, (folder, text) in requests.items():
        gpubuild("build", *arguments, cwd=project, seeded=True, code=0)
        assert said(project, folder) == f"{text}\n"
    other = Path(shutil.copytree(project, tmp_path / "other"))
    gpubuild("build", cwd=other, code=0)
    time.sleep(2.1)
    for arguments, (folder, text) in requests.items():
        gpubuild("build", *arguments, cwd=project)  # settles, and replaces the receipts of other requests
        assert was_quick(project, *arguments)
        assert said(project, folder) == f"{text}\n"
    gpubuild("build", cwd=other)
    assert was_quick(other)
    (other / "more.yaml").write_text("host: {define: {NAME: 4}}\n")
    assert not was_quick(other)
    assert said(other) == "one 4\n"
    slow = ("--profile", "slow")
    (extra / "new").mkdir()
    (extra / "new/two.h").touch()
    assert was_quick(project) and was_quick(project, *slow)  # does not match
    (extra / "new/two.c").write_text("int two;\n")
    assert "preprocess/src/new/two.c" in gpubuild("build", "--explain", cwd=project).out
    (extra / "new/two.c").unlink()
    (extra / "one.c").unlink()
    assert not was_quick(project, *slow)
    assert "preprocess/src/one.c" not in gpubuild("build", *slow, "--explain", cwd=project).out


@pytest.fixture
def project(settled: Path, tmp_path: Path) -> Path:
    """A copy, built and settled."""
    copy = Path(shutil.copytree(settled, tmp_path / "copy", symlinks=True))
    assert not was_quick(copy)  # absolute paths are part of what is proven
    return copy


@pytest.mark.parametrize("name", ["main.c", "inc/text.h", "targets.yaml", "other.c"])
def test_an_edit_is_seen(project: Path, name: str) -> None:
    path = project / name
    old = path.stat()
    text = path.read_text()
    edited = text.replace("one", "two") if "one" in text else text.replace("  ", "   ") + " \n"
    path.write_text(edited)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    assert not was_quick(project)
    assert said(project) == ("two\n" if name == "inc/text.h" else "one\n")


def test_another_compiler_is_seen(project: Path, tmp_path: Path) -> None:
    env = {"GPUBUILD_CC": "cc"} | shared_cache()
    outcome = gpubuild("build", "--json", cwd=project, env=env, code=0)
    assert outcome.document["summary"]["steps"] > 0
    folder = tmp_path / "bin"
    folder.mkdir()
    assert not was_quick(project, env={"PATH": f"{folder}:{os.environ['PATH']}"})


def test_explain_names_the_header(project: Path) -> None:
    (project / "inc/text.h").write_text(HEADER.replace("one", "three"))
    reasons = {s["id"]: s["reason"] for s in gpubuild("build", "--json", cwd=project).document["steps"]}
    assert reasons["preprocess/main.c"] == "header inc/text.h changed"
    assert reasons["hello/link"] == "the object of cc/main.c changed"
    outcome = gpubuild("explain", "hello/link", "--json", cwd=project)
    assert outcome.document["why"] == "the object of cc/main.c changed"
    assert [p["name"] for p in outcome.document["parts"] if p["changed"]] == ["input object.0"]
    text = gpubuild("explain", "link", cwd=project, code=2)
    assert "hello/link, other/link" in text.err


def test_the_generated_project_is_what_it_says(tmp_path: Path) -> None:
    generator = ROOT / "bench/generate.py"
    if not generator.exists():
        pytest.skip("bench/ is not installed")
    sizes = "--files 2 --modules 1 --targets 1"
    done = execute(sys.executable, generator, tmp_path / "p", *sizes.split())
    steps = int(done.out.split()[-2])
    outcome = gpubuild("build", "--json", cwd=tmp_path / "p", seeded=True, code=0)
    assert outcome.document["summary"]["steps"] == steps
    assert run_on_cpu(tmp_path / "p/build/app/app") == Outcome(0, "2\n", "")  # 0.5 + 1.5
