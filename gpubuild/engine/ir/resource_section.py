"""Resource section: take the data out of the ``{-# dialect_resources … #-}`` section of MLIR text.

Data of weights are hexadecimal there: 1 GB of text for 500 MB. To have MLIR read and print that in
each step would take minutes, so only the text around the digits is given to it.
"""

from __future__ import annotations

import hashlib
import re
from binascii import unhexlify
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from gpubuild.model.digest import Digest

_MARK = b"dialect_resources"
_BLOBS = (_MARK, b"builtin")  # the names that `dense_resource` attributes refer to
_CODE = re.compile(rb'"|//|\{-#')
_TOKEN = re.compile(rb'(?:\s|//[^\n]*)*((?P<kind>#-\}|[{}:,"])|[A-Za-z_][\w.$-]*)')
_ESCAPE = re.compile(rb'\\(?:([0-9A-Fa-f]{2})|(["\\nt]))')
_LETTERS = {b"n": b"\n", b"t": b"\t"}
_START = len('"0x') + 8  # the digits after these are data: those before say how they are aligned
_CHUNK = 1 << 24  # digits or bytes at once
_ALIGNMENT = 64  # bytes, of what is written here


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """The hexadecimal digits of one resource: ``text[start:end]``."""

    text: bytes
    start: int
    end: int

    def copy_to(self, stream: BinaryIO) -> Digest:
        """Write the data that they stand for and return its digest. Raises ``ValueError``."""
        digest = hashlib.sha256()
        with memoryview(self.text) as view:
            for at in range(self.start, self.end, _CHUNK):
                data = unhexlify(view[at : min(at + _CHUNK, self.end)])
                digest.update(data)
                stream.write(data)
        return Digest(digest.hexdigest())


def write_section(stream: TextIO, resources: Mapping[str, Path]) -> None:
    """Write a section that has the data of files by the names of resources."""
    stream.write("\n{-#\n  dialect_resources: {\n    builtin: {")
    for number, (name, path) in enumerate(resources.items()):
        stream.write(f'{"," * bool(number)}\n      {name}: "0x{_ALIGNMENT.to_bytes(4, "little").hex()}')
        with path.open("rb") as source:
            while data := source.read(_CHUNK):
                stream.write(data.hex())
        stream.write('"')
    stream.write("\n    }\n  }\n#-}\n")


class _UnexpectedError(Exception):
    """The section is not written as MLIR prints it."""


def separate(text: bytes) -> tuple[bytes, dict[str, Digits]]:
    """The text without the data of its resources, and these by their names.

    Lines stay what they are. A section in an unknown form stays as it is, for MLIR to read or refuse.
    """
    if _MARK not in text:
        return text, {}
    found: dict[bytes, Digits] = {}
    try:
        for start in _sections(text):
            found.update(_read(text, start))
        names = {_unquoted(name): digits for name, digits in found.items()}
    except (_UnexpectedError, UnicodeDecodeError):
        return text, {}
    kept, at = [], 0
    for digits in sorted(found.values(), key=lambda d: d.start):
        kept.append(text[at : digits.start])
        at = digits.end
    return b"".join([*kept, text[at:]]), names


def _sections(text: bytes) -> Iterator[int]:
    """Where each section begins, behind its bracket: not in a string or a comment."""
    at = 0
    while found := _CODE.search(text, at):
        match found[0]:
            case b'"':
                at = _string_end(text, found.end()) + 1
            case b"//":
                at = text.find(b"\n", found.end())
                if at < 0:
                    return
            case _:
                at = found.end()
                yield at


def _read(text: bytes, at: int) -> dict[bytes, Digits]:
    """The resources of the section that begins at ``at``, by names as they are written."""
    found: dict[bytes, Digits] = {}
    path: list[bytes] = []
    name = b""  # whose value comes next
    tokens = _tokens(text, at)
    for kind, start, end in tokens:
        match kind:
            case b"#-}":
                _expect(not path and not name)
                return found
            case b"{":
                _expect(bool(name))
                path.append(name)
                name = b""
            case b"}":
                _expect(bool(path) and not name)
                path.pop()
            case b",":
                _expect(not name)
            case _ if not name:
                name = text[start:end]
                _expect(next(tokens)[0] == b":")
            case _:
                digits = Digits(text=text, start=start + _START, end=end - 1)
                if (*path,) == _BLOBS and text[start : start + 3] == b'"0x' and _is_whole(digits):
                    found[name] = digits
                name = b""
    return found


def _tokens(text: bytes, at: int) -> Iterator[tuple[bytes, int, int]]:
    """Signs, quoted texts (as a quote) and words (as nothing) of a section, and where they are."""
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise _UnexpectedError
        start, at = token.span(1)
        if token["kind"] == b'"':
            at = _string_end(text, at) + 1
        yield token["kind"] or b"", start, at


def _expect(true: bool) -> None:
    if not true:
        raise _UnexpectedError


def _is_whole(digits: Digits) -> bool:
    return digits.end > digits.start and (digits.end - digits.start) % 2 == 0


def _string_end(text: bytes, at: int) -> int:
    """Where the string that begins at ``at`` has its closing quote."""
    while True:
        end = text.find(b'"', at)
        if end < 0:
            raise _UnexpectedError
        before = end
        while before > at and text[before - 1 : before] == b"\\":
            before -= 1
        if (end - before) % 2 == 0:
            return end
        at = end + 1


def unquoted(name: str) -> str:
    """A name as it is, which the text may have in quotes."""
    return _unquoted(name.encode())


def _unquoted(name: bytes) -> str:
    if not name.startswith(b'"'):
        return name.decode()
    return _ESCAPE.sub(
        lambda found: bytes.fromhex(found[1].decode()) if found[1] else _LETTERS.get(found[2], found[2]),
        name[1:-1],
    ).decode()
