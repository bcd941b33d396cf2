"""Reasons: in words that name what a person changed."""

from dataclasses import replace
from pathlib import Path

import pytest
from unit.projects import TARGETS, make_program
from unit.world import World

from gpubuild.build.reasons import (
    Explanation,
    Row,
    Vocabulary,
    describe_difference,
    summarize,
    why_changed,
)
from gpubuild.cli.explain import find_step, render, to_json
from gpubuild.errors import UsageError
from gpubuild.model.project import HostOptions
from gpubuild.model.result import Status
from gpubuild.model.step import Step, StepKind

WORDS = Vocabulary(version=lambda _: "", summary=lambda _: None)


def reasons(world: World) -> dict[str, str]:
    return {s.id: s.reason for s in world.build().steps if s.reason}


def test_a_kernel_edit(world: World) -> None:
    """Of one module of two: host code and the other module stay as they are."""
    (world.root / "app.mlir").write_text("k one\nother two\n")
    world.build()
    (world.root / "app.mlir").write_text("k changed\nother two\n")
    compiled = {f"app/compile/k/{t}": "gpu.module @k changed: declarations differ" for t in TARGETS}
    assert reasons(world) == compiled | {
        "outline/app.mlir": "app.mlir changed",
        "app/bundle/k": "; ".join(f"the object for {t} changed" for t in TARGETS),
        "app/link": "the object of app/bundle/k changed",
    }
    assert world.ran() == {*compiled, "outline/app.mlir", "app/bundle/k", "app/link"}


def test_a_host_edit(world: World) -> None:
    world.build()
    (world.root / "main.c").write_text("int main = 1;")
    assert reasons(world) == {
        "preprocess/main.c": "main.c changed",
        "cc/main.c": "what the preprocessor makes of main.c changed",
        "app/link": "the object of cc/main.c changed",
    }


def test_a_new_target_and_a_dropped_one(world: World) -> None:
    few = make_program(world.root, "app", "app.mlir", "main.c", targets=("sm_60", "sm_90"))
    world.programs(few)
    world.build()
    world.programs(replace(few, targets=("sm_60", "sm_90", "cpu")))
    found = reasons(world)
    assert found["app/compile/k/cpu"] == "first build"
    assert found["app/bundle/k"] == "the object for cpu is new"
    world.programs(few)
    assert reasons(world)["app/bundle/k"] == "the object for cpu is gone"


def test_targets_and_sources_in_another_order(world: World) -> None:
    few = make_program(world.root, "app", "app.mlir", "main.c", "more.c", targets=("sm_60", "sm_90"))
    (world.root / "more.c").write_text("int more;")
    world.programs(few)
    world.build()
    world.programs(replace(few, targets=("sm_90", "sm_60")))
    assert reasons(world)["app/bundle/k"] == "the order of its inputs changed"
    world.programs(replace(few, targets=("sm_90", "sm_60"), sources=(*few.sources[1:], few.sources[0])))
    assert reasons(world) == {"app/link": "the order of its inputs changed"}


def test_what_stands_behind_a_source_that_is_gone_did_not_change(world: World) -> None:
    (world.root / "more.c").write_text("int more;")
    program = make_program(world.root, "app", "more.c", "app.mlir", "main.c")
    world.programs(program)
    world.build()
    world.programs(replace(program, sources=program.sources[1:]))
    assert reasons(world) == {"app/link": "an object is gone"}
    world.programs(program)
    (world.root / "main.c").write_text("int main = 1;")
    assert reasons(world)["app/link"] == (
        "the object of cc/more.c is new or changed; the object of cc/main.c is new or changed"
    )


