"""A Dask worker for compile steps: the command that starts one, and what runs in it.

Dask loads this module into each worker as its preload. The worker itself loads no compiler: it passes
messages (``execute.wire``) to agents (``execute.agent``).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

from gpubuild.execute import wire
from gpubuild.execute.agent import Agent, identity

_STEP_BYTES = 512 << 20  # what a step may need
_DEATH_SECONDS = "60"  # without a scheduler a worker ends
# Settings of Dask's: its profiler takes a sample of each thread 100 times a second, and ours only wait.
ENVIRONMENT = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}


def worker_command(where: Sequence[str], name: str, threads: int, more: Sequence[str]) -> list[str]:
    """Return the command that runs a Dask worker; ``where`` and ``more`` are arguments of Dask's.

    Dask neither limits memory nor spills: compilers run in other processes, and answers are small.
    """
    return [
        *(sys.executable, "-m", "distributed.cli.dask_worker", *where),
        *("--name", name, "--nthreads", str(threads), "--nworkers", "1", "--memory-limit", "0"),
        *("--no-dashboard", "--death-timeout", _DEATH_SECONDS, "--preload", __name__),
        *more,
    ]


def default_threads(cpus: int, memory_bytes: int) -> int:
    """Return how many steps run at once on ``cpus``, if ``memory_bytes`` are for them (0: the machine's)."""
    from distributed.system import MEMORY_LIMIT  # of the machine or the control group

    return max(1, min(cpus, (memory_bytes or int(MEMORY_LIMIT)) // _STEP_BYTES))


def dask_setup(worker: object) -> None:
    """Identify the tools, which takes long the first time. Dask calls this when a worker starts."""
    identity()


_idle: list[Agent] = []  # agents of this worker that run nothing
_idle_lock = threading.Lock()


def run_messages(messages: list[bytes]) -> list[tuple[str, bytes]]:
    """Run jobs one after the other. Return the address of the worker and the answer of each."""
    return [run_message(message) for message in messages]


def run_message(message: bytes) -> tuple[str, bytes]:
    """Run a job in an agent of this worker. Return the address of the worker and the answer.

    Raises nothing: Dask's clients lose a step whose exception they cannot unpickle.
    """
    from distributed import get_worker

    worker = get_worker()
    try:
        return worker.address, _run_in_agent(message, worker)
    except Exception as error:
        return worker.address, wire.pack_refusal(f"{type(error).__name__}: {error}")


def _run_in_agent(message: bytes, worker: Any) -> bytes:  # noqa: ANN401 - Dask's worker
    key = worker.get_current_task()

    def wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state == "executing"

    with _idle_lock:
        agent = _idle.pop() if _idle else None
    agent = agent or Agent(str(worker.name))
    answer = b""
    try:
        answer = agent.run(message, wanted)
    finally:
        # Tools may have changed under an old agent, which then refuses every job.
        if answer and not wire.is_refusal(answer):
            with _idle_lock:
                _idle.append(agent)
        else:
            agent.stop()
    return answer
