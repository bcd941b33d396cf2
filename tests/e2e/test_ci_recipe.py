"""docs/how-to/ci.md, line by line, with the real tools: cold, from an archive, from a server."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.command import ROOT, run_on_cpu, saxpy_project
from unit.cache.servers import LOCATION, NGINX, OPENSSL, make_certificate, nginx

RECIPES = ROOT / "docs" / "how-to" / "ci.md"


def recipe(title: str) -> list[str]:
    """The commands of the first shell block below a heading."""
    section = RECIPES.read_text().split(f"## {title}\n", 1)[1]
    block = re.search(r"```sh\n(.*?)```", section, re.S)
    assert block
    return block[1].splitlines()


def ci(project: Path, lines: list[str], tmp_path: Path, **environment: str) -> dict:
    """Run ``lines`` as a CI service would, and return what the build wrote."""
    commands = tmp_path / "bin"
    commands.mkdir(exist_ok=True)
    script = commands / "gpubuild"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpubuild "$@"\n')
    script.chmod(0o755)
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("GPUBUILD_")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(lines)],
        cwd=project,
        env={**inherited, "PATH": f"{commands}:{os.environ['PATH']}", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads((project / "build.json").read_text())


def statuses(document: dict) -> set[str]:
    return {s["status"] for s in document["steps"] if s["kind"] != "preprocess"}


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first run ever: nothing to import."""
    folder = tmp_path_factory.mktemp("cold")
    project = saxpy_project(folder / "project")
    document = ci(project, recipe("With one file"), folder)
    assert statuses(document) == {"ran"}
    assert document["summary"]["hit_rate"] == 0.0
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

    pull_request = saxpy_project(tmp_path / "early")
    assert statuses(ci(pull_request, lines, tmp_path, **server)) == {"ran"}
    first = saxpy_project(tmp_path / "main")
    document = ci(first, main_branch, tmp_path, **server)
    assert statuses(document) == {"ran"}, "the pull request stored nothing"
    later = saxpy_project(tmp_path / "later")
    document = ci(later, lines, tmp_path, **server)
    assert statuses(document) == {"hit-remote"}
    assert document["summary"]["warnings"] == []
    assert (later / "build/saxpy/saxpy").read_bytes() == (cold / "build/saxpy/saxpy").read_bytes()


def test_the_documented_server_is_the_tested_one() -> None:
    documented = (ROOT / "docs" / "how-to" / "cache.md").read_text()
    assert LOCATION in documented


def test_the_snippets_run_the_recipe() -> None:
    """What GitHub and GitLab run is the tested recipe."""
    yaml = pytest.importorskip("yaml")
    blocks = re.findall(r"```yaml\n(.*?)```", RECIPES.read_text(), re.S)
    github, gitlab = (yaml.safe_load(block) for block in blocks)
    scripts = [
        line.strip() for step in github["jobs"]["build"]["steps"] for line in step.get("run", "").splitlines()
    ]
    for line in recipe("With one file"):
        assert line in scripts
        assert line in gitlab["build"]["script"]


def test_the_job_summary(cold: Path, tmp_path: Path) -> None:
    """What GitHub's step makes of the document of a build."""
    yaml = pytest.importorskip("yaml")
    github = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", RECIPES.read_text(), re.S)[0])
    scripts = [step.get("run", "") for step in github["jobs"]["build"]["steps"]]
    [script] = [script for script in scripts if "GITHUB_STEP_SUMMARY" in script]
    document = json.loads((cold / "build.json").read_text())
    document["summary"]["note"] = "36 steps ran: ptxas changed: 12.8.93 → 12.9.86"
    (tmp_path / "build.json").write_text(json.dumps(document))
    summary = tmp_path / "summary.md"
    environment = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary)}
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environment, check=True)
    ran = document["summary"]["ran"]
    assert ran > 10
    assert summary.read_text().splitlines() == [
        f"{document['summary']['steps']} steps: {ran} ran, 0 cached, 0 s saved",
        "36 steps ran: ptxas changed: 12.8.93 → 12.9.86",
    ]
