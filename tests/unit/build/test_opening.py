"""A look at a build folder without writing to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from unit.projects import make_program, make_project

from gpubuild.build import opening
from gpubuild.build.opening import _asking_only, _with_scratch, open_builder
from gpubuild.model.events import BuildWarning, Event
from gpubuild.model.project import BuildOptions, CacheConfig, RemoteCache, RemoteMode
from gpubuild.plan.layout import Layout
from gpubuild.settings import Settings


def test_what_is_there_is_seen_and_what_is_made_lies_aside(tmp_path: Path) -> None:
    layout = Layout(root=tmp_path, build_dir=tmp_path / "build")
    made = layout.source_dir(tmp_path / "src/a.c")
    made.mkdir(parents=True)
    for name in ("text.i", "deps.json"):
        (made / name).write_text(name)
    aside = _with_scratch(layout, tmp_path / "aside")
    seen = aside.source_dir(tmp_path / "src/a.c")
    assert seen.is_relative_to(tmp_path / "aside")
    assert {path.name: path.read_text() for path in seen.iterdir()} == {
        "text.i": "text.i",
        "deps.json": "deps.json",
    }
    (seen / "new").write_text("2")
    (seen / "new").replace(seen / "text.i")  # as outputs get into place
    assert (made / "text.i").read_text() == "text.i"
    assert aside.settled(seen / "text.i") == made / "text.i"
    assert aside.settled(aside.state_file) == layout.state_file
    assert aside.work.is_relative_to(tmp_path / "aside")
    assert _with_scratch(Layout(root=tmp_path, build_dir=tmp_path / "none"), tmp_path / "b").state_file


@pytest.mark.parametrize(
    ("cache", "remote", "configured", "expected"),
    [
        ("", "", None, ("read-only", "read-only")),
        ("read-write", "", RemoteMode.READ_WRITE, ("read-only", "read-only")),
        ("off", "off", RemoteMode.READ_WRITE, ("off", "off")),
        ("write-only", "", RemoteMode.WRITE_ONLY, ("off", "off")),
        ("read-only", "read-only", RemoteMode.WRITE_ONLY, ("read-only", "read-only")),
    ],
)
def test_caches_are_only_asked(
    tmp_path: Path, cache: str, remote: str, configured: RemoteMode | None, expected: tuple[str, str]
) -> None:
    (tmp_path / "main.c").write_text("")
    project = make_project(tmp_path, make_program(tmp_path, "app", "main.c"))
    if configured:
        there = RemoteCache(url="http://h", mode=configured)
        project = replace(project, cache=CacheConfig(directory=tmp_path / "cache", remote=there))
    found = _asking_only(Settings(cache_mode=cache, remote_mode=remote), project)
    assert (found.cache_mode, found.remote_mode) == expected


# ---- warnings ----


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
        builder._told = reported
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


def test_a_variable_that_names_nothing_is_told_unless_an_error_does(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("")
    project = make_project(tmp_path, make_program(tmp_path, "app", "main.c"))
    told = Told()
    options = BuildOptions(build_dir=tmp_path / "build", use_cache=False)
    settings = Settings.from_environ({"GPUBUILD_CC": "/none", "GPUBUILD_CXX": "/none"})
    with open_builder(project, settings, options, told, threads=False) as builder:
        report = builder.build()
    assert report.failed[0].error is not None and "GPUBUILD_CC names /none" in report.failed[0].error.message
    of_cxx = "GPUBUILD_CXX names /none, which is not an executable file: correct or unset it"
    assert (report.warnings, told.messages) == ((of_cxx,), [])
    told = Told()
    with open_builder(project, settings, options, told, threads=False):
        pass
    assert [message.split()[0] for message in told.messages] == ["GPUBUILD_CC", "GPUBUILD_CXX"]
