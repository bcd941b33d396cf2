"""Frozen classes are what ``dataclass(frozen=True, slots=True, kw_only=True)`` makes, seen from outside."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpubuild.support import frozen as module
from gpubuild.support.frozen import field, fields, frozen, is_frozen, replace


class Plain:
    """Doc."""

    name: str
    size: int = 3
    notes: list[str] = field(default_factory=list)
    secret: str = field(default="", repr=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def twice(self) -> int:
        return self.size * 2


@frozen
class Checked:
    low: int
    high: int = 9

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low")


def _dataclass() -> Any:
    body = {name: value for name, value in vars(Plain).items() if name not in ("__dict__", "__weakref__")}
    body |= {
        "notes": dataclasses.field(default_factory=list),
        "secret": dataclasses.field(default="", repr=False),
        "seconds": dataclasses.field(default=0.0, compare=False),
    }
    return dataclasses.dataclass(frozen=True, slots=True, kw_only=True)(type("Plain", (), body))


Ours: Any = frozen(Plain)
Theirs: Any = _dataclass()
CALLS: list[dict[str, Any]] = [
    {"name": "a"},
    {"name": "a", "size": 4, "notes": ["x"], "secret": "s", "seconds": 1.0},
    {},
    {"name": "a", "colour": 1},
]


def _tried(kind: Any, given: dict[str, Any]) -> object:
    try:
        return [getattr(kind(**given), f.name) for f in dataclasses.fields(kind)]
    except TypeError as error:
        return str(error)


@pytest.mark.parametrize("given", CALLS)
def test_made_as_a_dataclass_is(given: dict[str, Any]) -> None:
    assert _tried(Ours, given) == _tried(Theirs, given)


def test_shown_compared_and_kept_as_a_dataclass_is() -> None:
    ours, theirs = (kind(name="a", secret="s", seconds=2.0) for kind in (Ours, Theirs))
    assert repr(ours) == repr(theirs)
    assert (ours.__doc__, ours.twice, ours.__match_args__) == (theirs.__doc__, 6, theirs.__match_args__)
    assert ours == Ours(name="a", secret="s", seconds=3.0)  # seconds are not compared
    assert ours != Ours(name="a", secret="t", seconds=2.0)
    assert ours != theirs
    assert not hasattr(ours, "__dict__")
    assert Ours.__qualname__ == Plain.__qualname__


def test_a_default_is_made_anew() -> None:
    assert Ours(name="a").notes is not Ours(name="a").notes
    with pytest.raises(ValueError, match="default_factory"):
        frozen(type("Shared", (), {"__annotations__": {"all": "list"}, "all": []}))


def test_nothing_can_be_changed() -> None:
    made = Ours(name="a")
    for change in (lambda: setattr(made, "name", "b"), lambda: delattr(made, "name")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
            change()
    with pytest.raises(AttributeError):
        made.other = 1
    assert made.name == "a"


def test_replace_and_post_init() -> None:
    assert replace(Checked(low=1), low=2) == dataclasses.replace(Checked(low=1), low=2) == Checked(low=2)
    for make in (lambda: Checked(low=10), lambda: replace(Checked(low=1), high=0)):
        with pytest.raises(ValueError, match="low"):
            make()


def test_the_functions_of_dataclasses_know_them() -> None:
    for ours, theirs in zip(dataclasses.fields(Ours), dataclasses.fields(Theirs), strict=True):
        assert repr(ours) == repr(theirs)
    made = Ours(name="a", notes=["x"])
    assert dataclasses.is_dataclass(Ours)
    assert dataclasses.asdict(made) == dataclasses.asdict(Theirs(name="a", notes=["x"]))
    assert [f.name for f in fields(Ours)] == [f.name for f in dataclasses.fields(Ours)]
    assert is_frozen(made)
    assert not is_frozen(Theirs(name="a"))
    assert not is_frozen(Ours)


def test_imports_nothing() -> None:
    """That is what it is for."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(module.__file__).parents[2])!r})\n"
        "before = set(sys.modules)\n"
        "from gpubuild.support.frozen import frozen\n"
        "class A:\n    __annotations__ = {'b': 'int'}\n"
        "frozen(A)(b=1); print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    )
    allowed = {"__future__", "_operator", "operator"}
    allowed |= {"gpubuild", "gpubuild._version", "gpubuild.support", "gpubuild.support.frozen"}
    assert set(done.stdout.split()) <= allowed
