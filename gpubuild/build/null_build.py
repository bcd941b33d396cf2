"""Receipts: proofs that a request has nothing to do, checked in milliseconds.

A successful build leaves one for its request. It lists everything the build depended on: files with
stat data and digest, files with stat data only (tools), missing paths, and facts about the host. While
all of that is unchanged, the outputs are those that a build would make. A receipt proves by content,
so an old one is never wrong. Anything unexpected in it leads to a whole build.

This module imports little, since every millisecond counts. Format: a line with the format's name and
the CRC-32 of the rest, a line of JSON to check, a line of JSON to show.

An edit of comments in an MLIR source leaves nothing to do but new numbers of lines for messages of programs
(``support.code_lines``).
"""

from __future__ import annotations

import json
import os
import sys
import time
from zlib import crc32

from gpubuild import environment
from gpubuild.support.file_stamp import is_settled, stat_of
from gpubuild.support.files import write_atomically
from gpubuild.support.patterns import matches

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeAlias

    from gpubuild.support.file_stamp import Stat

_FORMAT = "gpubuild.receipt/2"
_NO_DIGEST = "-" * 64
_MOST_BYTES = 1 << 24  # of a source that is searched for comments: the search needs four times as much memory

# Names in a folder of sys.path that can change which of our packages are found.
_PACKAGES = ("gpubuild", "llvmlite", "mlir", "nvidia", "xtc_llvm", "xtc_mlir", "ziglang")

Known: TypeAlias = "tuple[Stat, int, str]"  # stat data, when the file was read (ns), digest or ""
Request: TypeAlias = "list[Any]"

reread: dict[str, Known] = {}  # files that the check of a receipt has read, for the build that follows it


def request_of(
    file: str,
    build_dir: str,
    programs: Iterable[str],
    targets: Iterable[str],
    variant: Iterable[Any] = ("", [], []),
) -> Request:
    """Return a request. ``file`` and ``build_dir`` are absolute; order counts.

    ``variant`` is ``model.project.Variant.request()``.
    """
    return [file, build_dir, list(programs), list(targets), *variant]


def host_facts() -> dict[str, Any]:
    """Return what a build depends on besides files: this Python, the variables, the machine."""
    listings = []
    for folder in sys.path:
        try:
            names = sorted(n for n in os.listdir(folder or ".") if n.lower().startswith(_PACKAGES))
        except OSError:
            names = ["?"]
        listings.append([folder, names])
    return {
        "python": sys.version,
        "executable": sys.executable,
        "path": listings,
        "variables": environment.tool_variables(),
        # Relative paths in variables start here.
        "cwd": os.getcwd() if _has_relative(environment.tool_variables()) else "",
        "machine": os.uname().machine,
    }


def folder_of(build_dir: str) -> str:
    """Return the folder of a build folder's receipts."""
    return os.path.join(build_dir, ".gpubuild", "receipts")


def path_for(request: Request) -> str:
    """Return the file of a request's receipt."""
    name = f"{crc32(json.dumps(request).encode()):08x}"  # two requests of one name replace each other's
    return os.path.join(folder_of(request[1]), name)


def dumps(check: dict[str, Any], show: dict[str, Any]) -> bytes:
    """Return the bytes of a receipt file."""
    body = "\n".join(json.dumps(part, separators=(",", ":")) for part in (check, show)).encode()
    return f"{_FORMAT} {crc32(body):08x}\n".encode() + body


