"""Private folders for jobs, deleted when they are no longer needed, also after a kill."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from gpubuild.errors import NoRoomError
from gpubuild.model.job import LOG_FILE, STAGE_FILE
from gpubuild.support.files import delete_tree, is_file_of, try_lock

_LOCK_SUFFIX = ".lock"
_KEPT = ("out", "tmp")  # the folders that each job makes
# The files that each job makes. On ext4, a new file takes longer the more were deleted shortly before.
_EMPTIED = (LOG_FILE, STAGE_FILE)
_OLD_SECONDS = 24 * 3600.0  # where there are no locks, age shows leftovers


class WorkArea:
    """Folders in ``directory`` (made when needed), one session per object.

    A session locks a file beside its folder while its process lives, so that the next session can
    distinguish leftovers of a killed build from the work of another one.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._session: Path | None = None
        self._count = 0
        self._free: list[Path] = []

    def new(self) -> Path:
        """Return a folder for one job, with empty files at most. Raises ``NoRoomError`` if that fails."""
        if self._free:
            return self._free.pop()
        try:
            if self._session is None:
                self._session = self._open_session()
            self._count += 1
            folder = self._session / str(self._count)
            folder.mkdir(mode=0o700)
        except OSError as error:
            raise NoRoomError(
                f"cannot make a working folder in {self._directory}: {error.strerror}",
                hint="free some space or choose another folder with --build-dir",
            ) from error
        return folder

    def release(self, folder: Path) -> None:
        """Delete a folder of :meth:`new` with its content."""
        delete_tree(folder)

    def reuse(self, folder: Path) -> None:
        """Delete the files in a folder of :meth:`new`, and let another job have it.

        The subfolders and empty files that each job makes stay. A folder with other subfolders is deleted.
        """
        try:
            for entry in _entries(folder):
                if entry.name in _KEPT and entry.is_dir(follow_symlinks=False):
                    for file in _entries(entry):
                        os.unlink(file)
                elif entry.name in _EMPTIED and entry.is_file(follow_symlinks=False):
                    os.truncate(entry, 0)
                else:
                    os.unlink(entry)
            self._free.append(folder)
        except OSError:
            delete_tree(folder)

    def _open_session(self) -> Path:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sweep()
        while True:
            session = self._directory / f"{os.getpid()}-{os.urandom(4).hex()}"
            lock = session.with_name(session.name + _LOCK_SUFFIX)
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            # Another session may have taken the lock and deleted the file before.
            if try_lock(handle) is not False and is_file_of(handle, lock):
                break
            os.close(handle)
        session.mkdir(mode=0o700)
        import weakref

        weakref.finalize(self, _close_session, session, lock, handle, os.getpid())
        return session

    def _sweep(self) -> None:
        """Delete the folders of sessions whose process is gone."""
        for entry in list(self._directory.iterdir()):
            lock = entry if entry.suffix == _LOCK_SUFFIX else entry.with_name(entry.name + _LOCK_SUFFIX)
            try:
                handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                delete_tree(entry)  # a session makes its lock before its folder
                continue
            except OSError:
                continue
            try:
                owned = try_lock(handle)
                if owned or (owned is None and time.time() - os.fstat(handle).st_mtime > _OLD_SECONDS):
                    delete_tree(lock.with_suffix(""))
                    lock.unlink(missing_ok=True)
            except OSError:
                continue
            finally:
                os.close(handle)


def _entries(folder: os.PathLike[str]) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _close_session(session: Path, lock: Path, handle: int, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the owner ended, not the owner
        return
    delete_tree(session)
    with suppress(OSError):
        lock.unlink()
    with suppress(OSError):
        os.close(handle)
