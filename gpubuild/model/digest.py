"""Digest: SHA-256 of content, and the injective encoding that keys are computed from."""

from __future__ import annotations

import hashlib
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NewType

from gpubuild.support.frozen import fields, is_frozen

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Digest = NewType("Digest", str)  # 64 lower-case hexadecimal digits


def digest_bytes(data: bytes | memoryview) -> Digest:
    """Return the SHA-256 of ``data``."""
    return Digest(hashlib.sha256(data).hexdigest())


def digest_file(path: Path) -> Digest:
    """Return the SHA-256 of a file's content. Raises ``OSError`` when it cannot be read."""
    with path.open("rb") as stream:
        return Digest(hashlib.file_digest(stream, "sha256").hexdigest())


def is_digest(text: object) -> bool:
    """Whether ``text`` is spelled like a digest; used before one becomes part of a path."""
    # `strip` leaves the first character that is none of these, and what follows it.
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")


def encode(value: object) -> bytes:
    """Encode a tree of plain values so that different trees never give equal bytes.

    Every value is written as a type letter, the length of its body, ``:`` and the body, so that
    neighbours cannot run together. Frozen classes encode their class name and every field that takes
    part in comparison, by name; a field with ``compare=False`` (a description, a display path)
    stands outside identity. Raises ``TypeError`` for anything else, floats among it.
    """
    # Nearly all are plain texts and tuples; subclasses, such as an Enum of texts, come below.
    kind = type(value)
    if kind is str:
        body = value.encode()  # type: ignore[attr-defined]
        return b"s%d:%b" % (len(body), body)
    if kind is tuple:
        return _framed(b"t", b"".join([encode(item) for item in value]))  # type: ignore[attr-defined]
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
        return _framed(b"t", b"".join([encode(item) for item in value]))
    if is_frozen(value):
        known = _encoded.get(id(value))
        if known is not None and known[0] is value:
            return known[1]
        name, names = _identity(type(value))
        body = name + b"".join([encoded + encode(getattr(value, n)) for n, encoded in names])
        framed = _framed(b"d", body)
        if getattr(kind, "SHARED", False):
            _encoded[id(value)] = value, framed
        return framed
    raise TypeError(f"cannot encode {type(value).__name__} into a key")


# Objects of classes that are ``SHARED``: parts of many values, kept here with their encoding.
_encoded: dict[int, tuple[object, bytes]] = {}


@cache
def _identity(kind: type[DataclassInstance]) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """Return the encoded name of a frozen class, and its compared fields with their encoded names."""
    names = tuple((field.name, encode(field.name)) for field in fields(kind) if field.compare)
    return encode(kind.__name__), names


def _framed(letter: bytes, body: bytes) -> bytes:
    return b"%b%d:%b" % (letter, len(body), body)
