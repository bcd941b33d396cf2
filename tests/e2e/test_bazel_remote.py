"""Whole builds that share results through a real bazel-remote, where there is one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.command import gpubuild, run_on_cpu, saxpy_project
from unit.cache.bazel_remote import ABSENT, BAZEL_REMOTE, bazel_remote, stored

pytestmark = pytest.mark.skipif(BAZEL_REMOTE is None, reason=ABSENT)


def build(folder: Path, url: str, **environment: str) -> tuple[Path, dict]:
    """A clean checkout with an empty cache of its own, built; the executable and the report."""
    project = saxpy_project(folder)
    done = gpubuild("build", "--json", cwd=project, env={"GPUBUILD_REMOTE": url, **environment})
    assert done.code == 0, done.err
    return project / "build/saxpy/saxpy", done.document


def statuses(document: dict) -> set[str]:
    return {step["status"] for step in document["steps"] if step["kind"] != "preprocess"}


def test_from_cold_to_warm_and_through_an_eviction(tmp_path: Path) -> None:
    server = tmp_path / "server"
    with bazel_remote(server) as url:
        early, document = build(tmp_path / "reader", url, GPUBUILD_REMOTE_MODE="read-only")
        assert statuses(document) == {"ran"} and stored(server, "cas") == []
        first, document = build(tmp_path / "first", url)
        assert statuses(document) == {"ran"} and document["summary"]["warnings"] == []
        second, document = build(tmp_path / "second", url)
        assert statuses(document) == {"hit-remote"} and document["summary"]["warnings"] == []
        assert early.read_bytes() == first.read_bytes() == second.read_bytes()
        assert run_on_cpu(second).code == 0
    largest = max(stored(server, "cas"), key=lambda path: path.stat().st_size)
    largest.unlink()
    with bazel_remote(server) as url:
        third, document = build(tmp_path / "third", url)
        assert statuses(document) == {"hit-remote", "ran"} and document["summary"]["warnings"] == []
        assert third.read_bytes() == first.read_bytes()
        _, document = build(tmp_path / "fourth", url)
        assert statuses(document) == {"hit-remote"}, "what was evicted came back"


def test_a_server_that_is_killed(tmp_path: Path) -> None:
    """In the middle of a build: it goes on. What the server has by then is found when it is back."""
    server = tmp_path / "server"
    project = saxpy_project(tmp_path / "project")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUBUILD_")}
    with bazel_remote(server) as url:
        building = subprocess.Popen(
            [sys.executable, "-m", "gpubuild", "build"],
            cwd=project,
            env={**environment, "GPUBUILD_REMOTE": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        while not stored(server, "ac"):
            assert building.poll() is None
            time.sleep(0.02)
        os.kill(int((server / "pid").read_text()), signal.SIGKILL)
        out, _ = building.communicate(timeout=300)
    assert building.returncode == 0, out
    assert out.count("the remote cache") == 1 and "for the rest of this build" in out
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 0
    with bazel_remote(server) as url:
        again, document = build(tmp_path / "again", url)
        assert statuses(document) == {"hit-remote", "ran"} and document["summary"]["warnings"] == []
        assert again.read_bytes() == (project / "build/saxpy/saxpy").read_bytes()
