"""Integers: values that walks compute are what MLIR's own folding gives."""

from __future__ import annotations

from itertools import product

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.source.reach import affine, integers

ARITH = ("addi", "subi", "muli", "andi", "ori", "xori", "divsi", "divui", "remsi", "remui", "ceildivsi",
         "ceildivui", "floordivsi", "shli", "shrsi", "shrui", "maxsi", "maxui", "minsi", "minui")  # fmt: skip
INDEX = ("add", "sub", "mul", "and", "or", "xor", "divs", "divu", "rems", "remu", "ceildivs", "ceildivu",
         "floordivs", "shl", "shrs", "shru", "maxs", "maxu", "mins", "minu")  # fmt: skip
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
VALUES = (0, 1, 3, 7, -1, -5, 100, -128)
CASTS = (
    "arith.extui %{0} : i8 to i32",
    "arith.extsi %{0} : i8 to i32",
    "arith.index_cast %{0} : i8 to index",
    "arith.index_castui %{0} : i8 to index",
    "index.casts %{1} : index to i32",
    "index.castu %{1} : index to i32",
    "arith.trunci %{2} : i32 to i8",
)
MAP = "affine_map<(d0, d1) -> (d0 * 3 + d1 mod 5 - d0 floordiv 2, d1 ceildiv 4)>"
KINDS = ("i8", "index", "i32")


def program() -> str:
    """A function that returns what each operation gives for each two of ``VALUES``, of different types."""
    lines, results = [], []

    def add(text: str, kind: str) -> None:
        lines.append(f"%r{len(results)} = {text}")
        results.append(kind)

    for (place, value), kind in product(enumerate(VALUES), KINDS):
        lines.append(f"%{kind}_{place} = arith.constant {value} : {kind}")
    for a, b in product(range(len(VALUES)), repeat=2):
        for name, kind in product(ARITH, ("i8", "i32")):
            add(f"arith.{name} %{kind}_{a}, %{kind}_{b} : {kind}", kind)
        for name in INDEX:
            add(f"index.{name} %index_{a}, %index_{b}", "index")
        for name in PREDICATES:
            add(f"arith.cmpi {name}, %i8_{a}, %i8_{b} : i8", "i1")
            add(f"index.cmp {name}(%index_{a}, %index_{b})", "i1")
        add(f"affine.min {MAP}(%index_{a}, %index_{b})", "index")
        add(f"affine.max {MAP}(%index_{a}, %index_{b})", "index")
    for a in range(len(VALUES)):
        for cast in CASTS:
            add(cast.format(*(f"{kind}_{a}" for kind in KINDS)), cast.rpartition(" ")[2])
    names = ", ".join(f"%r{n}" for n in range(len(results)))
    kinds = ", ".join(results)
    return f"func.func @f() -> ({kinds}) {{\n" + "\n".join(lines) + f"\nreturn {names} : {kinds}\n}}\n"


def returned(module: ir.Module) -> list[ir.Value]:
    block = module.body.operations[0].regions[0].blocks[0]
    return list(block.operations[len(block.operations) - 1].operands)


def test_numbers_are_what_folding_gives() -> None:
    text = program()
    with contexts.context():
        plain, folded = contexts.parse(text), contexts.parse(text)
        contexts.run_passes(folded, "builtin.module(func.func(canonicalize))")
        known = 0
        for value, constant in zip(returned(plain), returned(folded), strict=True):
            op = value.owner.operation
            fold = integers.fold_of(op) or affine.fold_of(op)
            assert fold is not None, op.name
            mine = fold([integers.number(operand) for operand in op.operands])
            theirs = integers.number(constant) if constant.owner.operation.name.endswith("constant") else None
            if theirs is not None:  # what is undefined, MLIR leaves as it is, or makes poison of
                known += 1
                assert mine == theirs, str(op)
        assert known > 4500


def test_sets() -> None:
    with contexts.context():
        inside = affine.set_of(
            ir.Attribute.parse("affine_set<(d0)[s0] : (d0 - 3 >= 0, s0 - d0 >= 0, d0 mod 2 == 0)>")
        )
        assert inside is not None
        assert [d for d in range(12) if inside([d, 9])] == [4, 6, 8]
