"""Digest: SHA-256 of content, and the injective encoding that keys are computed from."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import NewType

Digest = NewType("Digest", str)  # 64 lower-case hexadecimal digits


def digest_bytes(data: bytes) -> Digest:
    """SHA-256 of ``data``."""
    return Digest(hashlib.sha256(data).hexdigest())


def digest_file(path: Path) -> Digest:
    """SHA-256 of a file's content. Raises ``OSError`` when it cannot be read."""
    with path.open("rb") as stream:
        return Digest(hashlib.file_digest(stream, "sha256").hexdigest())


def is_digest(text: object) -> bool:
    """Whether ``text`` is spelled like a digest; used before one becomes part of a path."""
    return isinstance(text, str) and len(text) == 64 and all(c in "0123456789abcdef" for c in text)


def encode(value: object) -> bytes:
    """Encode a tree of plain values so that different trees never give equal bytes.

    Every value is written as a type letter, the length of its body, ``:`` and the body, so that
    neighbours cannot run together. Dataclasses encode their class name and every field that takes
    part in comparison, by name; a field with ``compare=False`` (a description, a display path)
    stands outside identity. Raises ``TypeError`` for anything else, floats among it.
    """
    if value is None:
        return b"n0:"
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, bool):
        return b"b1:" + (b"1" if value else b"0")
    if isinstance(value, int):
        return _framed(b"i", str(value).encode())
    if isinstance(value, str):
        return _framed(b"s", value.encode())
    if isinstance(value, bytes):
        return _framed(b"y", value)
    if isinstance(value, tuple):
        return _framed(b"t", b"".join(encode(item) for item in value))
    if is_dataclass(value) and not isinstance(value, type):
        body = encode(type(value).__name__)
        for field in fields(value):
            if field.compare:
                body += encode(field.name) + encode(getattr(value, field.name))
        return _framed(b"d", body)
    raise TypeError(f"cannot encode {type(value).__name__} into a key")


def _framed(letter: bytes, body: bytes) -> bytes:
    return letter + str(len(body)).encode() + b":" + body
