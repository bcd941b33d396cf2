"""What a report works out of the log: critical path, lanes, savings, changes."""

from typing import Any

import pytest

from gpubuild.build.log import History, LoggedBuild, LoggedStep
from gpubuild.report.facts import Value, bars, counts, critical_path, kernel_rows, saved_seconds, size_rows


def step(name: str, began: float = 0, ended: float = 1, *needs: str, **more: Any) -> LoggedStep:
    values = {
        "kind": "compile", "program": "app", "module": "k", "target": "sm_90", "status": "ran",
        "reason": "first build", "cost_seconds": 0.0, "stages": (), "error": "",
    }  # fmt: skip
    return LoggedStep(id=name, began=began, ended=ended, needs=needs, **values | more)


def build(*steps: LoggedStep, workers: int = 2, up_to_date: int = 0) -> LoggedBuild:
    seconds = max((s.ended for s in steps), default=0.0)
    return LoggedBuild(
        began=0.0, seconds=seconds, ok=True, workers=workers, up_to_date=up_to_date, steps=steps
    )


def compiled(
    name: str, registers: int, size: int, *, kernel: str = "k", tier: str | None = None, reason: str = ""
) -> LoggedStep:
    found = {"name": kernel, "registers": registers, "spill_bytes": None, "tier": tier, "tier_reason": reason}
    return step(name, sizes={"object": size}, kernels=(found,), device=("nvvm", "sm_90"))


def linked(size: int, *needs: str) -> LoggedStep:
    return step("app/link", 0, 1, *needs, kind="link", sizes={"executable": size})


def test_the_critical_path_is_the_longest_chain_not_the_last_to_end() -> None:
    found = build(
        step("a", 0, 3),
        step("b", 3, 5, "a"),
        step("late", 9, 10),  # ends last, but nothing kept it from beginning at 0
        step("c", 8, 9, "b", "short", "not in the log"),
        step("short", 0, 1),
    )
    assert [s.id for s in critical_path(found)] == ["a", "b", "c"]
    assert {b.step.id for b in bars(found) if b.critical} == {"a", "b", "c"}


def test_a_circle_in_a_tampered_log_ends() -> None:
    assert critical_path(build(step("a", 0, 1, "b"), step("b", 0, 1, "a"), step("c"))) == []
    assert critical_path(build(step("a", 0, 1, "a"))) == []
    assert critical_path(build()) == []


def test_lanes_do_not_overlap_and_are_no_more_than_workers() -> None:
    found = bars(build(step("a", 0, 2), step("b", 0, 5), step("c", 1.9, 4), step("d", 4.1, 6), workers=2))
    places = {bar.step.id: (bar.lane, bar.began) for bar in found}
    assert places == {"a": (0, 0), "b": (1, 0), "c": (0, 2), "d": (0, 4.1)}


def test_each_worker_of_a_cluster_has_lanes_of_its_own() -> None:
    steps = [
        step("a", 0, 2, worker="w2"),
        step("b", 0, 5),
        step("c", 1.9, 4, worker="w2"),  # ended a little late before
        step("d", 0, 3, worker="w1"),
        step("e", 1, 2, worker="w1"),  # has a second thread
    ]
    places = {bar.step.id: (bar.lane, bar.began) for bar in bars(build(*steps))}
    assert places == {"b": (0, 0), "d": (1, 0), "e": (2, 1), "a": (3, 0), "c": (3, 2)}


def test_what_did_not_run_took_no_worker() -> None:
    found = build(step("a", status="hit-local"), step("b", status="failed"), step("c", status="skipped"))
    assert [bar.step.id for bar in bars(found)] == ["b"]


def test_saved_time_is_cost_less_fetching_and_never_negative() -> None:
    found = build(
        step("a", 0, 0.5, status="hit-local", cost_seconds=3.0),
        step("b", 0, 0.5, status="hit-remote", cost_seconds=0.1),
        step("c", 0, 0.5, cost_seconds=9.0),
    )
    assert saved_seconds(found) == pytest.approx(2.5)
    assert counts(found) == {"hit-local": 1, "hit-remote": 1, "ran": 1}


def test_up_to_date_steps_are_counted_wherever_they_are() -> None:
    assert counts(build(step("a", status="up-to-date"), up_to_date=4)) == {"up-to-date": 5}


def test_changes_are_those_of_the_last_build() -> None:
    first = build(compiled("app/compile/k/sm_90", 8, 100), compiled("app/compile/k/sm_60", 5, 70))
    second = build(compiled("app/compile/k/sm_90", 9, 100))
    third = build(compiled("app/compile/k/sm_90", 12, 90, tier="loop"), step("app/host", status="ran"))
    rows = {row.object_bytes.now: row for row in kernel_rows(History(builds=(first, second, third), base={}))}
    assert rows[90].registers == Value(now=12, before=9)
    assert rows[90].registers.change == 3
    assert rows[90].object_bytes.change == -10
    assert rows[90].spill_bytes.change is None
    assert (rows[90].tier, rows[90].tier_before) == ("loop", "")
    assert rows[70].registers.change is None  # the last build did not touch it


def test_changed_modules_come_first() -> None:
    def of(module: str, registers: int) -> LoggedStep:
        kernels = ({"name": "k", "registers": registers},)
        return step(f"app/compile/{module}/cpu", module=module, sizes={"object": 1}, kernels=kernels)

    history = History(builds=(build(of("a", 1), of("b", 1)), build(of("b", 2))), base={})
    assert [row.module for row in kernel_rows(history)] == ["b", "a"]


def test_what_came_and_went_is_said() -> None:
    old = build(compiled("app/compile/k/sm_90", 8, 100, kernel="old"))
    new = build(compiled("app/compile/k/sm_90", 8, 100, kernel="new"))
    rows = kernel_rows(History(builds=(old, new), base={}))
    assert {(row.name, row.state) for row in rows} == {("new", "new"), ("old", "gone")}
    assert [row.state for row in kernel_rows(History(builds=(old,), base={}))] == [""]


def test_an_earlier_size_may_be_in_the_first_line() -> None:
    history = History(builds=(build(linked(130)),), base={"app/link": linked(100)})
    ((program, size),) = size_rows(history)
    assert (program, size.change) == ("app", 30)


def test_a_module_that_is_gone_is_not_listed() -> None:
    gone, kept = compiled("app/compile/gone/cpu", 1, 1), compiled("app/compile/k/cpu", 2, 2)
    first = build(gone, kept, linked(10, gone.id, kept.id))
    assert len(kernel_rows(History(builds=(first,), base={}))) == 2
    rows = kernel_rows(History(builds=(first, build(linked(9, kept.id))), base={}))
    assert [row.object_bytes.now for row in rows] == [2]


def test_occupancy_and_the_reason_of_a_tier() -> None:
    name = "app/compile/k/sm_90"
    many, few = compiled(name, 128, 10, reason="a barrier"), compiled(name, 32, 10)
    (row,) = kernel_rows(History(builds=(build(few), build(many)), base={}))
    assert (row.occupancy, row.limit) == (Value(now=25, before=100), "registers")
    assert row.tier_reason == "a barrier"
    for unknown in (("", ""), ("cpu", "x86-64-v2"), ("of another version", "x1"), ("nvvm", "sm_999")):
        odd = step(name, kernels=({"name": "k", "registers": 32},), device=unknown, sizes={"object": 1})
        (row,) = kernel_rows(History(builds=(build(odd),), base={}))
        assert row.occupancy == Value(now=None, before=None), unknown
