import re

import pytest

from gpubuild.engine.ir import llvm
from gpubuild.engine.mathlib import libdevice_calls

# What MLIR's math dialect reaches through convert-gpu-to-nvvm.
REACHED = [
    "abs", "acos", "acosf", "acosh", "acoshf", "asin", "asinf", "asinh", "asinhf", "atan", "atan2",
    "atan2f", "atanf", "atanh", "atanhf", "cbrt", "cbrtf", "ceil", "ceilf", "copysign", "copysignf",
    "cos", "cosf", "cosh", "coshf", "erf", "erfc", "erfcf", "erff", "exp", "exp2", "exp2f", "expf",
    "expm1", "expm1f", "fabs", "fabsf", "fast_cosf", "fast_expf", "fast_log10f", "fast_log2f",
    "fast_logf", "fast_powf", "fast_sinf", "fast_tanf", "finitef", "floor", "floorf", "fma", "fmaf",
    "fmod", "fmodf", "isfinited", "isinfd", "isinff", "isnand", "isnanf", "log", "log10", "log10f",
    "log1p", "log1pf", "log2", "log2f", "logf", "pow", "powf", "powi", "powif", "rint", "rintf", "round",
    "roundf", "rsqrt", "rsqrtf", "sin", "sincos", "sincosf", "sinf", "sinh", "sinhf", "sqrt", "sqrtf",
    "tan", "tanf", "tanh", "tanhf", "trunc", "truncf",
]  # fmt: skip


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("fast", [False, True])
def test_every_function_the_math_dialect_reaches(fast, fused):
    text = libdevice_calls.library_text([f"__nv_{n}" for n in REACHED], fast_math=fast, fused=fused)
    module = llvm.parse_assembly(text, llvm.new_context())
    llvm.verify(module)
    defined = {f.name for f in module.functions if not f.is_declaration}
    assert {name for name in defined if not name.startswith("gpubuild.")} == {f"__nv_{n}" for n in REACHED}
    left = {f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")}
    assert left <= libdevice_calls.PROVIDED


def test_unknown_names_are_left_out():
    assert "define" not in libdevice_calls.library_text(["__nv_no_such", "__nv_", "expf"])


def test_fast_functions_may_be_approximate():
    assert re.search(r"call afn float @llvm.log.f32", libdevice_calls.library_text(["__nv_fast_logf"]))
    assert "afn" not in libdevice_calls.library_text(["__nv_logf"])
