"""Inline assembly for AMD GPUs is assembled by the linker, since llvmlite cannot."""

import pytest
from unit.engine.device_steps import compile_module, kernel
from unit.engine.steps import refused

ADD = """%r = llvm.inline_asm "v_add_f32 $0, $1, $1", "=v,v" %x : (f32) -> f32
memref.store %r, %a[%i] : memref<?xf32>"""


@pytest.mark.parametrize(
    ("chip", "features", "mach"), [("gfx90a", "+xnack", 0x3F), ("gfx1100", "+wavefrontsize64", 0x41)]
)
def test_inline_assembly_is_in_the_object(chip: str, features: str, mach: int) -> None:
    first, second = (compile_module(kernel(ADD), chip, features=features, opt_level=2) for _ in range(2))
    assert "v_add_f32 v" in first.asm
    assert first.ran.outputs == second.ran.outputs
    assert first.object[48] == mach
    if features == "+xnack":
        assert first.object[49] & 3 == 3
    else:
        assert ".wavefront_size: 64" in first.asm
    assert first.kernels[0]["name"] == "f" and first.kernels[0]["registers"] > 0
    for name, data in first.ran.outputs.items():
        assert b"/tmp" not in data, name


def test_what_the_assembler_says_is_shown() -> None:
    error = refused(compile_module, kernel(ADD.replace("v_add_f32", "v_nonsense")), "gfx90a")
    assert "v_nonsense" in error.output or "invalid instruction" in error.output
