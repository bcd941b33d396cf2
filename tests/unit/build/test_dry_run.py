"""``build -n``: what a build would do, without doing it."""

from __future__ import annotations

import shutil

from unit.world import World, statuses

from gpubuild.model.result import Status


def test_dry_run_runs_scans_only(world: World) -> None:
    report = world.build(dry_run=True)
    assert world.ran() == {"outline/app.mlir", "preprocess/main.c"}
    assert not (world.root / "build/app").exists()
    assert {s.status for s in report.steps} == {Status.RAN, Status.WOULD_RUN}
    world.build()
    report = world.build(dry_run=True)
    assert statuses(report) == {Status.UP_TO_DATE}


def test_dry_run_tells_what_the_cache_has(world: World) -> None:
    world.build()
    shutil.rmtree(world.root / "build")
    report = world.build(dry_run=True)
    assert not (world.root / "build/app").exists()
    found = {s.id: s.status for s in report.steps}
    assert found.pop("outline/app.mlir") is found.pop("preprocess/main.c") is Status.HIT_LOCAL
    assert set(found.values()) == {Status.WOULD_HIT}, "all the way to the link"
    # Without the results of one target, what is made of them is not known either.
    compiled = next(s for s in report.steps if s.id == "app/compile/k/cpu")
    assert compiled.key is not None
    world.store.discard(compiled.key)
    report = world.build(dry_run=True)
    runs = {s.id: s.reason for s in report.steps if s.status is Status.WOULD_RUN}
    assert runs == {
        "app/compile/k/cpu": "first build",
        "app/bundle/k": "needs app/compile/k/cpu",
        "app/host": "needs app/bundle/k",
        "app/link": "needs app/host",
    }


def test_dry_run_does_not_take_old_files_for_those_it_would_fetch(world: World) -> None:
    world.build()
    (world.root / "build/app/k.cpu.so").write_bytes(b"edited")
    report = world.build(dry_run=True)
    found = {s.id: s.status for s in report.steps if s.status is not Status.UP_TO_DATE}
    assert found == {"app/compile/k/cpu": Status.WOULD_HIT}
    assert (world.root / "build/app/k.cpu.so").read_bytes() == b"edited"