def test_flags_about_warnings(world: World) -> None:
    """The source then is part of the key, which is no news of the source."""
    world.build()
    program = world.project.programs["app"]
    world.programs(replace(program, host=HostOptions(c_flags=("-Wall", "-O1"))))
    text = "what the preprocessor makes of main.c changed"
    assert reasons(world)["cc/main.c"] == f"{text}; option flags changed: [] → ['-Wall', '-O1']"
    world.programs(program)
    assert reasons(world)["cc/main.c"] == f"{text}; option flags changed: ['-Wall', '-O1'] → []"


def test_a_new_version_of_a_tool(world: World) -> None:
    steps = ("app/compile/k/sm_60", "app/compile/k/sm_90")
    world.tools.absent.add("libdevice")
    world.build()
    world.tools.fingerprints["ptxas"] = "new"
    world.tools.versions = {"ptxas": "2"}
    assert reasons(world) == dict.fromkeys(steps, "ptxas changed: 1 → 2")
    world.tools.fingerprints["ptxas"] = "newer"
    assert reasons(world) == dict.fromkeys(steps, "ptxas changed (still 2, another content)")
    world.tools.absent.clear()
    assert reasons(world)["app/compile/k/sm_60"] == "libdevice was found"
    world.tools.absent.add("libdevice")
    assert reasons(world)["app/compile/k/sm_60"] == "libdevice is gone"


def test_what_changed_last_time_is_remembered(world: World) -> None:
    world.build()
    world.change_target("sm_90", opt_level=1)
    world.build()
    found = explanation(world, "app/compile/k/sm_90")
    assert found.status is Status.UP_TO_DATE
    assert found.why == "option opt_level changed: 3 → 1"
    assert [r for r in found.rows if r.changed] == [Row(name="option opt_level", before="3", now="1")]
    world.change_target("sm_90", opt_level=2)
    found = explanation(world, "app/compile/k/sm_90")
    assert found.status is Status.WOULD_RUN
    assert found.state == "would be looked at again: option opt_level changed: 1 → 2"
    assert [r for r in found.rows if r.changed] == [Row(name="option opt_level", before="1", now="2")]
    assert "app/compile/k/sm_90 comes first" in explanation(world, "app/link").state


def test_a_step_that_was_never_built(world: World) -> None:
    found = explanation(world, "app/compile/k/cpu")
    assert found.state == "would be looked at again: first build"
    assert all(not row.before for row in found.rows)
    assert "comes first" in explanation(world, "app/link").state


def explanation(world: World, step_id: str) -> Explanation:
    builder = world.builder()
    plan = builder.scan()
    return builder.explain(plan, plan.steps[step_id])


def test_unnumbered_and_unknown_inputs_have_names_too() -> None:
    from gpubuild.model.step import Input, LinkParams

    link = Step(
        id="app/link", kind=StepKind.LINK, params=LinkParams(),
        inputs=(Input(name="archive.0", path=Path("/p/libz.a")), Input(name="runtime", path=Path("/rt.a"))),
    )  # fmt: skip
    now = {"input archive.0": "b" * 64, "input runtime": "b" * 64}
    old = {"input archive.0": "a" * 64, "input runtime": "a" * 64, "input object.3": "c" * 64}
    assert why_changed(link, old, now, WORDS) == (
        "libz.a changed; the runtime library changed; an object is gone"
    )


def test_long_options_are_cut_to_what_differs() -> None:
    step = Step(id="x", kind="link", params=None, inputs=())
    old, new = "a" * 200 + "1" + "b" * 200, "a" * 200 + "2" + "b" * 200
    text = why_changed(step, {"option passes": old}, {"option passes": new}, WORDS)
    assert "1…" in text
    assert "2…" in text
    assert len(text) < 200


