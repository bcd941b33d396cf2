"""Agents of workers, each a real process."""

import os
import signal
import time
from pathlib import Path

import pytest

from gpubuild.execute import wire
from gpubuild.execute.agent import Agent
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput
from gpubuild.model.step import OutlineParams, StepKind


def make_job(folder: Path) -> Job:
    source = folder / "a.mlir"
    source.write_bytes(b"module {}")
    (folder / "work").mkdir()
    return Job(
        step_id="p/outline/a", kind=StepKind.OUTLINE, params=OutlineParams(source_name="a.mlir"),
        inputs=(JobInput(name="source", path=source, digest=digest_bytes(b"module {}")),),
        output_names=("host.mlir", "host_located.mlir", "index.json", "places.txt"), tools={},
        workdir=folder / "work",
    )  # fmt: skip


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("was_used", [False, True], ids=["new", "used"])
def test_without_its_forker_it_refuses_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_used: bool
) -> None:
    """So the worker starts another, and the step runs again. The kernel may kill any process for memory."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    message = wire.pack_job(make_job(tmp_path))
    agent = Agent("w")
    try:
        pid = agent._process.pid
        if was_used:
            assert not wire.is_refusal(agent.run(message, lambda: True))
        end = time.monotonic() + 60
        while not (forkers := children(pid)) and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(forkers[0], signal.SIGKILL)
        assert wire.is_refusal(agent.run(message, lambda: True))
    finally:
        agent.stop()
