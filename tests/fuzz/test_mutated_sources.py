"""Damaged .mlir through the real engine: no hang, no dead executor, always a result or a message.

A worker process takes two hundred mutants, one after the other: it imports the compilers once. What
ends or stops a worker is put through the executor again, as a build would do it.
GPUBUILD_TEST_MUTANTS (default 60; .ci/nightly sets more) sets how many; the seed is fixed.
GPUBUILD_TEST_SEED (default 1000) is another one for a longer search.
"""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fuzz.mutants import TARGETS, TIMEOUT_SECONDS, Task, compile_job, mutate, outline_job

from gpubuild.errors import GpubuildError, StepCrashedError, StepError
from gpubuild.execute.executor import Future
from gpubuild.execute.local import LocalExecutor
from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "examples").glob("*/*.mlir"))
MUTANTS = int(os.environ.get("GPUBUILD_TEST_MUTANTS", "60"))
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "1000"))
BATCH = 200


@dataclass
class Tally:
    """What became of some mutants. ``suspects`` are those by which a worker ended."""

    parsed: int = 0
    compiled: int = 0
    wrong: list[str] = field(default_factory=list)
    suspects: list[Task] = field(default_factory=list)


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor(2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tools() -> dict[str, tuple[str, ...]]:
    chain = Toolchain(Settings())
    return {name: chain.require(name).command for name in ("ptxas", "libdevice", "ld.lld")}


def put_through(tasks: list[Task], tools: dict[str, tuple[str, ...]]) -> Tally:
    """Give every task to a worker, and those after a suspect to the next worker."""
    tally = Tally()
    left = list(tasks)
    while left:
        worker = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", json.dumps(tools)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)])},
        )
        assert worker.stdin is not None
        assert worker.stdout is not None
        with worker:
            while left:
                task = left.pop(0)
                worker.stdin.write(json.dumps(task).encode() + b"\n")
                worker.stdin.flush()
                ready, _, _ = select.select([worker.stdout], [], [], TIMEOUT_SECONDS)
                line = worker.stdout.readline() if ready else b""
                if not line:
                    tally.suspects.append(task)
                    worker.kill()
                    break
                answer = json.loads(line)
                tally.parsed += answer["parsed"]
                tally.compiled += answer["compiled"]
                tally.wrong += [f"{task['source']} for {task['target']}: {text}" for text in answer["wrong"]]
            worker.stdin.close()
    return tally


def judge(future: Future, what: str) -> bool:
    """Whether a step succeeded; if not, after an error that says something. Anything else fails the test."""
    try:
        future.result()
    except StepCrashedError as error:
        assert "timed out" not in error.message, f"{what} hangs"
        assert error.stage, f"{what}: a crash must name its stage: {error.render()}"
        return False
    except StepError as error:
        assert error.message.strip(), what
        assert "Traceback" not in error.output, f"{what}: a mistake of ours:\n{error.render()}"
        return False
    except GpubuildError as error:
        assert error.message.strip(), what
        return False
    return True


def build(task: Task, executor: LocalExecutor, tools: dict[str, tuple[str, ...]]) -> None:
    """Put one mutant through the executor, a process for each step, as a build does."""
    folder = Path(task["folder"] + "-again")
    outline = outline_job(Path(task["source"]), folder / "outline")
    future = executor.submit(outline)
    future.exception()
    if not judge(future, task["source"]):
        return
    for module in json.loads((outline.workdir / "out/index.json").read_text())["modules"]:
        text = outline.workdir / f"out/module.{module['index']}.mlir"
        job = compile_job(module["name"], text, task, folder / f"compile{module['index']}", tools)
        future = executor.submit(job)
        future.exception()
        judge(future, f"{task['source']} for {task['target']}")


@pytest.mark.parametrize("batch", range((MUTANTS + BATCH - 1) // BATCH))
def test_mutants(
    batch: int, executor: LocalExecutor, tools: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    chance = random.Random(SEED + batch)
    tasks: list[Task] = []
    for number in range(min(BATCH, MUTANTS - batch * BATCH)):
        source = tmp_path / f"m{number}.mlir"
        source.write_text(mutate(chance.choice(SOURCES).read_text(), chance))
        tasks.append(
            Task(
                source=str(source),
                folder=str(tmp_path / f"w{number}"),
                target=chance.choice(list(TARGETS)),
                opt_level=chance.choice((0, 0, 0, 0, 0, 0, 0, 3)),
            )
        )
    tally = put_through(tasks, tools)
    assert not tally.wrong
    # If nothing got through, the mutations would test the parser only.
    assert tally.parsed >= len(tasks) // 10
    assert tally.compiled >= 1
    for task in [*tally.suspects, tasks[0]]:
        build(task, executor, tools)
