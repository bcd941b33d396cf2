"""Functions: which of C's functions are straight-line code of ours, and their definitions as LLVM IR."""

from __future__ import annotations

from gpubuild.engine.mathlib import (
    error_functions,
    exp_log_f64,
    expressions,
    hyperbolic,
    inverse_trigonometry,
    polynomials,
    power,
    roots,
    trigonometry,
    trigonometry_f32,
)
from gpubuild.engine.mathlib.polynomials import Code, Maker

_MODULES = (error_functions, hyperbolic, inverse_trigonometry, power, roots, trigonometry)
_F32: dict[str, Maker] = polynomials.MAKERS | expressions.UNFUSED
_F64: dict[str, Maker] = dict(exp_log_f64.F64)
_SINGLE: dict[str, Maker] = exp_log_f64.SINGLE | trigonometry_f32.SINGLE
for _singles in (error_functions, hyperbolic, inverse_trigonometry, power, roots):
    _SINGLE |= _singles.SINGLE
for _module in _MODULES:
    _F32 |= _module.F32
    _F64 |= _module.F64
# Elsewhere the C library's, for one value at a time, are faster.
_NEED_FUSED = (
    polynomials.NEED_FUSED | power.F32.keys() | power.F64.keys() | exp_log_f64.NEED_FUSED | {"acosh"}
)


def has_own(name: str, *, fused: bool) -> bool:
    """Whether C's function ``name`` is code of ours; ``fused``: where there is fused multiply-add."""
    if name in expressions.UNFUSED:
        return not fused
    return (name in _F32 or name in _F64) and (fused or name not in _NEED_FUSED)


def define(name: str, symbol: str, *, fused: bool, declarations: dict[str, None], gpu: bool = False) -> str:
    """The definition of ``symbol`` as C's function ``name``; empty when it is not one of ours.

    ``gpu``: without a C library for rare arguments, and f32 in f32, since some chips have few units for f64.
    """
    if not has_own(name, fused=fused):
        return ""
    make = (gpu and _SINGLE.get(name)) or _F32.get(name) or _F64[name]
    kind = "float" if name in _F32 else "double"
    code = Code(fused, library=not gpu)
    result = make(code)
    declarations.update(dict.fromkeys(sorted(code.declarations)))
    others = {"pow": [kind], "atan2": [kind], "powi": ["i32"], "fma": [kind, kind]}
    kinds = [kind, *others.get(name.removesuffix("f"), [])]
    parameters = ", ".join(f"{k} %{i}" for i, k in enumerate(kinds))
    body = "".join(code.lines)
    return f"define {kind} @{symbol}({parameters}) alwaysinline {{\n{body}  ret {kind} {result}\n}}\n"
