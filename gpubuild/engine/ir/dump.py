"""Write a step's IR after every stage, for people to read (``--dump-ir``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from gpubuild.errors import UsageError

_OURS = re.compile(r"\d\d-[\w-]+\.(mlir|ll)")
_current: ContextVar[IrDump | None] = ContextVar("IrDump", default=None)


class IrDump:
    """Write numbered files into a folder, such as ``03-lower.mlir`` for the stage "lower".

    Deletes files of an earlier dump there. Raises ``UsageError`` when the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.stage = "start"
        self._written = 0
        self._last: dict[str, str] = {}
        with _explained(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.iterdir():
                if _OURS.fullmatch(old.name):
                    old.unlink()

    def write(self, suffix: str, text: str) -> None:
        """Add a file, unless its text equals that of the last one with this suffix."""
        if self._last.get(suffix) == text:
            return
        self._last[suffix] = text
        self._written += 1
        with _explained(self._folder):
            (self._folder / f"{self._written:02}-{self.stage}.{suffix}").write_text(text, encoding="utf-8")


@contextmanager
def dumping(folder: Path | None) -> Iterator[None]:
    """Write the dumps of the body into ``folder``, or nothing if that is ``None``."""
    if folder is None:
        yield
        return
    token = _current.set(IrDump(folder))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Set the stage of the body's dumps: a stage of a step, or a pass in one."""
    found = _current.get()
    if found is None:
        yield
        return
    before, found.stage = found.stage, re.sub(r"[^\w]+", "-", name)
    try:
        yield
    finally:
        found.stage = before


def dump(suffix: str, text: Callable[[], str]) -> None:
    """Write the current IR if the step dumps; only then is ``text`` called."""
    if (found := _current.get()) is not None:
        found.write(suffix, text())


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"cannot write IR into {folder}: {error.strerror}", hint="choose another folder with --dump-ir"
        ) from error
