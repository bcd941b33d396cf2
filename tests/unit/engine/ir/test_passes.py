"""The driver of passes: operations that a rewriting pass visits, and selections from a table."""

from dataclasses import dataclass, field

import pytest
from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import (
    Pass,
    contains,
    only_when,
    rewriting,
    run_passes,
    selected,
    upstream,
    without_idle,
)
from gpubuild.errors import UsageError

NESTED = """
func.func @f(%c: i1) {
  scf.if %c {
    %x = arith.constant 1 : i32
    scf.if %c {
      %y = arith.constant 2 : i32
    }
  }
  %z = arith.constant 3 : i32
  return
}
"""
UNREACHABLE = """
func.func @f() {
  return
^bb1:
  %x = arith.constant 1 : i32
  cf.br ^bb1
}
"""


@dataclass
class Seen:
    names: list[str] = field(default_factory=list)
    source: SourceText = field(default_factory=SourceText)


def note(op: ir.Operation, seen: Seen) -> None:
    seen.names.append(f"{op.name} {op.attributes['value'].value}" if "value" in op.attributes else op.name)


def test_what_a_rewrite_creates_is_not_visited() -> None:
    def double(op: ir.Operation, seen: Seen) -> None:
        note(op, seen)
        emit = Emitter(op)
        emit.replace(emit.constant(7, op.results[0].type))

    with contexts.context():
        module, seen = contexts.parse(NESTED), Seen()
        run_passes(module, [rewriting("double", {"arith.constant": double})], seen)
        assert len(seen.names) == 3 and str(module).count("arith.constant 7") == 3


def test_blocks_that_nothing_reaches_are_left_alone() -> None:
    """Canonicalization removes them before anything is converted."""
    with contexts.context():
        assert not contains(contexts.parse(UNREACHABLE).operation, ("arith.constant",))
        assert contains(contexts.parse(NESTED).operation, ("memref.load", "arith.constant"))


def test_a_pass_runs_only_when_it_is_needed() -> None:
    def run(name: str) -> Pass[Seen]:
        return Pass(name=name, run=lambda _, seen: seen.names.append(name), when=lambda seen: name != "b")

    with contexts.context():
        seen = Seen()
        passes = [*only_when(lambda seen: len(seen.names) < 2, [run("a"), run("b"), run("c"), run("d")])]
        run_passes(contexts.parse(NESTED), passes, seen)
    assert seen.names == ["a", "c"]


def test_a_pipeline_of_upstreams_can_wait_for_an_operation() -> None:
    with contexts.context():
        module = contexts.parse(NESTED)
        clean = "builtin.module(func.func(canonicalize))"
        run_passes(module, [upstream("clean", clean, only_for=("memref.load",))], Seen())
        assert "arith.constant" in str(module)
        run_passes(module, [upstream("clean", clean, only_for=("scf.if",))], Seen())
        assert "arith.constant" not in str(module)


@pytest.mark.parametrize(
    ("passes", "left"),
    [
        ("func.func(convert-vector-to-scf,canonicalize)", "func.func(canonicalize)"),
        ("func.func(cse,lower-affine,inline,lower-affine)", "func.func(cse,inline,lower-affine)"),
        ("convert-scf-to-cf,lower-affine", "convert-scf-to-cf,lower-affine"),
        ("scf-forall-to-for,convert-scf-to-cf,cse", "convert-scf-to-cf,cse"),
        ("func.func(convert-ub-to-llvm),a{b=c d=e},x", "a{b=c d=e},x"),
        ("func.func(convert-ub-to-llvm)", "func.func(convert-ub-to-llvm)"),
    ],
)
def test_conversions_of_absent_operations_are_left_out(passes: str, left: str) -> None:
    """But none after a pass that may create operations, and not all."""
    with contexts.context():
        module = contexts.parse(NESTED)
        assert without_idle(f"builtin.module({passes})", module) == f"builtin.module({left})"


def test_ranges() -> None:
    passes = [Pass(name=name, run=lambda _, seen: None) for name in ("first", "second", "third")]
    assert [one.name for one in selected(passes, "second")] == ["second"]
    assert [one.name for one in selected(passes, "first", "third")] == ["first", "second", "third"]
    with pytest.raises(UsageError, match="runs before"):
        selected(passes, "third", "first")
    with pytest.raises(UsageError) as caught:
        selected(passes, "fist")
    assert "first" in caught.value.hint
