"""Plain data: frozen objects as mappings, lists, texts and numbers, and back with all types checked.

What is read may come from anywhere: nothing but the fields and types that annotations name is accepted.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gpubuild.support.frozen import fields

_T = TypeVar("_T")
_ATOMS = frozenset({str, int, float, bool, bytes, types.NoneType})


def plain(value: object) -> object:
    """Return ``value`` as JSON and msgpack have it: frozen objects become mappings, paths and enums texts.

    Fields at their defaults are left out.
    """
    kind: Any = type(value)
    if kind in _ATOMS:
        return value
    if kind is tuple or kind is list:
        return [plain(item) for item in value]  # type: ignore[attr-defined]
    if kind is dict:
        return {key: plain(item) for key, item in value.items()}  # type: ignore[attr-defined]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    found = ((name, getattr(value, name), default) for name, default in _fields(kind))
    return {name: plain(item) for name, item, default in found if item != default}


@cache
def _fields(kind: Any) -> list[tuple[str, object]]:  # noqa: ANN401
    """Return the names and the defaults of the fields of a frozen class."""
    return [(field.name, field.default) for field in fields(kind)]


def typed(kind: Any, value: object) -> Any:  # noqa: ANN401 - any annotation, and a value of that type
    """Return the plain ``value`` as ``kind``. Raises ``ValueError`` where it is of another type."""
    return _reader(kind)(value)


@cache
def _reader(kind: Any) -> Callable[[object], Any]:  # noqa: ANN401
    """Return a function that does what :func:`typed` does for ``kind``."""
    kind = getattr(kind, "__supertype__", kind)  # of a NewType
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _reader_of_choice(kind, [_reader(choice) for choice in arguments])
    if origin is tuple and arguments[-1] is Ellipsis:
        read = _reader(arguments[0])
        return lambda value: tuple(map(read, _of(list, value)))
    if origin is tuple:
        return _reader_of_row([_reader(argument) for argument in arguments])
    if origin in (dict, Mapping):
        read_key, read_item = map(_reader, arguments)
        return lambda value: {read_key(k): read_item(v) for k, v in _of(dict, value).items()}
    if kind in (object, Any):
        return lambda value: value
    if hasattr(kind, "__frozen_fields__"):
        return _reader_of_object(kind)
    if issubclass(kind or types.NoneType, Enum):
        return kind  # type: ignore[no-any-return]
    if kind is Path:
        return lambda value: Path(_of(str, value))
    if kind is float:
        return _read_float
    return partial(_of, kind or types.NoneType)


def _of(kind: type[_T], value: object) -> _T:
    if type(value) is kind:
        return value
    raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")


def _read_float(value: object) -> float:
    try:
        return float(value) if type(value) is int else _of(float, value)
    except OverflowError as error:
        raise ValueError("an integer that is too large for a float") from error


def _reader_of_choice(kind: object, choices: Sequence[Callable[[object], Any]]) -> Callable[[object], Any]:
    def read(value: object) -> object:
        for choice in choices:
            try:
                return choice(value)
            except ValueError:
                continue
        raise ValueError(f"expected {kind}, got {type(value).__name__}")

    return read


def _reader_of_row(items: Sequence[Callable[[object], Any]]) -> Callable[[object], Any]:
    def read(value: object) -> tuple[Any, ...]:
        row = _of(list, value)
        if len(row) != len(items):
            raise ValueError(f"expected {len(items)} values, got {len(row)}")
        return tuple([read_item(item) for read_item, item in zip(items, row, strict=True)])

    return read


def _reader_of_object(kind: Any) -> Callable[[object], Any]:  # noqa: ANN401 - a frozen class
    fields: dict[str, Callable[[object], Any]] = {}

    def read(value: object) -> object:
        if not fields:  # a class may contain itself
            fields.update({name: _reader(hint) for name, hint in get_type_hints(kind).items()})
        given = _of(dict, value)
        if unknown := given.keys() - fields.keys():
            raise ValueError(f"{kind.__name__} has no {', '.join(map(repr, unknown))}")
        found = {name: fields[name](item) for name, item in given.items()}
        try:
            return kind(**found)
        except TypeError as error:
            raise ValueError(str(error)) from error

    return read
