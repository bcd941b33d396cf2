"""Spec: a small language that says which values a document may hold.

The loader (config.check) and the published JSON Schema (config.schema) are both computed from it,
so that an editor and a build agree on what is right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpubuild.config.tree import Shape
from gpubuild.frozen import field, frozen


@frozen
class Text:
    """Text matching ``pattern`` as a whole. ``what`` describes it: "a chip name"."""

    what: str = "text"
    pattern: str = r"[\s\S]+"  # not empty
    advice: str = ""  # how to correct what people write instead


@frozen
class Choice:
    """One of a few words."""

    words: tuple[str, ...]


@frozen
class Flag:
    """``true`` or ``false``, spelled like that."""


@frozen
class Nothing:
    """No value behind the colon."""


@frozen
class Number:
    """A number of any kind and notation, of which the text counts: 3, 0x10, 1e-3."""


@frozen
class Whole:
    """A whole number in decimal. ``maximum`` of ``None`` means no limit."""

    minimum: int = 0
    maximum: int | None = None


@frozen
class ListOf:
    """A list. ``unique`` refuses an item that is there already."""

    item: Text | Choice
    min_items: int = 0
    unique: bool = False


@frozen
class Key:
    """One key of a record. ``aka`` are words people use for it elsewhere, for suggestions."""

    spec: Spec
    help: str
    required: bool = False
    default: bool | int | str | None = None  # documentation; the loader applies it
    aka: tuple[str, ...] = ()


@frozen
class Record:
    """A mapping with known keys. ``what`` names it in messages; ``empty`` allows nothing at all."""

    what: str
    keys: Mapping[str, Key]
    empty: bool = True

    def key_for(self, word: str) -> str:
        """The key that ``word`` is another name of, or an empty string."""
        return next((name for name, key in self.keys.items() if word.lower() in key.aka), "")


@frozen
class Table:
    """A mapping whose keys are the user's own names, at least ``min_items`` of them."""

    what: str
    name: Text
    value: Spec
    min_items: int = 0
    empty: bool = False


@frozen
class Either:
    """One of several specs, told apart by the shape of the value."""

    options: tuple[Spec, ...] = field(default=())


Spec = Text | Choice | Flag | Nothing | Number | Whole | ListOf | Record | Table | Either


def shapes(spec: Spec) -> frozenset[Shape]:
    """The shapes that values of ``spec`` may have."""
    match spec:
        case Text() | Choice():
            return frozenset({Shape.TEXT})
        case Flag():
            return frozenset({Shape.FLAG})
        case Nothing():
            return frozenset({Shape.NULL})
        case Number():
            return frozenset({Shape.WHOLE, Shape.NUMBER})
        case Whole():
            return frozenset({Shape.WHOLE})
        case ListOf():
            return frozenset({Shape.LIST})
        case Record(empty=empty) | Table(empty=empty):
            return frozenset({Shape.MAP, Shape.NULL} if empty else {Shape.MAP})
        case Either(options=options):
            return frozenset().union(*(shapes(option) for option in options))


def fits(text: str, spec: Text) -> bool:
    """Whether ``text`` matches the whole of the pattern of ``spec``."""
    return re.fullmatch(spec.pattern, text) is not None


def path_with(suffixes: tuple[str, ...], what: str) -> Text:
    """A file's name that ends with one of ``suffixes``."""
    endings = "|".join(suffix[1:] for suffix in suffixes)
    return Text(what=f"{what} ({' '.join(suffixes)})", pattern=rf".*[^/]\.({endings})")
