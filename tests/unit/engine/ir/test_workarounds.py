"""Index casts that cut bits off survive our passes, and those of users."""

import pytest

from gpubuild.engine.ir import contexts, workarounds

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
    assert workarounds.keep_narrow_casts(pipeline) == pipeline
