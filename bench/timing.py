"""Timing for the benchmarks: whole processes, medians, and what machine it was."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has compiled modules


@dataclass(slots=True)
class Samples:
    """Wall times in seconds of one thing measured several times, and what it did last time."""

    seconds: list[float] = field(default_factory=list)
    did: str = ""

    def add(self, seconds: float, did: str = "") -> None:
        self.seconds.append(seconds)
        self.did = did

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def text(self) -> str:
        """Milliseconds: median and range."""
        return f"{ms(self.median)} ({ms(min(self.seconds))}-{ms(max(self.seconds))})"


def ms(seconds: float) -> str:
    """Milliseconds, with a digit after the point where it says something."""
    value = seconds * 1000
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def gpubuild_command() -> list[str]:
    """How users start the product of this Python: its script, else the module."""
    script = Path(sys.executable).with_name("gpubuild")
    return [str(script)] if script.exists() else [sys.executable, "-m", "gpubuild"]


def timed(
    command: Sequence[str | Path], folder: Path, environment: Mapping[str, str] | None = None
) -> tuple[float, str]:
    """Seconds a process took from start to end, and what it printed. Ends the benchmark if it fails."""
    os.sync()  # what others have left to be written is not for this process to wait for
    start = time.perf_counter()
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=None if environment is None else {**os.environ, **environment},
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        shown = " ".join(map(str, command))
        sys.exit(f"{shown}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return seconds, done.stdout


def bare_python() -> float:
    """Seconds of a Python that does nothing: the floor of every figure of a Python program."""
    return timed([sys.executable, "-c", ""], ROOT)[0]


def peak_mb() -> float:
    """The most memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def machine() -> str:
    """What the figures depend on, for the head of a result; a load above the CPUs means other work."""
    cpus = len(os.sched_getaffinity(0))
    load = os.getloadavg()[1]
    return f"{cpus} CPUs, Python {platform.python_version()}, {platform.machine()}, load average {load:.1f}"


def put_aside(path: Path) -> None:
    """Make room at ``path`` without deleting what is there: it goes with the scratch folder.

    ext4 passes over the inodes of files deleted in the last minutes one by one when it creates new
    ones (``recently_deleted`` in its ialloc.c), so that whoever comes after a large deletion would
    pay for it: up to a millisecond a file.
    """
    if path.exists():
        path.rename(path.with_name(f"{path.name}.{time.monotonic_ns()}"))
