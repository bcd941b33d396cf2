"""The DAG refuses what is not one; file names cannot collide or escape."""

import random
from pathlib import Path

import networkx as nx
import pytest
from unit.projects import make_step

from gpubuild.errors import StepError
from gpubuild.model.step import RuntimeParams, Step, StepKind
from gpubuild.plan.layout import Layout, file_name
from gpubuild.plan.plan import Plan
from gpubuild.plan.sources import parse_index


def test_circles_are_refused() -> None:
    with pytest.raises(ValueError, match="circle: a → b → a"):
        Plan([make_step("a", "b"), make_step("b", "a")])
    with pytest.raises(ValueError, match="circle: c → c"):
        Plan([make_step("b"), make_step("c", "b", "c"), make_step("d", "c")])
    with pytest.raises(ValueError, match="circle: (a → b → c → a|b → c → a → b|c → a → b → c)$"):
        Plan([make_step("a", "b"), make_step("b", "c"), make_step("c", "a"), make_step("d", "c")])


def come_after_their_needs(order: list[str], plan: Plan) -> bool:
    return all(order.index(need) < order.index(name) for name in order for need in plan.needs(name))


@pytest.mark.parametrize("seed", range(20))
def test_producers_come_first_whatever_the_order_of_planning(seed: int) -> None:
    chance = random.Random(seed)
    needs = [{chance.randrange(30) for _ in range(chance.randrange(4))} for _ in range(seed + 1)]
    names = [str(n) for n in range(len(needs))]
    steps = [make_step(names[n], *(names[i] for i in sorted(of) if i < n)) for n, of in enumerate(needs)]
    planned = Plan(steps)
    chance.shuffle(steps)
    plan = Plan(steps)
    assert sorted(plan.order()) == sorted(names)
    assert come_after_their_needs(plan.order(), plan)
    assert plan.order() == planned.order()
    for name in names:
        assert plan.needs(name) == set(plan.graph.predecessors(name))
        assert plan.feeds(name) == set(plan.graph.successors(name))
        before = plan.order_before(name)
        assert sorted(before) == sorted(nx.ancestors(plan.graph, name))
        assert come_after_their_needs(before, plan)
        weight = plan.rank(name) - max((plan.rank(f) for f in plan.feeds(name)), default=0)
        assert weight == plan.rank(names[-1]) - max((plan.rank(f) for f in plan.feeds(names[-1])), default=0)


def test_doubled_ids_outputs_and_unknown_producers_are_refused() -> None:
    with pytest.raises(ValueError, match="two steps are called a"):
        Plan([make_step("a"), make_step("a", writes="x")])
    with pytest.raises(ValueError, match="both write x"):
        Plan([make_step("a", writes="x"), make_step("b", writes="x")])
    with pytest.raises(ValueError, match="not in the plan"):
        Plan([make_step("a", "nobody")])


def test_dynamic_outputs_stay_in_their_folder() -> None:
    s = Step(id="a", kind=StepKind.OUTLINE, params=RuntimeParams(), inputs=(), dynamic_dir=Path("/d"))
    assert s.output_path("module.0.mlir") == Path("/d/module.0.mlir")
    for bad in ("../x", "a/b", "", ".hidden", "a\0", "ä"):
        with pytest.raises(KeyError):
            s.output_path(bad)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../../etc/passwd", "a b", "ü", "%2F", "%", "a\nb", "."])
def test_odd_names_become_one_safe_path_component(name: str) -> None:
    safe = file_name(name)
    assert "/" not in safe
    assert safe not in (".", "..")
    assert not safe.startswith(".")
    assert safe.isascii()


def test_long_names_fit_and_stay_apart() -> None:
    names = ["n" * 500, "n" * 501, "ü" * 300, "n" * 100, "n" * 101]
    safe = {file_name(name) for name in names}
    assert len(safe) == len(names)
    assert max(map(len, safe)) <= 100
    layout = Layout(root=Path("/p"), build_dir=Path("/p/build"))
    assert len(layout.object_files("p", "n" * 500, "t" * 500, "nvvm")["object"].name) < 255


def test_file_names_are_injective() -> None:
    names = ["a.b", "a%2Eb", "a/b", "a%2Fb", ".a", "%2Ea", "a", "A"]
    assert len({file_name(n) for n in names}) == len(names)


def test_source_folders_are_unique() -> None:
    layout = Layout(root=Path("/p"), build_dir=Path("/p/build"))
    sources = [
        "/p/a/k.mlir", "/p/b/k.mlir", "/p/a_k.mlir", "/p/.k.mlir", "/p/_k.mlir", "/elsewhere/k.mlir",
        "/p/" + "x" * 300 + ".mlir",
    ]  # fmt: skip
    folders = {layout.source_dir(Path(s)) for s in sources}
    assert len(folders) == len(sources)
    assert all(f.parent == layout.private / "sources" and len(f.name) < 200 for f in folders)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 1}', '{"schema": 2, "modules": [{}]}', "null"])
def test_malformed_scan_results_are_clear_errors(text: str) -> None:
    with pytest.raises(StepError, match="malformed"):
        parse_index(text)
