"""Foreground: a program of the user's that runs beside us, with our terminal, until it is stopped."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpubuild.errors import UsageError

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_STOP_SECONDS = 3.0


class Foreground:
    """A running program. It shares our streams and our process group, so that Ctrl-C reaches both.

    The kernel kills it when we end. Raises ``UsageError`` when it cannot be started.
    """

    def __init__(self, executable: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                [executable, *arguments],
                env=dict(environment),
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - one prctl call, no locks taken
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"cannot run {executable}: {reason}") from error

    def ended(self) -> int | None:
        """Its exit code, minus a signal's number when one killed it; ``None`` while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to end, and make it end when it does not. Harmless when it has ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)


def _die_with(parent: int) -> Callable[[], None]:
    def before_exec() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(127)

    return before_exec
