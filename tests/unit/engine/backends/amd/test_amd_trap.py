"""Traps on GFX 11.0 do not take the code after them away."""

import pytest
from unit.engine.device_steps import compile_module, kernel

GUARDED = """
%limit = arith.constant 1.0e3 : f32
%fits = arith.cmpf olt, %x, %limit : f32
cf.assert %fits, "x is small"
%d = arith.extf %x : f32 to f64
memref.store %d, %out[%i] : memref<?xf64>
"""


@pytest.mark.parametrize("chip", ["gfx1100", "gfx11-generic"])
def test_code_after_a_trap_is_kept(chip: str) -> None:
    """LLVM 22.1.8 ends here: the store is still a pseudo instruction when it is to be printed."""
    asm = compile_module(kernel(GUARDED, arguments="%out: memref<?xf64>"), chip, opt_level=1).asm
    assert asm.count("s_sethalt") == 1 and "_store_b64" in asm


def test_other_chips_trap_in_place() -> None:
    built = compile_module(kernel(GUARDED, arguments="%out: memref<?xf64>"), "gfx1150", opt_level=1)
    assert "gpubuild_trap" not in built.llvm and "s_trap 2" in built.asm
