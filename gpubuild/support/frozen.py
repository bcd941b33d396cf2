"""Frozen: immutable classes with named fields, made without compiling anything at import.

``@frozen`` is ``@dataclass(frozen=True, slots=True, kw_only=True)``: type checkers take it for that, and
the functions of ``dataclasses`` take its classes for theirs. But ``dataclass`` writes and compiles seven
methods a class (0.45 ms) and imports ``inspect`` (7 ms); with the ninety classes that a build loads, that
was a sixth of one that finds everything in the cache. Here all classes have the same methods, but for
``__init__``, which is compiled when the first object is made.

``field``, ``fields`` and ``replace`` do what those of ``dataclasses`` do, as far as these classes need.
No fields are inherited.
"""
# ruff: noqa: ANN001, ANN003, ANN201, ANN401 - checkers read the first half; the second is for any class

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import field as field  # noqa: PLC0414 - exported
    from dataclasses import fields as fields  # noqa: PLC0414
    from dataclasses import replace as replace  # noqa: PLC0414
    from typing import Any, TypeGuard, TypeVar, dataclass_transform

    from _typeshed import DataclassInstance

    _Class = TypeVar("_Class")

    @dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
    def frozen(kind: type[_Class]) -> type[_Class]:
        """Make a class of the fields that the annotations of ``kind`` name."""

else:

    def frozen(kind):
        """Make a class of the fields that the annotations of ``kind`` name."""
        body = dict(kind.__dict__)
        fields = {n: _as_field(n, body.pop(n, _NOTHING)) for n in body.get("__annotations__", ())}
        compared = [field.name for field in fields.values() if field.compare]
        for instance_has_none in ("__dict__", "__weakref__"):
            body.pop(instance_has_none, None)
        own = {
            "__slots__": tuple(fields),
            "__match_args__": (),
            "__frozen_fields__": fields,
            "__frozen_content__": attrgetter(*compared) if compared else staticmethod(_no_content),
            "__dataclass_fields__": _FieldsOfDataclass(),
        }
        made = type(kind)(kind.__name__, kind.__bases__, {**_METHODS, **body, **own})
        made.__qualname__ = kind.__qualname__
        return made

    def field(*, default=..., default_factory=None, repr=True, compare=True):
        """Return a field with a default made for each object, or one that is not shown or not compared."""
        return _Field("", _NOTHING if default is ... else default, default_factory, repr, compare)

    def fields(kind):
        """Return the fields of a frozen class or object, in order."""
        return tuple(kind.__frozen_fields__.values())

    def replace(old, /, **changes):
        """Return a copy of ``old`` with other values of the fields in ``changes``."""
        for name in old.__frozen_fields__:
            if name not in changes:
                changes[name] = getattr(old, name)
        return type(old)(**changes)


def is_frozen(value: object) -> TypeGuard[DataclassInstance]:
    """Whether ``value`` is an object of a frozen class."""
    return hasattr(type(value), "__frozen_fields__")


class _Field:
    __slots__ = ("compare", "default", "factory", "name", "repr")

    def __init__(
        self, name: str, default: Any, factory: Callable[[], Any] | None, repr: bool, compare: bool
    ) -> None:
        self.name = name
        self.default = default
        self.factory = factory
        self.repr = repr
        self.compare = compare


_NOTHING: Any = object()  # where there is no default, and no argument


def _as_field(name: str, given: Any) -> _Field:
    """Return the field that a class body has under ``name``, or has a default for."""
    if isinstance(given, _Field):
        given.name = name
        return given
    if type(given).__hash__ is None:
        raise ValueError(f"all objects would share the default of {name}: use default_factory")
    return _Field(name, given, None, True, True)


def _no_content(_: object) -> tuple[()]:
    return ()


class _FieldsOfDataclass:
    """``__dataclass_fields__``: made by ``dataclass`` itself when a function of its module asks for it."""

    def __get__(self, _: object, kind: Any) -> dict[str, Any]:
        import dataclasses

        body = {"__annotations__": kind.__annotations__, "__module__": kind.__module__}
        for field in kind.__frozen_fields__.values():
            more = {}
            if field.factory is not None:
                more["default_factory"] = field.factory
            elif field.default is not _NOTHING:
                more["default"] = field.default
            body[field.name] = dataclasses.field(repr=field.repr, compare=field.compare, **more)
        make = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)
        twin: Any = make(type(kind.__name__, (), body))
        kind.__dataclass_fields__ = found = twin.__dataclass_fields__
        return dict(found)


def _init(self: Any, /, **given: Any) -> None:
    """Return the ``__init__`` of a class."""
    _compile_init(type(self))
    self.__init__(**given)


def _compile_init(kind: Any) -> None:
    # An object forbids `self.name = name`; what its class has for each slot does not.
    scope: dict[str, Any] = {"NOTHING": _NOTHING}
    parameters, lines = [], []
    for number, (name, field) in enumerate(kind.__frozen_fields__.items()):
        given, default = name, ""
        if field.factory is not None:
            scope[f"make_{number}"] = field.factory
            given, default = f"make_{number}() if {name} is NOTHING else {name}", "=NOTHING"
        elif field.default is not _NOTHING:
            scope[f"default_{number}"] = field.default
            default = f"=default_{number}"
        scope[f"set_{number}"] = getattr(kind, name).__set__
        parameters.append(name + default)
        lines.append(f"    set_{number}(self, {given})")
    if hasattr(kind, "__post_init__"):
        lines.append("    self.__post_init__()")
    taken = f", *, {', '.join(parameters)}" if parameters else ""
    exec("\n".join([f"def __init__(self{taken}):", *(lines or ["    pass"])]), scope)  # noqa: S102
    made = scope["__init__"]
    made.__qualname__ = f"{kind.__qualname__}.__init__"  # messages about wrong arguments begin with it
    kind.__init__ = made


def _eq(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return self.__frozen_content__(self) == self.__frozen_content__(other)


def _hash(self: Any) -> int:
    return hash(self.__frozen_content__(self))


def _repr(self: Any) -> str:
    shown = [f"{f.name}={getattr(self, f.name)!r}" for f in self.__frozen_fields__.values() if f.repr]
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _setattr(self: object, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__frozen_fields__]


def _setstate(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__frozen_fields__, state, strict=True):
        object.__setattr__(self, name, value)


_METHODS = {
    "__init__": _init,
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}
