"""Which parts of vectors are kept from being joined, and that what comes out is LLVM IR."""

import pytest

from gpubuild.engine.backends.cpu.workarounds import keep_in_text, keep_odd_halves, register_bits
from gpubuild.engine.ir import llvm

TRIPLE = "x86_64-unknown-linux-gnu"
WIDE = llvm.target_machine(TRIPLE, "x86-64-v4")
EMPTY_ASSEMBLY = 'asm "", "=x,0"'


def function(whole: int, mask: list[int], element: str = "float", *, name: str = "%1") -> str:
    wide, narrow = f"<{whole} x {element}>", f"<{len(mask)} x {element}>"
    places = ", ".join(f"i32 {p}" if p >= 0 else "i32 poison" for p in mask)
    return (
        f'target triple = "{TRIPLE}"\ndefine {narrow} @f({wide} %v, {wide} %w) {{\n'
        f"  {name} = shufflevector {wide} %v, {wide} %w, <{len(mask)} x i32> <{places}>\n"
        f"  ret {narrow} {name}\n}}\n"
    )


@pytest.mark.parametrize(
    ("whole", "mask", "element"),
    [
        (24, [12, 13, 14, 15], "float"),
        (24, [36, 37, 38, 39], "float"),  # of the second vector
        (24, [-1, 13, -1, 15], "float"),
        (24, [13, 12, 15, 15], "float"),  # in another order
        (24, [12, 13, 24, 25], "float"),  # of both vectors
        (40, [20, 21, 22, 23], "i32"),
        (12, [6, 7], "double"),
        (12, [6, 7], "ptr"),
        (48, list(range(24, 32)), "half"),
        (48, list(range(24, 32)), "float"),  # halves of registers of 512 bits
        (96, list(range(48, 64)), "i8"),
    ],
)
def test_is_kept(whole, mask, element):
    module = llvm.parse_assembly(function(whole, mask, element), llvm.new_context())
    kept = keep_odd_halves(module, WIDE)
    llvm.verify(kept)
    llvm.emit_assembly(kept, WIDE)
    assert str(kept).count(EMPTY_ASSEMBLY) == 1


@pytest.mark.parametrize(
    ("whole", "mask"),
    [
        (24, [8, 9, 10, 11]), (24, [16, 17, 18, 19]), (16, [8, 9, 10, 11]), (32, [16, 17, 18, 19]),
        (8, [4, 5, 6, 7]), (24, [11, 12, 13, 14]), (24, [12, 13]), (12, [6, 7, 8, 9]),
    ],
)  # fmt: skip
def test_all_else_stays(whole, mask):
    text = function(whole, mask)
    assert keep_in_text(text, 512) == text


def test_other_machines_keep_theirs():
    module = llvm.parse_assembly(function(24, [12, 13, 14, 15]), llvm.new_context())
    arm = llvm.target_machine("aarch64-unknown-linux-gnu", "generic")
    assert keep_odd_halves(module, arm) is module


def test_parts_as_wide_as_registers_are_not_joined():
    """And assembly could not take them."""
    wide = llvm.parse_assembly(function(48, list(range(24, 32))), llvm.new_context())
    narrow = llvm.parse_assembly(function(24, [12, 13, 14, 15]), llvm.new_context())
    for chip, bits in (("x86-64-v2", 128), ("x86-64-v3", 256)):
        machine = llvm.target_machine(TRIPLE, chip)
        assert register_bits(machine) == bits
        assert keep_odd_halves(wide, machine) is wide
        assert (keep_odd_halves(narrow, machine) is narrow) == (bits == 128)


def test_names_in_quotes():
    kept = keep_in_text(function(24, [12, 13, 14, 15], name='%"a b"'), 256)
    llvm.verify(llvm.parse_assembly(kept, llvm.new_context()))
    assert EMPTY_ASSEMBLY in kept
