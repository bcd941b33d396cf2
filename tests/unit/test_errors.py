"""Errors are frozen values that survive pickling and copying."""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gpubuild import errors
from gpubuild.errors import ConfigError, Diagnostic, GpubuildError, Location, StepError, UsageError

KINDS = sorted(
    (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, GpubuildError)),
    key=lambda kind: kind.__name__,
)
DIAGNOSTIC = Diagnostic(message="wrong", location=Location(file="k.mlir", line=2, column=3))


def _made(kind: type[GpubuildError]) -> GpubuildError:
    if issubclass(kind, ConfigError):
        return kind([DIAGNOSTIC], hint="correct it")
    if issubclass(kind, StepError):
        return kind("no", stage="lower", diagnostics=[DIAGNOSTIC], output="said", hint="correct it")
    return kind("no", hint="correct it")


@pytest.mark.parametrize("kind", KINDS)
def test_errors_survive_pickling(kind: type[GpubuildError]) -> None:
    error = _made(kind)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert vars(again) == vars(error)
    assert (str(again), again.render()) == (str(error), error.render())


@pytest.mark.parametrize("kind", KINDS)
def test_a_completed_copy_leaves_the_error_unchanged(kind: type[GpubuildError]) -> None:
    error = _made(kind)
    before = dict(vars(error))
    copy = error.with_(message="no, since", hint="write it")
    assert type(copy) is kind
    assert vars(copy) == before | {"message": "no, since", "hint": "write it"}
    assert str(copy) == "no, since"
    assert vars(error) == before


def test_a_copy_keeps_where_it_was_raised_and_why() -> None:
    def raised() -> StepError:
        try:
            raise StepError("no") from ValueError("the cause")
        except StepError as error:
            return error

    error = raised()
    copy = error.with_(stage="lower")
    assert copy.__traceback__ is error.__traceback__
    assert copy.__cause__ is error.__cause__
    assert copy.__suppress_context__


def test_a_copy_takes_fields_only() -> None:
    with pytest.raises(TypeError, match="UsageError has no field stage"):
        UsageError("no").with_(stage="lower")


@pytest.mark.parametrize("kind", KINDS)
def test_errors_are_immutable(kind: type[GpubuildError]) -> None:
    error = _made(kind)
    before = dict(vars(error))
    for name in (*before, "args", "new"):
        with pytest.raises(AttributeError, match="errors are frozen"):
            setattr(error, name, "other")
        with pytest.raises(AttributeError, match="errors are frozen"):
            delattr(error, name)
    assert vars(error) == before


def test_python_can_raise_them_through_a_context_manager() -> None:
    """``contextlib`` sets ``__traceback__`` by assignment."""

    @contextmanager
    def manager() -> Iterator[None]:
        yield

    with pytest.raises(UsageError) as caught, manager():
        raise UsageError("no")
    caught.value.add_note("a note")
    assert caught.value.with_(hint="write it").__notes__ == ["a note"]
