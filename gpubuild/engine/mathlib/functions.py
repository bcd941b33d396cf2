"""The functions of C that this package has, and their definitions as LLVM IR."""

from __future__ import annotations

from gpubuild.engine.mathlib import (
    error_functions,
    exp_log,
    hyperbolic,
    inverse_trigonometry,
    power,
    trigonometry,
)
from gpubuild.engine.mathlib.expressions import Code, Function, Real, two_sum


def _fma_f32(x: Real, y: Real, z: Real) -> Real:
    """Return x * y + z rounded once, without an instruction for it.

    The product is exact in f64. The sum is rounded to odd there: towards zero, with the last bit set where
    something was lost. So rounding it again gives the same as rounding once.
    """
    code = x.code
    a, b, c = x.wide(), y.wide(), z.wide()
    total, lost = two_sum(a * b, c)
    bits = total.bits()
    # Where the nearest number is further from zero than the exact sum, the one before it is right.
    further = (lost.compare("ogt", 0.0) & total.compare("olt", 0.0)) | (
        lost.compare("olt", 0.0) & total.compare("ogt", 0.0)
    )
    step = code.value(f"sext i1 {further.name} to i64")
    some = code.value(f"zext i1 {lost.compare('one', 0.0).name} to i64")
    odd = code.value(f"or i64 {code.value(f'add i64 {bits}, {step}')}, {some}")
    return total.emit(f"bitcast i64 {odd} to double").narrow()


_UNFUSED: dict[str, Function] = {"fmaf": _fma_f32}
_MODULES = (error_functions, exp_log, hyperbolic, inverse_trigonometry, power, trigonometry)
_F32: dict[str, Function] = _UNFUSED.copy()
_F64: dict[str, Function] = {}
_SINGLE: dict[str, Function] = {}  # of f32, without f64
for _module in _MODULES:
    _F32 |= _module.F32
    _F64 |= _module.F64
    _SINGLE |= _module.SINGLE
# Without fused operations the C library's functions, for one value at a time, are faster.
_NEED_FUSED = exp_log.NEED_FUSED | hyperbolic.NEED_FUSED | power.NEED_FUSED
_MORE_PARAMETERS = {"pow": ["{kind}"], "atan2": ["{kind}"], "powi": ["i32"], "fma": ["{kind}", "{kind}"]}


def has_own(name: str, *, fused: bool) -> bool:
    """Return whether C's function ``name`` is here; ``fused``: the device has fused multiply-add."""
    if name in _UNFUSED:
        return not fused
    return (name in _F32 or name in _F64) and (fused or name not in _NEED_FUSED)


def define(name: str, symbol: str, *, fused: bool, declarations: dict[str, None], gpu: bool = False) -> str:
    """Return the definition of ``symbol`` as C's function ``name``; empty if the package lacks it.

    ``gpu``: without a C library for rare arguments, and f32 in f32, since some chips have few units for f64.
    """
    if not has_own(name, fused=fused):
        return ""
    function = (gpu and _SINGLE.get(name)) or _F32.get(name) or _F64[name]
    kind = "float" if name in _F32 else "double"
    kinds = [kind, *(more.format(kind=kind) for more in _MORE_PARAMETERS.get(name.removesuffix("f"), []))]
    code = Code(fused, library=not gpu)
    result = function(*(f"%{i}" if k == "i32" else Real(code, f"%{i}", k) for i, k in enumerate(kinds)))
    declarations.update(dict.fromkeys(sorted(code.declarations)))
    parameters = ", ".join(f"{k} %{i}" for i, k in enumerate(kinds))
    body = "".join(code.lines)
    return f"define {kind} @{symbol}({parameters}) alwaysinline {{\n{body}  ret {kind} {result.name}\n}}\n"
