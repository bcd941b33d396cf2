"""docs/how-to/ci.md, line by line, with the real tools: cold, from an archive, from a server."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e.command import ROOT, execute, launcher, run_on_cpu, saxpy_project, seed, without_settings
from unit.cache.servers import LOCATION, NGINX, OPENSSL, make_certificate, nginx

from gpubuild import __version__
from gpubuild.cli.init import SERVICES

RECIPES = ROOT / "docs" / "how-to" / "ci.md"


def recipe(title: str) -> list[str]:
    """The commands of the first shell block below a heading."""
    section = RECIPES.read_text().split(f"## {title}\n", 1)[1]
    block = re.search(r"```sh\n(.*?)```", section, re.S)
    assert block
    return block[1].splitlines()


def ci(project: Path, lines: list[str], tmp_path: Path, **environment: str) -> dict:
    """Run ``lines`` as a CI service would, and return what the build wrote."""
    path = f"{launcher(tmp_path / 'bin')}:{os.environ['PATH']}"
    script = ("bash", "-euo", "pipefail", "-c", "\n".join(lines))
    execute(*script, cwd=project, env=without_settings() | {"PATH": path} | environment)
    return json.loads((project / "build.json").read_text())


def statuses(document: dict, *, but: str = "") -> set[str]:
    steps = [s for s in document["steps"] if s["kind"] != "preprocess" and s["id"] != but]
    return {s["status"] for s in steps}


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first run ever: nothing to import. The runtime alone is there, which takes longest to compile."""
    folder = tmp_path_factory.mktemp("cold")
    project = saxpy_project(folder / "project")
    seed(project)
    document = ci(project, recipe("With one file"), folder)
    assert statuses(document, but="runtime") == {"ran"}
    assert document["summary"]["hit_rate"] < 0.2
    return project


def fresh(cold: Path, place: Path) -> Path:
    """Another machine: the sources and the archive, nothing else."""
    project = saxpy_project(place)
    shutil.copy(cold / "gpubuild-cache.tar", project)
    return project


def test_warm_from_an_archive(cold: Path, tmp_path: Path) -> None:
    project = fresh(cold, tmp_path / "elsewhere" / "project")
    document = ci(project, recipe("With one file"), tmp_path)
    assert statuses(document) == {"hit-local"}
    assert document["summary"]["hit_rate"] == 1.0
    assert (project / "build/saxpy/saxpy").read_bytes() == (cold / "build/saxpy/saxpy").read_bytes()
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 0
    again = fresh(project, tmp_path / "third")
    assert statuses(ci(again, recipe("With one file"), tmp_path)) == {"hit-local"}
    assert (again / "gpubuild-cache.tar").stat().st_size < 1.2 * (cold / "gpubuild-cache.tar").stat().st_size


