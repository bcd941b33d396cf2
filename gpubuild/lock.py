"""Lock: one build at a time may write into a build folder."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from gpubuild.errors import UsageError
from gpubuild.events import BuildWarning, Listener
from gpubuild.graph.layout import Layout


@contextmanager
def build_lock(layout: Layout, listener: Listener) -> Iterator[None]:
    """Hold the folder's lock; wait, and say so, while another build has it.

    The kernel drops the lock when its holder dies, so a killed build never blocks the next one.
    Raises ``UsageError`` when the folder cannot be created or written.
    """
    try:
        layout.private.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(layout.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UsageError(
            f"cannot use the build folder {layout.build_dir}: {error.strerror}",
            hint="choose another one with --build-dir",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                listener.on_event(
                    BuildWarning(
                        message=f"{layout.build_dir} does not support locks ({error.strerror}): "
                        "do not run two builds in it at once"
                    )
                )
            else:
                listener.on_event(BuildWarning(message=f"waiting for another build in {layout.build_dir}"))
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