def write(path: str, data: bytes) -> None:
    """Replace a receipt file. Raises ``OSError``."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_atomically(path, data)


def pack_files(known: dict[str, Known]) -> dict[str, Any]:
    """Return files by folder: names, four lists of stat data, digests joined to one text."""
    folders: dict[str, Any] = {}
    for path in sorted(known):
        (size, mtime, ctime, inode), _, digest = known[path]
        folder, _, name = path.rpartition("/")
        entry = folders.setdefault(f"{folder}/", [[], [], [], [], [], []])
        for column, value in zip(entry, (name, size, mtime, ctime, inode, digest or _NO_DIGEST), strict=True):
            column.append(value)
    for entry in folders.values():
        entry[5] = "".join(entry[5])
    return folders


class Receipt:
    """A receipt that was read; see :func:`read`."""

    def __init__(self, path: str, check: dict[str, Any], show: bytes) -> None:
        self._path = path
        self._check = check
        self._show = show
        self.edited = ""  # the file with other content that made :meth:`proves` return false

    @property
    def steps(self) -> int:
        """Number of steps of the build."""
        count: int = self._check["steps"]
        return count

    @property
    def programs(self) -> list[list[str]]:
        """Name and executable of every requested program."""
        programs: list[list[str]] = self._check["programs"]
        return programs

    @property
    def warnings(self) -> list[str]:
        """Warnings of steps, shown at every build."""
        warnings: list[str] = self._check["warnings"]
        return warnings

    def show(self) -> dict[str, Any]:
        """Return a document for reports: ``steps`` has id, kind, module, target and outputs of each."""
        document: dict[str, Any] = json.loads(self._show)
        return document

    def proves(self, request: Request, *, writes: bool = True) -> bool:
        """Whether ``request`` has nothing to do.

        With ``writes``, what was read is noted in the receipt, and edited comments move the lines of places.
        """
        check = self._check
        if check["request"] != request or check["scene"] != host_facts():
            return False
        if check["boot"] != environment.boot():
            return False
        if any(os.path.exists(path) for path in check["absent"]):
            return False
        if check["patterns"] and any(matches(*p) != found for *p, found in check["patterns"]):
            return False
        doubtful = list(dict.fromkeys((*_changed(check["files"]), *check["doubtful"])))
        return not doubtful or self._read_again(doubtful, writes)

    def _read_again(self, doubtful: list[str], writes: bool) -> bool:
        """Whether files whose stat data prove nothing have the same content, but for comments of sources.

        Sources are read first, since an edit of one replaces outputs, which may be large.
        """
        known = _unpack(self._check["files"])
        tables = self._check["tables"]
        edited = []
        for path in doubtful:
            before = known[path]
            if path in tables and not self._is_same(path, known):
                if known[path] is before or known[path][0][0] > _MOST_BYTES:
                    return False
                edited.append(path)  # perhaps only its comments
        if edited and not self._move_lines(edited, known, writes=False):
            return False
        if not all(self._is_same(path, known) for path in doubtful if path not in tables):
            return False
        if not writes:
            return True
        if edited and not self._move_lines(edited, known, writes=True):
            return False
        self.edited = ""
        new_tables = [table for path in edited for table in tables[path]]
        still_doubtful = [p for p in (*doubtful, *new_tables) if not is_settled(known[p][0], known[p][1])]
        self._check["files"] = pack_files(known)
        self._check["doubtful"] = sorted(set(still_doubtful))
        try:  # noqa: SIM105 - contextlib is not imported yet
            write(self._path, dumps(self._check, json.loads(self._show)))
        except OSError:
            pass  # then the next check reads the files again
        return True

    def _is_same(self, path: str, known: dict[str, Known]) -> bool:
        """Whether a file has its known content. Notes what it has now in ``known``."""
        digest = known[path][2]
        if not digest:  # only its stat data are known
            return False
        found = _digest_again(path)
        if found is None:
            return False
        reread[path] = known[path] = found
        if found[2] != digest:
            self.edited = path
            return False
        return path not in self._check["executables"] or bool(os.stat(path).st_mode & 0o100)

    def _move_lines(self, sources: list[str], known: dict[str, Known], writes: bool) -> bool:
        """Whether only comments of sources were edited; if so, their tables of places get the new lines.

        Nothing else that the build has made contains numbers of lines, except texts for error messages, which
        the next build that runs a step writes again first.
        """
        import fcntl

        from gpubuild.support.code_lines import moved

        try:
            lock = os.open(os.path.join(os.path.dirname(os.path.dirname(self._path)), "lock"), os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for source in sources:
                    text = _content(source, known[source][2])
                    for table in self._check["tables"][source]:
                        new = moved(_content(table, known[table][2]), text)
                        if new is None:
                            return False
                        if not writes:
                            continue
                        write_atomically(table, new)
                        found = _digest_again(table)
                        if found is None:
                            return False
                        known[table] = found
            finally:
                os.close(lock)
        except (OSError, ValueError):  # another build runs, or changed a file; or a text is not UTF-8
            return False
        return True


def read(path: str) -> Receipt | None:
    """Return the receipt in a file; ``None`` when there is none or it is damaged."""
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError:
        return None
    head, _, body = data.partition(b"\n")
    if head != f"{_FORMAT} {crc32(body):08x}".encode():
        return None
    check, _, show = body.partition(b"\n")
    return Receipt(path, json.loads(check), show)


def _changed(folders: dict[str, Any]) -> Iterable[str]:
    """Yield files whose stat data have changed. Costs little more than a system call for each file."""
    stat = os.stat
    for folder, (names, sizes, mtimes, ctimes, inodes, _) in folders.items():
        for name, size, mtime, ctime, inode in zip(names, sizes, mtimes, ctimes, inodes, strict=True):
            try:
                found = stat(folder + name)
            except OSError:
                yield folder + name
                continue
            if (
                found.st_mtime_ns != mtime
                or found.st_size != size
                or found.st_ctime_ns != ctime
                or found.st_ino != inode
            ):
                yield folder + name


def _unpack(folders: dict[str, Any]) -> dict[str, Known]:
    known: dict[str, Known] = {}
    for folder, (names, sizes, mtimes, ctimes, inodes, digests) in folders.items():
        rows = zip(names, sizes, mtimes, ctimes, inodes, strict=True)
        for number, (name, size, mtime, ctime, inode) in enumerate(rows):
            digest = digests[64 * number : 64 * number + 64]
            known[folder + name] = ((size, mtime, ctime, inode), 0, "" if digest == _NO_DIGEST else digest)
    return known


def _digest_again(path: str) -> Known | None:
    """Read a file; return ``None`` if that fails or the file changes meanwhile."""
    import hashlib

    try:
        if not os.path.isfile(path):  # opening a pipe would wait for a writer
            return None
        at = time.time_ns()
        before = stat_of(path)
        with open(path, "rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if stat_of(path) != before:
            return None
    except OSError:
        return None
    return before, at, digest


def _content(path: str, digest: str) -> str:
    """Return the text of a file with ``digest``. Raises ``OSError`` and ``ValueError``."""
    import hashlib

    with open(path, "rb") as stream:
        data = stream.read()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(path)
    return data.decode()


def _has_relative(variables: dict[str, str]) -> bool:
    named = (value for name, value in variables.items() if name not in ("PATH", "GLIBC_TUNABLES"))
    return any(not value.startswith("/") for value in named)
