"""Functions of OCML, ROCm's library that kernels reach through mathematics, as code of gpubuild.

AMD's code generator does some exactly by itself; others come from ``engine.mathlib``. They need no ROCm, so
that a build gives the same bytes on every machine, with ROCm or without.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

PREFIX = "__ocml_"
_TYPES = {"f16": "half", "f32": "float", "f64": "double"}
# Intrinsics that the code generator does exactly, with the number of operands.
_EXACT = {
    "ceil": 1, "copysign": 2, "fabs": 1, "floor": 1, "fma": 3, "nearbyint": 1, "rint": 1, "round": 1,
    "sqrt": 1, "trunc": 1,
}  # fmt: skip
_FORWARDED = frozenset({"exp", "exp2", "log", "log10", "log2"})  # of f32: ROCm's library has these, too
# Instructions of f32, whose error is absolute and grows with the argument: it becomes a number of turns.
_APPROXIMATE = {
    "cos": "  %r = call afn float @llvm.cos.f32(float %0)\n",
    "sin": "  %r = call afn float @llvm.sin.f32(float %0)\n",
    "tan": "  %s = call afn float @llvm.sin.f32(float %0)\n"
    "  %c = call afn float @llvm.cos.f32(float %0)\n"
    "  %r = fdiv arcp afn float %s, %c\n",
}
_C_NAMES = {"pown": "powi"}  # the others have C's
_NAMES = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "log", "log10", "log1p", "log2", "pow", "pown", "sin", "sinh", "tan", "tanh",
})  # fmt: skip
_SECOND = {"atan2": "{kind} %1", "pow": "{kind} %1", "pown": "i32 %1"}
_HALF = "gpubuild.ocml."  # of f32, for functions of f16


def library_text(names: Iterable[str], *, approximate: bool = False, exact_roots: bool = True) -> str:
    """Return LLVM IR that defines those of ``names`` (``__ocml_*``) that gpubuild has; empty for none.

    ``approximate`` and not ``exact_roots`` allow AMD's instructions for f32 that do not round correctly.
    """
    declarations: dict[str, None] = {}
    definitions: dict[str, None] = {}
    define = partial(_definition, approximate=approximate, exact_roots=exact_roots, declarations=declarations)
    for name in sorted(set(names)):
        base, _, short = name.removeprefix(PREFIX).rpartition("_")
        if not name.startswith(PREFIX) or short not in _TYPES:
            continue
        if short == "f16" and base in _NAMES:
            inner = define(base, "f32", f"{_HALF}{base}")
            definitions[inner.replace("define", "define internal", 1)] = None
            definitions[_through_f32(name, base)] = None
        elif definition := define(base, short, name):
            definitions[definition] = None
    return "\n".join([*declarations, *definitions]) + "\n" if definitions else ""


def _definition(
    base: str,
    short: str,
    symbol: str,
    *,
    approximate: bool,
    exact_roots: bool,
    declarations: dict[str, None],
) -> str:
    """Return the definition of ``symbol`` as OCML's ``base`` for the type ``short``; empty without any."""
    kind, count = _TYPES[short], _EXACT.get(base, 1)
    roots = "contract afn " if short == "f32" and not exact_roots else ""
    if approximate and short == "f32" and base in _APPROXIMATE:
        body = _APPROXIMATE[base]
        intrinsics = {"sin": 1, "cos": 1}
    elif base in _EXACT or (short == "f32" and base in _FORWARDED):
        operands = ", ".join(f"{kind} %{i}" for i in range(count))
        body = f"  %r = call {roots if base == 'sqrt' else ''}{kind} @llvm.{base}.{short}({operands})\n"
        intrinsics = {base: count}
    elif base == "rsqrt":
        quotient = "contract arcp afn " if roots else ""
        body = f"  %s = call {roots}{kind} @llvm.sqrt.{short}({kind} %0)\n"
        body += f"  %r = fdiv {quotient}{kind} 1.0, %s\n"
        intrinsics = {"sqrt": 1}
    elif base == "fmod":  # LLVM expands frem as OCML does, by exact steps of a long division
        count, intrinsics = 2, {}
        body = f"  %r = frem {kind} %0, %1\n"
        if short == "f32":  # without a call it may become a frem of bf16, which has no expansion
            body = "  %q = frem float %0, %1\n  %r = call float @llvm.canonicalize.f32(float %q)\n"
            intrinsics = {"canonicalize": 1}
    else:
        return _mathematics(base, short, symbol, declarations) if base in _NAMES else ""
    for intrinsic, operand_count in intrinsics.items():
        kinds = ", ".join([kind] * operand_count)
        declarations[f"declare {kind} @llvm.{intrinsic}.{short}({kinds})"] = None
    parameters = ", ".join(f"{kind} %{i}" for i in range(count))
    return f"define {kind} @{symbol}({parameters}) alwaysinline nounwind {{\n{body}  ret {kind} %r\n}}\n"


def _mathematics(base: str, short: str, symbol: str, declarations: dict[str, None]) -> str:
    from gpubuild.engine.mathlib import functions

    # AMD GPUs have fused multiply-add, and no C library.
    plain = _C_NAMES.get(base, base) + ("f" if short == "f32" else "")
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
