from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpubuild.cache.local import history
from gpubuild.cache.local.history import (
    BuildEntry,
    Group,
    decode_history,
    forget_history,
    list_projects,
    project_id,
    read_history,
    record_build,
    write_history,
)
from gpubuild.cache.protocol import Notes
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.result import CacheUse, Status, StepReport
from gpubuild.model.step import BundleParams, Step, StepKind


@dataclass
class Record:
    parts: Mapping[str, str]


def key(n: int) -> Digest:
    return digest_bytes(b"%d" % n)


class Build:
    """Ten compile steps for one target."""

    def __init__(self, cache: Path, notes: Notes | None = None) -> None:
        self.cache = cache
        self.notes = notes
        self.parts = {"key version": "1", "tool ptxas": "a", "option chip": "'sm_90'", "input module": "m"}
        self.target = "sm_90"
        self.keys = [key(n) for n in range(10)]

    def run(self, *statuses: Status) -> CacheUse | None:
        steps, reports = {}, []
        for n, status in enumerate(statuses):
            reports.append(self._report(f"s{n}", StepKind.COMPILE, status, self.keys[n]))
        for report in reports:
            steps[report.id] = Step(id=report.id, kind=report.kind, params=PARAMS, inputs=())
        return record_build(self.cache, ["b", "a"], steps, reports, lambda _: Record(self.parts), self.notes)

    def _report(self, name: str, kind: StepKind, status: Status, key: Digest) -> StepReport:
        target = self.target if kind is StepKind.COMPILE else ""
        return StepReport(id=name, kind=kind, program="", module="", target=target, status=status, key=key)


PARAMS = object.__new__(BundleParams)
RAN, LOCAL, REMOTE, SAME = Status.RAN, Status.HIT_LOCAL, Status.HIT_REMOTE, Status.UP_TO_DATE


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_the_first_build_has_nothing_to_compare_with(build: Build, tmp_path: Path) -> None:
    use = build.run(*[RAN] * 10)
    assert use == CacheUse(served=0, steps=10)
    assert use.note == ""
    [entry] = read_history(tmp_path, project_id(["a", "b"]))
    assert entry.rate == 0.0
    assert entry.keys == tuple(sorted(build.keys))
    assert entry.groups == (Group(kind="compile", target="sm_90", ran=10),)


def test_a_fall_is_told_with_the_tool_that_changed(build: Build) -> None:
    build.run(*[LOCAL] * 8, REMOTE, SAME)
    build.parts["tool ptxas"] = "b"
    build.keys = [key(n + 100) for n in range(10)]
    use = build.run(*[RAN] * 9, LOCAL)
    assert use.note == "hit rate 10%, last build 100%: ptxas changed"


def test_options_and_targets(build: Build) -> None:
    build.run(*[LOCAL] * 10)
    build.keys = [key(n + 100) for n in range(10)]
    build.parts["option chip"] = "'sm_90a'"
    assert build.run(*[RAN] * 10).cause == "the options of sm_90 changed"
    build.keys = [key(n + 200) for n in range(10)]
    build.target = "sm_100"
    assert build.run(*[RAN] * 10).cause == "target sm_100 is new"
    build.keys = [key(n + 300) for n in range(10)]
    build.parts["key version"] = "2"
    assert build.run(*[RAN] * 10).cause == "gpubuild's key version changed"


def test_results_that_were_lost(build: Build) -> None:
    build.run(*[LOCAL] * 10)
    assert build.run(*[RAN] * 4, *[LOCAL] * 6).note == (
        "hit rate 60%, last build 100%: 4 results of the last build left the cache"
    )


def test_an_edit_is_no_news(build: Build) -> None:
    build.run(*[LOCAL] * 10)
    build.keys = [key(n + 100) for n in range(10)]
    use = build.run(*[RAN] * 5, *[SAME] * 5)
    assert use.cause == "the sources changed"
    assert use.note == ""


def test_many_edited_steps_are(build: Build) -> None:
    build.keys = [key(n) for n in range(40)]
    build.run(*[LOCAL] * 40)
    build.keys = [key(n + 100) for n in range(40)]
    assert build.run(*[RAN] * 30, *[LOCAL] * 10).note == "hit rate 25%, last build 100%: the sources changed"


def test_a_small_fall_is_not_told(build: Build) -> None:
    build.run(*[LOCAL] * 10)
    assert build.run(*[LOCAL] * 9, RAN).note == ""


def test_a_build_that_asked_nothing_is_not_recorded(build: Build, tmp_path: Path) -> None:
    steps = {"s": Step(id="s", kind=StepKind.COMPILE, params=PARAMS, inputs=())}
    report = build._report("s", StepKind.COMPILE, SAME, key(0))
    assert record_build(tmp_path, ["a"], steps, [report], lambda _: None) is None
    assert list_projects(tmp_path) == []
    assert record_build(None, ["a"], steps, [report], lambda _: None) is None


