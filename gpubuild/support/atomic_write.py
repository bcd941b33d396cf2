"""Files that are replaced as a whole: readers see the old content or the new, never a part of it.

The blobs of the cache have their own code: they are checked while they are written, made durable in
groups, and each kind of failure has its own meaning there.

Imports little: the null build, which has a few milliseconds, writes a file with this.
"""

from __future__ import annotations

import os
import stat

PREFIX = ".gpubuild-"  # of temporary files; a killed process may leave one
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # O_EXCL: never through a link


class Replacement:
    """Context manager: a path to write a file to, which takes the place of ``path`` at the end.

    The file lies in ``folder``, by default beside ``path``. After an exception it is removed, since a
    part of it would fill a disk that is full already.
    """

    def __init__(self, path: str | os.PathLike[str], *, folder: str | os.PathLike[str] = "") -> None:
        self._path = os.fspath(path)
        folder = os.fspath(folder) or os.path.dirname(self._path)
        self._temporary = os.path.join(folder, f"{PREFIX}{os.urandom(8).hex()}.tmp")

    def __enter__(self) -> str:
        return self._temporary

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                os.replace(self._temporary, self._path)
                return
        except OSError:
            self._remove()
            raise
        self._remove()

    def _remove(self) -> None:
        try:  # noqa: SIM105 - contextlib takes its time to load
            os.unlink(self._temporary)
        except OSError:
            pass  # it was never made, or the first error says what is wrong


class UserFile(Replacement):
    """A replacement of a file that the user has named, as for a report.

    Pipes, devices, links, files of others and those in folders that cannot be written stay what they are:
    they are written in place.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        self._mode = 0
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            is_plain = True
        else:
            self._mode = stat.S_IMODE(found.st_mode)
            is_plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_uid == os.geteuid()
            is_plain = is_plain and os.access(path, os.W_OK)
        if not is_plain or not os.access(os.path.dirname(self._path) or ".", os.W_OK | os.X_OK):
            self._temporary = self._path

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._temporary != self._path:
            if kind is None and self._mode:
                os.chmod(self._temporary, self._mode)
            super().__exit__(kind, *rest)


def write_atomically(
    path: str | os.PathLike[str],
    data: bytes | str,
    *,
    mode: int = 0o666,
    folder: str | os.PathLike[str] = "",
) -> None:
    """Replace the file ``path`` by one with ``data``, text as UTF-8. Raises ``OSError``.

    ``mode`` is subject to the umask; ``folder`` is where a temporary file lies meanwhile.
    """
    with Replacement(path, folder=folder) as temporary:
        handle = os.open(temporary, _CREATE, mode)
        with open(handle, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
