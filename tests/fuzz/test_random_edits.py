"""Random edits and disturbances, step by step: a build always makes what a clean build without a cache makes.

Plan, keys, state, receipts, cache and files are the real ones; the engine is a small one, so that
thousands of builds take seconds. GPUBUILD_TEST_EDITS (default 20) sets how many for each seed,
GPUBUILD_TEST_SEED (default 1) the first seed; a failure names both and repeats.
"""

from __future__ import annotations

import copy
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Counted
from fuzz.disturbances import disturb
from fuzz.edited_world import World, tree
from fuzz.random_project import Model, edit

from gpubuild.errors import ConfigError, UsageError
from gpubuild.model.result import BuildReport, Status
from gpubuild.support import file_stamp

STEPS = int(os.environ.get("GPUBUILD_TEST_EDITS", "20"))
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "1"))
_CLAIM = re.compile(r"(?:header |file )?([\w/]+\.(?:c|h|mlir|bin)) (?:changed|is gone)(?:;|$)")
_GONE_WRONG = (Status.FAILED, Status.SKIPPED)


def warnings(report: BuildReport) -> list[str]:
    return sorted({warning for step in report.steps for warning in step.warnings})


def check(world: World) -> None:
    """Build, and compare with a clean build beside it."""
    try:
        wanted, right = world.clean()
    except (ConfigError, UsageError) as error:
        with pytest.raises(type(error)):
            world.build()
        return
    proven = world.proven()
    before = tree(world.root / "build") if proven else {}
    report = world.build()
    made = tree(world.root / "build")
    assert report.ok == wanted.ok, [step.reason for step in (*report.failed, *wanted.failed)]
    states = {step.id: step.status for step in report.steps}
    assert {i for i, s in states.items() if s in _GONE_WRONG} == {
        step.id for step in wanted.steps if step.status in _GONE_WRONG
    }
    for name, data in right.items():
        assert made.get(name) == data, name
    if report.ok:
        assert warnings(report) == warnings(wanted)
        assert {n for n in made.keys() - right.keys() if not n.startswith(".gpubuild/")} <= world.meddled
        again = world.build().steps
        assert not {s.id: s.reason for s in again if s.status is not Status.UP_TO_DATE}
    else:
        for program in world.model.config["programs"]:  # nobody can run what the sources are not
            assert made.get(f"{program}/{program}") == right.get(f"{program}/{program}")
    if proven:
        assert wanted.ok
        assert before == made
        assert not world.exact or set(states.values()) == {Status.UP_TO_DATE}
    for step in report.steps:
        assert step.status is Status.UP_TO_DATE or step.reason not in ("", "unchanged"), step
        if world.exact and (claim := _CLAIM.match(step.reason)):
            assert world.seen[step.id].get(claim[1]) != world.model.files.get(claim[1]), step.reason
        world.seen[step.id] = dict(world.model.files)
    world.exact = True


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], World]]:
    """Two files of the runtime instead of fifty, and no waiting for disks."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    (runtime / "mgpu.c").write_text("mgpu.c")
    monkeypatch.setattr("gpubuild.toolchain.runtime_library.FOLDER", runtime)
    monkeypatch.setattr(os, "fsync", lambda handle: None)

    def make(seed: int) -> World:
        model = Model.first(tmp_path / f"{seed}" / "project")
        model.root.mkdir(parents=True)
        world = World(model, tmp_path / f"{seed}" / "cache", random.Random(seed))
        world.write()
        return world

    yield make


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_random_edits(
    small_world: Callable[[int], World], seed: int, monkeypatch: pytest.MonkeyPatch, counted: Counted
) -> None:
    # Of two seeds, one has times that prove something a moment after a change, as hours later.
    pause = 0.03 * (seed % 2)
    if pause:
        monkeypatch.setattr(file_stamp, "RACY_NS", int(pause * 1e9 / 2))
    world = small_world(seed)
    done: list[str] = []
    for step in range(STEPS):
        done = []
        try:
            if step:
                done += [
                    edit(world.model, world.choose, world.history) for _ in range(world.choose.randint(0, 2))
                ]
                world.write()
                done += [disturb(world) for _ in range(world.choose.choice((0, 0, 1, 2)))]
            time.sleep(pause)
            check(world)
        except BaseException as error:
            error.add_note(f"GPUBUILD_TEST_SEED={seed}, edit {step}: {', '.join(done)}; {world.root}")
            raise
        world.history = [*world.history[-5:], copy.deepcopy(world.model)]
    counted("builds after random edits compared with clean ones", STEPS, at_least=STEPS)
