"""Lock of a build folder: one build at a time may write to it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from gpubuild.errors import UsageError
from gpubuild.model.events import BuildWarning, Listener
from gpubuild.plan.layout import Layout
from gpubuild.support.files import is_file_of, try_lock

_ATTEMPTS = 100


@contextmanager
def build_lock(layout: Layout, listener: Listener) -> Iterator[None]:
    """Hold the folder's lock; wait, with a warning, while another build has it.

    The kernel releases the lock when its owner dies, so a killed build never blocks the next one.
    Raises ``UsageError`` when the folder cannot be created or written, or is a link.
    """
    if layout.private.is_symlink():
        raise UsageError(
            f"refusing to use {layout.private}: it is a symbolic link, and its target may not be ours",
            hint="delete the link, or choose another build folder with --build-dir",
        )
    warned = False
    for attempts_left in reversed(range(_ATTEMPTS)):
        descriptor = _open(layout)
        try:
            if not _take(descriptor, layout, listener, warned=warned):
                warned = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # While we waited, `clean` may have deleted the file: a lock on a file without a name
            # excludes no other build. Some network file systems change inode numbers at each stat.
            if is_file_of(descriptor, layout.lock_file) or not attempts_left:
                yield
                return
        finally:
            os.close(descriptor)


def remove_links(layout: Layout) -> None:
    """Delete symbolic links in the private folder. gpubuild makes none there.

    A build would append to the file, or sweep the folder, at the end of such a link.
    """
    for path in layout.private.iterdir():
        if path.is_symlink():
            path.unlink(missing_ok=True)


def _open(layout: Layout) -> int:
    attempts = 3
    while True:
        attempts -= 1
        try:
            layout.private.mkdir(parents=True, exist_ok=True)
            return os.open(layout.lock_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if isinstance(error, (FileNotFoundError, FileExistsError)) and attempts:
                continue  # `clean` deleted the folder between two calls, those of `mkdir` included
            raise UsageError(
                f"cannot use the build folder {layout.build_dir}: {error.strerror}",
                hint="choose another one with --build-dir",
            ) from error


def _take(descriptor: int, layout: Layout, listener: Listener, *, warned: bool) -> bool:
    """Take the lock if it is free; without support for locks, warn and go on."""
    taken = try_lock(descriptor)
    if taken is None:
        text = f"{layout.build_dir} does not support locks: do not run two builds in it at once"
        listener.on_event(BuildWarning(message=text))
    elif not taken and not warned:
        listener.on_event(BuildWarning(message=f"waiting for another build in {layout.build_dir}"))
    return taken is not False
