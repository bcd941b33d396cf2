"""Outputs: files of steps get into the build folder whole, and what is wrong with them is noticed."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest
from unit.fakes import MemoryStore

from gpubuild.build.outputs import StepOutputs
from gpubuild.build.state import BuildState, StepRecord
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.model.digest import digest_bytes
from gpubuild.model.step import ActionResult, Blob, BundleParams, OutlineParams, Output, Step, StepKind

KEY = digest_bytes(b"key")
MADE = {"text": b"text", "program": b"program"}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def state(tmp_path: Path) -> BuildState:
    return BuildState(tmp_path / "state.json", tmp_path)


@pytest.fixture
def outputs(tmp_path: Path, state: BuildState, store: MemoryStore) -> StepOutputs:
    return StepOutputs(state=state, store=store, root=tmp_path)


def make_step(folder: Path) -> Step:
    files = (
        Output(name="text", path=folder / "text"),
        Output(name="program", path=folder / "program", executable=True),
    )
    return Step(
        id=folder.name,
        kind=StepKind.BUNDLE,
        params=BundleParams(module="k", handler="", targets=(), names=(), formats=()),
        inputs=(),
        outputs=files,
    )


def result_of(content: Mapping[str, bytes]) -> ActionResult:
    return ActionResult(
        blobs=tuple(
            Blob(name=n, digest=digest_bytes(d), size_bytes=len(d), executable=n == "program")
            for n, d in content.items()
        )
    )


def placed(outputs: StepOutputs, folder: Path) -> tuple[Step, StepRecord]:
    """A step whose outputs a worker has made."""
    step, made = make_step(folder), folder.with_name("made")
    made.mkdir()
    for name, data in MADE.items():
        (made / name).write_bytes(data)
    outputs.place(step, result_of(MADE), made)
    return step, StepRecord(key=KEY, parts={}, result=result_of(MADE), why="")


def test_an_equal_steps_outputs_are_copied_unless_they_were_edited(
    tmp_path: Path, outputs: StepOutputs
) -> None:
    step, record = placed(outputs, tmp_path / "step")
    other = make_step(tmp_path / "other")
    (tmp_path / "scratch").mkdir()
    assert outputs.copy(step, other, record.result, tmp_path / "scratch")
    assert outputs.stale(other, record) == ""
    (tmp_path / "step/text").write_bytes(b"edited")
    assert not outputs.copy(step, make_step(tmp_path / "third"), record.result, tmp_path / "scratch")


def test_a_cached_result_of_other_outputs_is_dropped(
    tmp_path: Path, outputs: StepOutputs, store: MemoryStore
) -> None:
    content = {**MADE, "more": b"more"}
    files = {}
    for name, data in content.items():
        files[name] = tmp_path / name
        files[name].write_bytes(data)
    assert store.publish(KEY, result_of(content), files)
    assert store.peek(KEY) is not None
    assert not outputs.fetch(make_step(tmp_path / "step"), KEY, result_of(content))
    assert store.peek(KEY) is None
    assert not (tmp_path / "step").exists()


def test_a_result_that_cannot_be_copied_stays_in_the_cache(tmp_path: Path, state: BuildState) -> None:
    """On a full disk, for example: builds into other folders can use it."""
    for name, data in MADE.items():
        (tmp_path / name).write_bytes(data)
    with closing(DiskStore(tmp_path / "cache")) as store:
        outputs = StepOutputs(state=state, store=store, root=tmp_path)
        assert store.publish(KEY, result_of(MADE), {name: tmp_path / name for name in MADE})
        (tmp_path / "step").touch()  # a folder is needed
        assert not outputs.fetch(make_step(tmp_path / "step"), KEY, result_of(MADE))
        assert len(store.warnings) == 1 and str(tmp_path / "step") in store.warnings[0]
        assert outputs.fetch(make_step(tmp_path / "other"), KEY, store.lookup(KEY) or result_of({}))


def test_a_cached_source_without_its_list_of_modules_is_dropped(
    tmp_path: Path, outputs: StepOutputs, store: MemoryStore
) -> None:
    """No plan can be made with it: a build would end with an error about a missing file."""
    outline = Step(
        id="outline/a.mlir",
        kind=StepKind.OUTLINE,
        params=OutlineParams(),
        inputs=(),
        dynamic_dir=tmp_path / "a",
    )
    for names, fetched in (({"host.mlir"}, False), ({"host.mlir", "index.json"}, True)):
        content = dict.fromkeys(names, b"{}")
        for name, data in content.items():
            (tmp_path / name).write_bytes(data)
        store.publish(KEY, result_of(content), {name: tmp_path / name for name in names})
        assert outputs.fetch(outline, KEY, result_of(content)) is fetched
        assert (store.lookup(KEY) is not None) is fetched


def test_removed_outputs_leave_what_is_the_users(
    tmp_path: Path, outputs: StepOutputs, state: BuildState
) -> None:
    step, record = placed(outputs, tmp_path / "step")
    state.remember(step.id, record)
    (tmp_path / "step/text").unlink()
    (tmp_path / "step/text").mkdir()
    outputs.remove(step)
    assert [path.name for path in (tmp_path / "step").iterdir()] == ["text"]
    assert state.record(step.id) is not None, "the next build can explain the difference"
