"""Index casts that cut bits off survive our passes, and those of users; switches are read as printed."""

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
    assert workarounds.keep_narrow_casts(pipeline) == pipeline


@pytest.mark.parametrize(
    ("kind", "cases", "signed"),
    [
        ("i8", "-1: ^a, 127: ^b, 128: ^a, 254: ^b", "[-1, 127, -128, -2]"),
        ("i1", "1: ^a", "true"),
        ("i32", "4294967291: ^a, 5: ^b", "[-5, 5]"),
        ("i64", "18446744073709551615: ^a, 3: ^b", "[-1, 3]"),
    ],
)
@pytest.mark.parametrize("dialect", ["cf", "llvm"])
def test_cases_of_switches_are_read_as_printed(dialect: str, kind: str, cases: str, signed: str) -> None:
    text = f"""llvm.func @f(%c: {kind}) {{
  cf.switch %c : {kind}, [default: ^b, {cases}]
^a:
  llvm.return
^b:
  llvm.return
}}"""
    if dialect == "llvm":
        text = text.replace("cf.switch", "llvm.switch").replace(", [default: ^b, ", ", ^b [")
    with contexts.context():
        for source in ("", "a.mlir"):
            module = contexts.parse(text, source_name=source)
            switch = module.body.operations[0].regions[0].blocks[0].operations[0]
            assert f"dense<{signed}>" in str(switch.attributes["case_values"])


@pytest.mark.parametrize("case", ["256", "-129", str(2**70)])
def test_a_case_that_the_type_does_not_have(case: str) -> None:
    text = f"func.func @f(%c: i8) {{\n cf.switch %c : i8, [default: ^a,\n  {case}: ^a]\n^a:\n return\n}}"
    with contexts.context(), pytest.raises(StepError) as found:
        contexts.parse(text, source_name="a.mlir")
    assert [(d.location.line, d.message) for d in found.value.diagnostics] == [
        (3, "custom op 'cf.switch' integer value too large")
    ]