IDS = [
    "outline/k.mlir", "app/compile/k/cpu", "app/compile/k/sm_90", "app/bundle/k", "app/link", "b/link",
    "b/compile/k/sm_90",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("app/link", "app/link"),
        ("app/k/sm_90", "app/compile/k/sm_90"),
        ("app/@k/sm_90", "app/compile/k/sm_90"),
        ("k/cpu", "app/compile/k/cpu"),
        ("app/k", "app/bundle/k"),
        ("k.mlir", "outline/k.mlir"),
        ("link", "matches 2 steps: app/link, b/link"),
        ("app/compile/k/sm_99", "did you mean 'app/compile/k/sm_90'"),
        ("app/sm_9", "did you mean 'app/compile/k/sm_90'"),
        ("nonsense", "no step 'nonsense'$"),
    ],
)
def test_short_forms(name: str, found: str) -> None:
    if found in IDS:
        assert find_step(name, IDS) == found
        return
    with pytest.raises(UsageError, match=found):
        find_step(name, IDS)


def test_the_table_shows_what_changed() -> None:
    found = Explanation(
        step="app/link", status=Status.WOULD_RUN, state="would be looked at again", why="first build",
        rows=(Row(name="option a", before="1", now="2"), Row(name="option b", before="x", now="x")),
    )  # fmt: skip
    text = render(found, color=False, all_rows=False)
    assert "* option a  1          2" in text.splitlines()
    assert "option b" not in text
    assert "1 more are unchanged" in text
    assert "option b" in render(found, color=False, all_rows=True)
    assert to_json(found)["parts"][0] == {"name": "option a", "before": "1", "now": "2", "changed": True}


def test_after_a_failure_what_comes_after_it_can_be_asked_about(world: World) -> None:
    world.build()
    (world.root / "app.mlir").write_text("k unselectable\n")
    assert not world.build().ok
    found = explanation(world, "app/link")
    assert found.status is Status.WOULD_RUN
    assert found.state.startswith("app/compile/k/gfx90a comes first")
    assert "last time" not in render(found, color=False, all_rows=True)  # an empty table
    assert explanation(world, "app/compile/k/gfx90a").state.startswith(
        "would be looked at again: gpu.module @k"
    )


OLD = """\
module {
  gpu.module @m {
    memref.global @table : memref<4xf32>
    gpu.func @scale(%arg0: memref<?xf32>) kernel {
      %0 = gpu.global_id  x
      %1 = memref.load %arg0[%0] : memref<?xf32>
      %2 = arith.addf %1, %1 : f32
      %3 = arith.subf %1, %2 : f32
      memref.store %3, %arg0[%0] : memref<?xf32>
      gpu.return
    }
    func.func private @helper(f32) -> f32
    gpu.func @"odd name"() kernel {
      gpu.return
    }
  }
}
"""


SAME_END = "gpu.return\n    }\n  }"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("arith.addf", "arith.mulf")], "@scale, 1 op differs"),
        ([("arith.subf %1, %2", "arith.subf %2, %1")], "@scale, operands differ"),
        ([("gpu.global_id  x\n", "gpu.global_id  y\n      gpu.barrier\n")], "@scale, 2 ops differ"),
        ([("@scale", "@shrink")], "@scale is gone; @shrink is new"),
        ([('@"odd name"() kernel', '@"odd name"(%arg0: f32) kernel')], '@"odd name", 1 op differs'),
        ([("(f32) -> f32", "(f64) -> f64")], "@helper, 1 op differs"),
        ([("memref<4xf32>", "memref<8xf32>")], "declarations differ"),
        (
            [
                (
                    "      %2 = arith.addf %1, %1 : f32\n      %3 = arith.subf %1, %2 : f32\n",
                    "      %2 = arith.subf %1, %2 : f32\n      %3 = arith.addf %1, %1 : f32\n",
                )
            ],
            "@scale, the order of ops differs",
        ),
        (
            [("arith.addf", "arith.mulf"), (SAME_END, f"gpu.barrier\n      {SAME_END}")],
            '@"odd name", 1 op differs; @scale, 1 op differs',
        ),
    ],
)
def test_differences_are_named(changes: list[tuple[str, str]], words: str) -> None:
    text = OLD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    assert describe_difference(summarize(OLD), summarize(text)) == words
