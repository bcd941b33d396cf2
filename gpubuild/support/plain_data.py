"""Plain data: frozen objects as mappings, lists, texts and numbers, and back with all types checked.

What is read may come from anywhere: nothing but the fields and types that annotations name is accepted.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from gpubuild.support.frozen import fields, is_frozen

_type_hints = cache(get_type_hints)


def plain(value: object) -> object:
    """Return ``value`` as JSON and msgpack have it: frozen objects become mappings, paths and enums texts.

    Fields at their defaults are left out.
    """
    if is_frozen(value):
        found = ((f.name, getattr(value, f.name), f.default) for f in fields(value))
        return {name: plain(item) for name, item, default in found if item != default}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def typed(kind: Any, value: object) -> Any:  # noqa: ANN401 - any annotation, and a value of that type
    """Return the plain ``value`` as ``kind``. Raises ``ValueError`` where it is of another type."""
    kind = getattr(kind, "__supertype__", kind)  # of a NewType
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        for choice in arguments:
            try:
                return typed(choice, value)
            except ValueError:
                continue
    elif kind is None or kind is type(None):
        if value is None:
            return None
    elif origin is tuple and isinstance(value, list):
        if arguments[-1] is not Ellipsis and len(arguments) != len(value):
            raise ValueError(f"expected {len(arguments)} values, got {len(value)}")
        each = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(typed(item_kind, item) for item_kind, item in zip(each, value, strict=True))
    elif origin in (dict, Mapping) and isinstance(value, dict):
        return {typed(arguments[0], k): typed(arguments[1], v) for k, v in value.items()}
    elif kind in (object, Any):
        return value
    elif isinstance(kind, type):
        return _object(kind, value)
    raise ValueError(f"expected {kind}, got {type(value).__name__}")


def _object(kind: type, value: object) -> object:
    if hasattr(kind, "__frozen_fields__") and isinstance(value, dict):
        hints = _type_hints(kind)
        if unknown := value.keys() - hints.keys():
            raise ValueError(f"{kind.__name__} has no {', '.join(map(repr, unknown))}")
        try:
            return kind(**{name: typed(hints[name], item) for name, item in value.items()})
        except TypeError as error:
            raise ValueError(str(error)) from error
    if issubclass(kind, Enum):
        return kind(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is kind:
        return value
    raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