def test_a_damaged_archive_costs_time_only(cold: Path, tmp_path: Path) -> None:
    project = fresh(cold, tmp_path / "project")
    seed(project)
    os.truncate(project / "gpubuild-cache.tar", (project / "gpubuild-cache.tar").stat().st_size // 2)
    document = ci(project, recipe("With one file"), tmp_path)
    assert document["summary"]["ok"]
    assert (project / "build/saxpy/saxpy").read_bytes() == (cold / "build/saxpy/saxpy").read_bytes()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables that lead to a server with a certificate of an authority of our own."""
    if NGINX is None or OPENSSL is None:
        pytest.skip("nginx or openssl is not installed (apt-get install nginx-light openssl)")
    folder = tmp_path_factory.mktemp("nginx")
    certificate = make_certificate(folder / "tls")
    with nginx(folder / "server", certificate=certificate) as url:
        yield {"GPUBUILD_REMOTE": url, "SSL_CERT_FILE": str(certificate.authority)}


def test_warm_from_a_server(cold: Path, server: dict[str, str], tmp_path: Path) -> None:
    # The recipe names a server of its own; pull requests read, the main branch writes.
    lines = [line for line in recipe("With a server") if "GPUBUILD_REMOTE=" not in line]
    main_branch = [line for line in lines if "MODE" not in line]
    assert len(main_branch) == len(lines) - 1

    def built(name: str, lines: list[str]) -> dict:
        project = saxpy_project(tmp_path / name)
        seed(project)  # with the runtime alone, which takes longest to compile
        return ci(project, lines, tmp_path, **server)

    assert statuses(built("early", lines), but="runtime") == {"ran"}
    assert statuses(built("main", main_branch), but="runtime") == {"ran"}, "the pull request stored nothing"
    document = built("later", lines)
    assert statuses(document, but="runtime") == {"hit-remote"}
    assert document["summary"]["warnings"] == []
    executable = (tmp_path / "later/build/saxpy/saxpy").read_bytes()
    assert executable == (cold / "build/saxpy/saxpy").read_bytes()


def test_the_documented_server_is_the_tested_one() -> None:
    documented = (ROOT / "docs" / "how-to" / "cache.md").read_text()
    assert LOCATION in documented


def snippets() -> tuple[dict, dict]:
    """The files for GitHub and GitLab."""
    github, gitlab = re.findall(r"```yaml\n(.*?)```", RECIPES.read_text(), re.S)
    return yaml.safe_load(github), yaml.safe_load(gitlab)


def test_the_snippets_run_the_recipe() -> None:
    """What GitHub and GitLab run is the tested recipe."""
    github, gitlab = snippets()
    scripts = [
        line.strip() for step in github["jobs"]["build"]["steps"] for line in step.get("run", "").splitlines()
    ]
    for line in recipe("With one file"):
        assert line in (script.replace(" --message-format github", "") for script in scripts)
        assert line in gitlab["build"]["script"]


def test_what_the_snippets_may_do_and_when() -> None:
    github, gitlab = snippets()
    triggers = github[True]  # YAML 1.1 reads "on" so
    assert triggers == {"push": {"branches": ["main"]}, "pull_request": None}, "no commit is built twice"
    assert github["permissions"] == {"contents": "read"}
    steps = github["jobs"]["build"]["steps"]
    uses = {step["uses"].partition("@")[0]: step for step in steps if "uses" in step}
    assert all(re.fullmatch(r"actions/[a-z/-]+@[0-9a-f]{40}", step["uses"]) for step in uses.values())
    restore, save = uses["actions/cache/restore"]["with"], uses["actions/cache/save"]["with"]
    assert save == {name: restore[name] for name in ("path", "key")}
    assert save["key"].startswith(restore["restore-keys"])
    assert "github.run_attempt" in save["key"], "an entry is never overwritten"
    assert uses["actions/cache/save"]["if"] == "github.event_name == 'push'"
    python = uses["actions/setup-python"]["with"]
    assert (python["cache"], python["cache-dependency-path"]) == ("pip", SERVICES["github"][0])
    version = __version__.partition(".dev")[0]
    assert {"run": f"pip install gpubuild=={version}"} in steps
    assert gitlab["build"]["before_script"] == [f"pip install gpubuild=={version}"]
    assert [rule["if"] for rule in gitlab["build"]["rules"]] == [
        "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH",
        '$CI_PIPELINE_SOURCE == "merge_request_event"',
    ]


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_the_workflow_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "gpubuild.yml"
    file.write_text(SERVICES["github"][1])
    done = execute("actionlint", file, code=None)
    assert (done.code, done.out) == (0, "")


def job(project: Path, tmp_path: Path) -> tuple[int, str, str]:
    """Run the scripts of GitHub's job on a pull request: exit code, stderr and summary."""
    scripts = [step["run"] for step in snippets()[0]["jobs"]["build"]["steps"] if "run" in step]
    _, build, summarize, _ = scripts
    (tmp_path / "summary.md").unlink(missing_ok=True)
    environment = without_settings() | {
        "PATH": f"{launcher(tmp_path / 'bin')}:{os.environ['PATH']}",
        "GITHUB_WORKSPACE": str(project),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done, told = (
        execute("bash", "-e", "-c", script, cwd=project, env=environment, code=None)
        for script in (build, summarize)
    )
    assert told.code == 0
    return done.code, done.err, (tmp_path / "summary.md").read_text()


def test_the_job_shows_errors_beside_their_lines(cold: Path, tmp_path: Path) -> None:
    project = fresh(cold, tmp_path / "project")
    source = project / "saxpy.mlir"
    source.write_text(source.read_text().replace("memref.store", "memref.stre", 1))
    code, messages, _ = job(project, tmp_path)
    assert (code, messages.count("::error file=saxpy.mlir,line=")) == (1, 1)
    (project / "targets.yaml").write_text("version: 1\n")
    code, messages, summary = job(project, tmp_path)
    assert (code, "::error file=targets.yaml,line=1," in messages) == (2, True)
    assert summary.startswith("0 steps: 0 ran, ")


def test_the_job_summary(cold: Path, tmp_path: Path) -> None:
    """What GitHub's step makes of the document of a build."""
    scripts = [step.get("run", "") for step in snippets()[0]["jobs"]["build"]["steps"]]
    [script] = [script for script in scripts if "GITHUB_STEP_SUMMARY" in script]
    document = json.loads((cold / "build.json").read_text())
    document["summary"]["note"] = "36 steps ran: ptxas changed: 12.8.93 → 12.9.86"
    (tmp_path / "build.json").write_text(json.dumps(document))
    summary = tmp_path / "summary.md"
    execute("bash", "-e", "-c", script, cwd=tmp_path, env=os.environ | {"GITHUB_STEP_SUMMARY": str(summary)})
    ran, saved = document["summary"]["ran"], document["summary"]["saved_seconds"]
    assert ran > 9
    assert summary.read_text().splitlines() == [
        f"{document['summary']['steps']} steps: {ran} ran, 1 cached, {saved:.0f} s saved",
        "36 steps ran: ptxas changed: 12.8.93 → 12.9.86",
    ]
