"""Faults of a cache after a build's report are reported, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.projects import make_program, make_project

from gpubuild.build import opening
from gpubuild.build.opening import open_builder
from gpubuild.model.events import BuildWarning, Event
from gpubuild.model.project import BuildOptions
from gpubuild.settings import Settings


class Told:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_event(self, event: Event) -> None:
        if isinstance(event, BuildWarning):
            self.messages.append(event.message)


class Store:
    """Warns of two things while it is open and of a third while it closes."""

    has_remote = False
    warnings = ("one",)

    def close(self) -> None:
        self.warnings = ("one (3 times)", "two", "three")


@pytest.mark.parametrize("reported", [(), ("one",), ("one", "two (2 times)")])
def test_only_what_is_in_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reported: tuple[str, ...]
) -> None:
    (tmp_path / "main.c").write_text("")
    project = make_project(tmp_path, make_program(tmp_path, "app", "main.c"))
    monkeypatch.setattr(opening, "open_store", lambda *_, **__: Store())
    told = Told()
    options = BuildOptions(build_dir=tmp_path / "build")
    with open_builder(project, Settings(), options, told, threads=False) as builder:
        builder._reported = reported
    expected = ["one (3 times)", "two", "three"]
    assert told.messages == expected[len(reported) :]


def test_a_build_that_fails_says_only_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "main.c").write_text("")
    project = make_project(tmp_path, make_program(tmp_path, "app", "main.c"))
    store = Store()
    store.cancel = lambda: None  # type: ignore[attr-defined]
    monkeypatch.setattr(opening, "open_store", lambda *_, **__: store)
    told = Told()
    options = BuildOptions(build_dir=tmp_path / "build")
    with pytest.raises(ZeroDivisionError), open_builder(project, Settings(), options, told, threads=False):
        raise ZeroDivisionError
    assert told.messages == []
