"""Functions of OCML, ROCm's library that kernels reach through mathematics, as code of gpubuild.

``ocml.ll`` has the functions that AMD's code generator does exactly by itself. Those here need no ROCm, so
that a build gives the same bytes on every machine, with ROCm or without.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "__ocml_"
_C_NAMES = {"pown": "powi"}  # the others have C's
_NAMES = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "log", "log10", "log1p", "log2", "pow", "pown", "sin", "sinh", "tan", "tanh",
})  # fmt: skip
_SECOND = {"atan2": "{kind} %1", "pow": "{kind} %1", "pown": "i32 %1"}
_HALF = "gpubuild.ocml."  # of f32, for functions of f16


def library_text(names: Iterable[str]) -> str:
    """Return LLVM IR that defines those of ``names`` (``__ocml_*``) that gpubuild has; empty for none."""
    declarations: dict[str, None] = {}
    definitions: dict[str, None] = {}
    for name in sorted(set(names)):
        base, _, kind = name.removeprefix(PREFIX).rpartition("_")
        if not name.startswith(PREFIX) or base not in _NAMES:
            continue
        plain = _C_NAMES.get(base, base)
        if kind == "f16":
            inner = _definition(f"{plain}f", f"{_HALF}{base}", declarations)
            definitions[inner.replace("define", "define internal", 1)] = None
            definitions[_through_f32(name, base)] = None
        elif kind in ("f32", "f64"):
            suffix = "f" if kind == "f32" else ""
            definitions[_definition(f"{plain}{suffix}", name, declarations)] = None
    return "\n".join([*declarations, *definitions]) + "\n" if definitions else ""


def _definition(plain: str, symbol: str, declarations: dict[str, None]) -> str:
    from gpubuild.engine.mathlib import functions

    # AMD GPUs have fused multiply-add, and no C library.
    return functions.define(plain, symbol, fused=True, gpu=True, declarations=declarations)


def _through_f32(name: str, base: str) -> str:
    second = _SECOND.get(base, "")
    lines = ["  %x = fpext half %0 to float\n"]
    operands = "float %x"
    if "kind" in second:
        lines.append("  %y = fpext half %1 to float\n")
        operands += ", float %y"
    elif second:
        operands += f", {second}"
    lines += [
        f"  %w = call float @{_HALF}{base}({operands})\n",
        "  %r = fptrunc float %w to half\n  ret half %r\n",
    ]
    parameters = ", ".join(["half %0", *([second.format(kind="half")] if second else [])])
    return f"define half @{name}({parameters}) alwaysinline {{\n{''.join(lines)}}}\n"
