"""Detach: start something of our own that goes on after this process has ended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpubuild.settings import closed_environment, python_command


def collect_later(directory: Path, size_bytes: int) -> None:
    """Have another process collect garbage in the cache ``directory``: a build has a user waiting."""
    gc = ("cache", "gc", "--background", "--cache-dir", str(directory), "--max-size", str(size_bytes))
    with suppress(OSError):
        start_detached((*python_command(), *gc))


def start_detached(command: Sequence[str]) -> None:
    """Start ``command`` in a session of its own, heard by nobody; it outlives us.

    Raises ``OSError`` when it cannot be started.
    """
    import subprocess  # most builds start nothing

    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=closed_environment(),
        cwd="/",
        start_new_session=True,
    )
    process.returncode = 0  # init reaps it when we are gone; nobody here waits for it
