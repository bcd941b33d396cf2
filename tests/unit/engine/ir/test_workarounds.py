"""Index casts that cut bits off, and masks, survive passes; switches are read as printed."""

import pytest

from gpubuild.engine.ir import contexts, workarounds
from gpubuild.errors import StepError

SOURCE = """func.func @f(%i: index) -> (index, index, index, index) {
  %a = arith.index_cast %i : index to i8
  %b = arith.index_cast %a : i8 to index
  %c = arith.index_castui %i : index to i32
  %d = arith.index_castui %c : i32 to index
  %e = arith.index_cast %i : index to i32
  %f = arith.extsi %e : i32 to i64
  %g = arith.index_cast %f : i64 to index
  %h = arith.addi %i, %i : index
  %j = arith.subi %h, %h : index
  return %b, %d, %g, %j : index, index, index, index
}
"""


@pytest.mark.parametrize(
    "passes",
    [
        "canonicalize",
        "canonicalize,cse",
        "canonicalize{top-down=false max-iterations=3}",
        'canonicalize{disable-patterns="A,B"}',
        "func.func(canonicalize)",
        "any(canonicalize{})",
    ],
)
def test_narrow_casts_stay(passes: str) -> None:
    with contexts.context():
        module = contexts.parse(SOURCE)
        contexts.run_passes(module, f"builtin.module({passes})")
        function = module.body.operations[0].operation
        block = function.regions[0].blocks[0]
        results = block.operations[len(block.operations) - 1].operands
        assert [value == block.arguments[0] for value in results] == [False] * 4
        assert results[3].owner.name == "arith.constant"  # everything else is folded


def test_other_passes_are_as_given() -> None:
    pipeline = "builtin.module(cse,my-canonicalize,canonicalize-more)"
    assert workarounds.disable_wrong_patterns(pipeline) == pipeline


def test_a_masked_reduction_of_one_element_keeps_its_mask() -> None:
    text = """func.func @f(%v: vector<1xi32>, %m: vector<1xi1>) -> i32 {
  %r = vector.mask %m { vector.reduction <add>, %v : vector<1xi32> into i32 } : vector<1xi1> -> i32
  return %r : i32
}"""
    with contexts.context():
        module = contexts.parse(text)
        contexts.run_passes(module, "builtin.module(canonicalize)")
        assert "vector.mask" in str(module)


SWITCH = """func.func @f(%c: KIND, %d: i1, %m: memref<4xi32, affine_map<(d0) -> (d0 + 1)>>) -> i32 {
  %x = arith.constant 1 : i32
  %a, %b = scf.if %d -> (i32, i32) {
    scf.yield %x, %x : i32, i32
  } else {
    scf.yield %x, %x : i32, i32
  }
  cf.switch %c : KIND, [
    CASES
  ]
^a(%v: i32, %w: memref<4xi32, affine_map<(d0) -> (d0 + 1)>>):
  %r = memref.load %w[%i] : memref<4xi32, affine_map<(d0) -> (d0 + 1)>>
  cf.br ^b(%r : i32)
^b(%u: i32):
  return %u : i32
}"""
TO_A = "^a(%b, %m : i32, memref<4xi32, affine_map<(d0) -> (d0 + 1)>>)"


@pytest.mark.parametrize(
    ("kind", "cases", "signed"),
    [
        ("i8", "default: ^b(%x : i32), 7: ^b(%a : i32), 255: ^b(%x : i32)", "[7, -1]"),
        ("i1", f"default: {TO_A}, 1: {TO_A}", "true"),
        ("i32", f"default: {TO_A}, -5: ^b(%a : i32), 5: ^b(%x : i32)", "[-5, 5]"),
        ("i64", f"default: ^b(%b : i32), -1: {TO_A}", "-1"),
        ("i16", "default: ^b(%b : i32)", ""),
    ],
)
def test_switches_are_read_as_printed(kind: str, cases: str, signed: str) -> None:
    text = SWITCH.replace("KIND", kind).replace("CASES", cases).replace("[%i]", "[%zero]")
    text = text.replace("  %x =", "  %zero = arith.constant 0 : index\n  %x =")
    with contexts.context():
        for source in ("", "a.mlir"):
            module = contexts.parse(text, source_name=source)
            printed = contexts.canonical_text(module.operation)
            again = contexts.parse(printed)
            assert contexts.canonical_text(again.operation) == printed
            (block, *_) = again.body.operations[0].regions[0].blocks
            switch = block.operations[len(block.operations) - 1]
            values = switch.attributes["case_values"] if signed else ""
            assert str(values).startswith(f"dense<{signed}>" * bool(signed))


@pytest.mark.parametrize("case", ["256", "-129", str(2**70)])
def test_a_case_that_the_type_does_not_have(case: str) -> None:
    text = f"func.func @f(%c: i8) {{\n cf.switch %c : i8, [default: ^a,\n  {case}: ^a]\n^a:\n return\n}}"
    with contexts.context(), pytest.raises(StepError) as found:
        contexts.parse(text, source_name="a.mlir")
    (error,) = found.value.diagnostics
    assert error.location.line == 2 and "integer" in error.message
