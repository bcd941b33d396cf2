"""Detach: start something of our own that goes on after this process has ended."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from gpubuild.settings import closed_environment


def start_detached(command: Sequence[str]) -> None:
    """Start ``command`` in a session of its own, heard by nobody; it outlives us.

    Raises ``OSError`` when it cannot be started.
    """
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
