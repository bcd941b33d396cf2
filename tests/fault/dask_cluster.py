"""A real Dask cluster of processes on this machine, and what is left of it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

PATIENCE = 120.0
_MARK = "GPUBUILD_TEST_CLUSTER"


class Cluster:
    """A scheduler and workers; ``folder`` has its files, and marks its processes.

    ``variables`` are for all of them: those of certificates, for example.
    """

    def __init__(self, folder: Path, *, host: str = "127.0.0.1", **variables: str) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        self._host = host
        self._variables = variables
        (folder / "tmp").mkdir(parents=True)
        self._started: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            *("distributed.cli.dask_scheduler", "--scheduler-file", str(self.file), "--no-dashboard"),
            *("--host", host, "--port", "0"),
        )
        wait_until(self.file.exists)

    @property
    def address(self) -> str:
        """Return the address of the scheduler."""
        return str(json.loads(self.file.read_text())["address"])

    def start_worker(
        self, name: str, *options: str, before: Sequence[str] = (), **variables: str
    ) -> subprocess.Popen[bytes]:
        """Start a worker with one job slot, and return its nanny. ``options`` are Dask's.

        ``before`` is a command that runs it elsewhere.
        """
        return self._start(
            *("gpubuild", "worker", "--scheduler-file", str(self.file), "--name", name, "--jobs", "1"),
            *("--insecure-remote", "--", "--host", self._host, *options),
            before=before,
            **variables,
        )

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many workers have ever been registered."""
        wait_until(lambda: self.registered() >= count)

    def registered(self) -> int:
        """Return how many workers have ever been registered."""
        return (self.folder / "log").read_text().count("Registered to:")

    def _start(
        self, module: str, *arguments: str, before: Sequence[str] = (), **variables: str
    ) -> subprocess.Popen[bytes]:
        command = [*before, sys.executable, "-m", module, *arguments]
        own = {_MARK: str(self.folder), "TMPDIR": str(self.folder / "tmp")}
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, env={**os.environ, **own, **self._variables, **variables},
                stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        self._started.append(process)
        return process

    def processes(self, words: str = "") -> list[int]:
        """Return the processes of the cluster whose command line has ``words``."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if (
                    entry.name.isdigit()
                    and f"{_MARK}={self.folder}".encode() in (entry / "environ").read_bytes()
                ):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found += [int(entry.name)] if words in line else []
            except OSError:
                continue
        return found

    def kill(self, words: str) -> int:
        """Kill these processes, and return how many there were."""
        found = self.processes(words)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        return len(found)

    def stop(self, nanny: subprocess.Popen[bytes], number: signal.Signals = signal.SIGSTOP) -> None:
        """Stop a worker and its nanny, without ending them; SIGCONT lets them go on."""
        for pid in (nanny.pid, *children(nanny.pid)):
            os.kill(pid, number)

    def run(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start another process, of a module of these tests, that ends with the cluster."""
        return self._start(module, *arguments, PYTHONPATH=str(Path(__file__).parents[1]))

    def end_by_force(self) -> None:
        """Kill scheduler and nannies: everything below them must end by itself."""
        for process in self._started:
            process.kill()
            process.wait()
        wait_until(lambda: not self.processes(), 60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        for process in self._started:
            process.kill()
        for process in self._started:
            process.wait()
        wait_until(lambda: not self.processes() or not self.kill(""))


def children(pid: int) -> list[int]:
    """Return the processes that any thread of a process started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(number) for listed in lists for number in listed.read_text().split()]


def wait_until(condition: object, seconds: float = PATIENCE) -> None:
    """Wait for ``condition()``."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
