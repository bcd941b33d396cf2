"""Vector math: which of C's functions are straight-line code of ours, and their definitions as LLVM IR."""

from __future__ import annotations

from gpubuild.engine.cpu import doubles, polynomials, powers, trigonometry
from gpubuild.engine.cpu.polynomials import Code, Maker

_F32: dict[str, Maker] = {**polynomials.MAKERS, **trigonometry.F32, **powers.F32}
_F64: dict[str, Maker] = {**doubles.F64, **trigonometry.F64}
_NEED_FUSED = polynomials.NEED_FUSED | trigonometry.F32.keys() | powers.F32.keys() | _F64.keys()


def define(name: str, symbol: str, *, fused: bool, declarations: dict[str, None]) -> str:
    """The definition of ``symbol`` as C's function ``name``; empty when it is not one of ours."""
    if name in _NEED_FUSED and not fused:
        return ""
    make = _F32.get(name) or _F64.get(name)
    if make is None:
        return ""
    kind = "float" if name in _F32 else "double"
    code = Code(fused)
    result = make(code)
    declarations.update(dict.fromkeys(sorted(code.declarations)))
    parameters = ", ".join(f"{kind} %{i}" for i in range(2 if name in powers.F32 else 1))
    body = "".join(code.lines)
    return f"define {kind} @{symbol}({parameters}) alwaysinline {{\n{body}  ret {kind} {result}\n}}\n"