def entry(n: int) -> BuildEntry:
    return BuildEntry(when=n, groups=(), tools={"t": "x"}, options={"sm_90": "y"}, keys=(key(n),))


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_PROJECTS", 3)
    project = project_id(["a"])
    for n in range(30):
        write_history(tmp_path, project, [*read_history(tmp_path, project), entry(n)])
    found = read_history(tmp_path, project)
    assert [e.when for e in found] == [*range(10, 30)]
    assert [bool(e.keys) for e in found] == [False] * 17 + [True] * 3
    for n in range(5):
        write_history(tmp_path, project_id([f"p{n}"]), [entry(n)])
        os.utime(tmp_path / "history" / f"{project_id([f'p{n}'])}.json", (n, n))
    assert len(list_projects(tmp_path)) == 3
    forget_history(tmp_path)
    assert list_projects(tmp_path) == []


def test_every_truncation_and_a_flipped_bit_in_every_byte(tmp_path: Path) -> None:
    project = project_id(["a"])
    write_history(tmp_path, project, [entry(1), entry(2)])
    path = tmp_path / "history" / f"{project}.json"
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert read_history(tmp_path, project) == []
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1 << position % 8
        path.write_bytes(bad)
        read_history(tmp_path, project)
    path.unlink()
    path.mkdir()
    assert read_history(tmp_path, project) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "gpubuild.history/1", "builds": [1]}',
        '{"schema": "gpubuild.history/1", "builds": 1}',
        '{"schema": "gpubuild.history/1", "builds": [{}]}',
        "[" * 100_000,
    ],
)
def test_what_is_no_history(text: str) -> None:
    with pytest.raises(ValueError):
        decode_history(text)


def test_a_folder_that_cannot_be_written(build: Build, tmp_path: Path) -> None:
    (tmp_path / "history").write_text("in the way")
    assert build.run(*[RAN] * 10) == CacheUse(served=0, steps=10)


def test_another_build_that_records_is_not_waited_for_long(build: Build, tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    with (tmp_path / "history" / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert build.run(*[RAN] * 10) == CacheUse(served=0, steps=10)
    assert list_projects(tmp_path) == []


class SharedNotes:
    """What machines share, in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[Digest, bytes] = {}
        self.asked = 0

    def read_note(self, name: Digest) -> bytes | None:
        self.asked += 1
        return self.kept.get(name)

    def send_note(self, name: Digest, data: bytes) -> None:
        self.kept[name] = data


def test_fresh_machines_continue_each_others_history(tmp_path: Path) -> None:
    notes = SharedNotes()
    first = Build(tmp_path / "first", notes)
    (tmp_path / "first").mkdir()
    assert first.run(*[RAN] * 10).note == ""
    for n in range(3):
        (tmp_path / str(n)).mkdir()
        use = Build(tmp_path / str(n), notes).run(*[REMOTE] * 10)
        assert use.previous_rate == (1.0 if n else 0.0)
    (tmp_path / "next").mkdir()
    last = Build(tmp_path / "next", notes)
    last.parts["tool ptxas"] = "b"
    last.keys = [key(100 + n) for n in range(10)]
    assert last.run(*[RAN] * 10).note == "hit rate 0%, last build 100%: ptxas changed"
    [data] = notes.kept.values()
    assert [entry.rate for entry in decode_history(data)] == [0.0, 1.0, 1.0, 1.0, 0.0]


def test_a_machine_with_a_history_neither_asks_nor_sends(tmp_path: Path) -> None:
    Build(tmp_path).run(*[RAN] * 10)
    notes = SharedNotes()
    Build(tmp_path, notes).run(*[LOCAL] * 10)
    assert (notes.asked, notes.kept) == (0, {})


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"{}", b"[1]", b'{"schema":"gpubuild.history/1","builds":[{}]}']
)
def test_a_damaged_shared_history_is_none(tmp_path: Path, data: bytes) -> None:
    notes = SharedNotes()
    notes.read_note = lambda name: data  # type: ignore[method-assign]
    assert Build(tmp_path, notes).run(*[RAN] * 10).previous_rate is None
    assert len(notes.kept) == 1


def test_a_read_only_folder_still_compares_with_the_shared_history(tmp_path: Path) -> None:
    notes = SharedNotes()
    (tmp_path / "one").mkdir()
    Build(tmp_path / "one", notes).run(*[REMOTE] * 10)
    assert Build(tmp_path / "nowhere" / "deeper", notes).run(*[RAN] * 10).previous_rate == 1.0
