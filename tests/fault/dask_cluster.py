"""A real Dask cluster of processes on this machine, and what is left of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 120.0
_MARK = "GPUBUILD_TEST_CLUSTER"


class Cluster:
    """A scheduler and workers; ``folder`` has its files, and marks its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "scheduler.json"
        (folder / "tmp").mkdir(parents=True)
        self._started: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0")
        wait_until(self.file.exists)

    def start_worker(self, name: str, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a worker with one thread, and return its nanny."""
        return self._start(
            "worker", "--name", name, "--nthreads", "1", "--host", "127.0.0.1", *options, **variables
        )

    def _start(self, what: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(self.file)]
        environment = {**os.environ, **variables, _MARK: str(self.folder), "TMPDIR": str(self.folder / "tmp")}
        log = (self.folder / "log").open("ab")
        process = subprocess.Popen(
            [*command, "--no-dashboard", *arguments], env=environment, stdout=log, stderr=log, cwd=self.folder
        )
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

    def stop(self, nanny: subprocess.Popen[bytes]) -> None:
        """Stop a worker and its nanny, without ending them."""
        listed = Path(f"/proc/{nanny.pid}/task/{nanny.pid}/children").read_text().split()
        for pid in (nanny.pid, *map(int, listed)):
            os.kill(pid, signal.SIGSTOP)

    def close(self) -> None:
        """End all processes."""
        for process in self._started:
            process.kill()
        for process in self._started:
            process.wait()
        wait_until(lambda: not self.processes() or not self.kill(""))


def wait_until(condition: object, seconds: float = PATIENCE) -> None:
    """Wait for ``condition()``."""
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
