"""Sources that programs have compiled in several ways."""

from dataclasses import replace
from pathlib import Path

from unit.plan.test_planner import plan_of
from unit.projects import make_program

from gpubuild.model.project import NO_OPTIONS, HostOptions, Program
from gpubuild.plan.plan import Plan

ROOT = Path("/project")
N1 = HostOptions(define=(("N", "1"),), cxx_std="c++17")
N2 = HostOptions(define=(("N", "2"),))


def program(name: str, host: HostOptions, *sources: str) -> Program:
    return replace(make_program(ROOT, name, *sources), host=host)


def linked(plan: Plan, name: str) -> list[str]:
    return [item.producer for item in plan.executable(name).inputs if item.name.startswith("object")]


def test_each_way_is_a_step_and_equal_ones_are_one() -> None:
    plan = plan_of(
        program("a", NO_OPTIONS, "x.c", "y.c"),
        program("b", N1, "x.c"),
        program("c", N2, "x.c", "z.c"),
        program("d", replace(N1, cxx_std="c++20"), "x.c"),  # a standard of C++ is nothing to C
    )
    assert linked(plan, "a") == ["cc/x.c", "cc/y.c"]
    assert linked(plan, "b") == linked(plan, "d") == ["cc/x.c#b"]
    assert linked(plan, "c") == ["cc/x.c#c", "cc/z.c"]
    assert plan.needs("cc/x.c#b") == {"preprocess/x.c#b"}


def test_changed_options_leave_a_steps_name_and_files() -> None:
    one, two = (plan_of(program("a", host, "x.c", "x.cpp")) for host in (N1, N2))
    assert list(one.steps) == list(two.steps)
    assert [s.outputs for s in one.steps.values()] == [s.outputs for s in two.steps.values()]


def test_options_reach_the_steps() -> None:
    host = replace(N1, include=("inc",), c_std="c11", c_flags=("-O1",), cxx_flags=("-fno-rtti",))
    plan = plan_of(program("a", host, "x.c", "x.cpp"))
    for name, std, flags in (("x.c", "c11", ("-O1",)), ("x.cpp", "c++17", ("-fno-rtti",))):
        for kind in ("preprocess", "cc"):
            found = plan.steps[f"{kind}/{name}"].params
            assert (found.std, found.flags, found.include, found.define) == (std, flags, ("inc",), ("N=1",))


def test_comments_count_where_there_are_flags_about_warnings() -> None:
    def key_inputs(*flags: str) -> list[str]:
        plan = plan_of(program("a", HostOptions(c_flags=flags), "x.c"))
        return [item.name for item in plan.steps["cc/x.c"].inputs if item.in_key]

    assert key_inputs("-O1") == ["text"]
    assert key_inputs("-O1", "-Wall") == key_inputs("-pedantic") == ["text", "source", "deps"]


def test_a_source_with_options_of_its_own() -> None:
    own = HostOptions(c_flags=("-O0",))
    a = replace(program("a", NO_OPTIONS, "x.c", "y.c"), source_hosts={ROOT / "x.c": own})
    plan = plan_of(a, program("b", NO_OPTIONS, "x.c", "y.c"))
    assert linked(plan, "a") == ["cc/x.c", "cc/y.c"]
    assert linked(plan, "b") == ["cc/x.c#b", "cc/y.c"]
    names = ("cc/x.c", "cc/y.c", "preprocess/x.c", "cc/x.c#b")
    flags = {name: plan.steps[name].params.flags for name in names}
    assert flags == {"cc/x.c": ("-O0",), "cc/y.c": (), "preprocess/x.c": ("-O0",), "cc/x.c#b": ()}
