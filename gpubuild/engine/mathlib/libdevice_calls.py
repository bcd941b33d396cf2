"""Define libdevice's functions for other devices: by this package, as LLVM intrinsics, or by the C library.

Upstream's conversion lowers the math dialect to calls of ``__nv_*``. LLVM vectorises and folds intrinsics. On
CPUs other functions are calls of libm, which the runtime has loaded before any image; GPUs have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpubuild.engine.mathlib import functions, range_reduction

PREFIX = "__nv_"

# libdevice name without "f" for float → (LLVM intrinsic, number of operands)
_INTRINSICS = {
    "ceil": ("ceil", 1), "copysign": ("copysign", 2), "cos": ("cos", 1), "exp": ("exp", 1),
    "exp2": ("exp2", 1), "exp10": ("exp10", 1), "fabs": ("fabs", 1), "floor": ("floor", 1),
    "fma": ("fma", 3), "fmax": ("maxnum", 2), "fmin": ("minnum", 2), "log": ("log", 1),
    "log10": ("log10", 1), "log2": ("log2", 1), "nearbyint": ("nearbyint", 1), "pow": ("pow", 2),
    "rint": ("roundeven", 1), "round": ("round", 1), "sin": ("sin", 1), "sqrt": ("sqrt", 1),
    "trunc": ("trunc", 1),
}  # fmt: skip
# Those intrinsics that code generators lower to calls of the C library.
_OF_C = frozenset({"cos", "exp", "exp2", "exp10", "log", "log10", "log2", "pow", "sin"})
_LIBM = {
    "acos": 1, "acosh": 1, "asin": 1, "asinh": 1, "atan": 1, "atan2": 2, "atanh": 1, "cbrt": 1,
    "cosh": 1, "erf": 1, "erfc": 1, "expm1": 1, "fdim": 2, "fmod": 2, "hypot": 2, "j0": 1, "j1": 1,
    "lgamma": 1, "log1p": 1, "logb": 1, "nextafter": 2, "remainder": 2, "sinh": 1, "tan": 1,
    "tanh": 1, "tgamma": 1, "y0": 1, "y1": 1,
}  # fmt: skip
_FAST = {"cosf", "exp10f", "expf", "log10f", "log2f", "logf", "powf", "sinf", "tanf"}
_TESTS = {  # name → (type, predicate, compare with infinity); C's truth value as an i32
    "finitef": ("float", "one", True), "isfinited": ("double", "one", True),
    "isinff": ("float", "oeq", True), "isinfd": ("double", "oeq", True),
    "isnanf": ("float", "uno", False), "isnand": ("double", "uno", False),
}  # fmt: skip
_INTEGERS = {  # name → (intrinsic, type, operands, last operand)
    "abs": ("abs", "i32", 1, ", i1 false"), "llabs": ("abs", "i64", 1, ", i1 false"),
    "brev": ("bitreverse", "i32", 1, ""), "brevll": ("bitreverse", "i64", 1, ""),
    "max": ("smax", "i32", 2, ""), "min": ("smin", "i32", 2, ""),
    "umax": ("umax", "i32", 2, ""), "umin": ("umin", "i32", 2, ""),
    "llmax": ("smax", "i64", 2, ""), "llmin": ("smin", "i64", 2, ""),
    "ullmax": ("umax", "i64", 2, ""), "ullmin": ("umin", "i64", 2, ""),
}  # fmt: skip
_COUNTS = {  # name → (intrinsic, type)
    "clz": ("ctlz", "i32"), "clzll": ("ctlz", "i64"), "popc": ("ctpop", "i32"), "popcll": ("ctpop", "i64"),
}  # fmt: skip

# Symbols of the C library that an image may use.
PROVIDED = frozenset(
    {name + suffix for name in (*_LIBM, *_INTRINSICS) for suffix in ("", "f")}
    | {name + suffix for name in ("fmin", "fmax", "sincos", "ldexp", "roundeven") for suffix in ("", "f")}
    | {"malloc", "free", "memcpy", "memmove", "memset", "memcmp", "calloc", "realloc", "abort"}
)


def library_text(
    names: Iterable[str], *, fast_math: bool = False, fused: bool = False, gpu: bool = False
) -> str:
    """Return LLVM IR that defines the known ones of ``names`` (``__nv_*``).

    With ``fused`` the device has instructions for a fused multiply-add. A ``gpu`` has no C library.
    """
    declarations: dict[str, None] = {}
    definitions = []
    for name in sorted(set(names)):
        if name.startswith(PREFIX):
            plain = name.removeprefix(PREFIX)
            own = plain.removeprefix("fast_")
            body = functions.define(own, name, fused=fused, declarations=declarations, gpu=gpu)
            body = body or _define(plain, declarations, fast_math=fast_math, fused=fused, gpu=gpu)
            if body:
                definitions.append(body)
    text = "\n".join([*declarations, *definitions]) + "\n"
    return text if gpu else text + _kept(text)


def _kept(text: str) -> str:
    """Return a list that keeps the functions that only LLVM's vectoriser calls."""
    names = re.findall(rf"^define internal .*?(@{re.escape(range_reduction.PREFIX)}[\w.]+)\(", text, re.M)
    if not names:
        return ""
    kept = f"[{len(names)} x ptr] [{', '.join(f'ptr {name}' for name in names)}]"
    return f'@llvm.compiler.used = appending global {kept}, section "llvm.metadata"\n'


def _define(name: str, declarations: dict[str, None], *, fast_math: bool, fused: bool, gpu: bool) -> str:
    flags = "afn arcp contract nsz reassoc " if fast_math else ""
    if name.startswith("fast_") and name.removeprefix("fast_") in _FAST:
        return _float_function(name, declarations, "afn ", fused=fused, gpu=gpu)
    if name in _TESTS:
        return _test(name, declarations)
    if name in _INTEGERS:
        intrinsic, kind, count, extra = _INTEGERS[name]
        operands = ", ".join(f"{kind} %{i}" for i in range(count))
        declared = ", ".join([kind] * count) + (", i1" if extra else "")
        declarations[f"declare {kind} @llvm.{intrinsic}.{kind}({declared})"] = None
        call = f"call {kind} @llvm.{intrinsic}.{kind}({operands}{extra})"
        return _function(kind, name, operands, f"  %r = {call}\n  ret {kind} %r\n")
    if name in _COUNTS:
        return _count(name, declarations)
    return _float_function(name, declarations, flags, fused=fused, gpu=gpu)


def _float_function(name: str, declarations: dict[str, None], flags: str, *, fused: bool, gpu: bool) -> str:
    plain = name.removeprefix("fast_")
    for base, kind, suffix in ((plain, "double", ""), (plain.removesuffix("f"), "float", "f")):
        if suffix and base == plain:
            continue
        if base in _INTRINSICS and not (gpu and base in _OF_C):
            intrinsic, count = _INTRINSICS[base]
            callee = f"llvm.{intrinsic}.{'f32' if suffix else 'f64'}"
            return _forward(name, callee, kind, count, declarations, flags)
        if base in _LIBM and not gpu:
            return _forward(name, base + suffix, kind, _LIBM[base], declarations, flags)
        if base == "rsqrt":
            root = f"llvm.sqrt.{'f32' if suffix else 'f64'}"
            declarations[f"declare {kind} @{root}({kind})"] = None
            body = (
                f"  %s = call {flags}{kind} @{root}({kind} %0)\n"
                f"  %r = fdiv {flags}{kind} 1.0, %s\n  ret {kind} %r\n"
            )
            return _function(kind, name, f"{kind} %0", body)
        if base == "powi":
            return _integer_power(name, kind, declarations, flags)
        if base == "sincos":
            return _sincos(name, kind, "f32" if suffix else "f64", declarations, flags, fused=fused)
    return ""


def _forward(name: str, callee: str, kind: str, count: int, declarations: dict[str, None], flags: str) -> str:
    attributes = "" if callee.startswith("llvm.") else " nounwind willreturn memory(none)"
    declarations[f"declare {kind} @{callee}({', '.join([kind] * count)}){attributes}"] = None
    operands = ", ".join(f"{kind} %{i}" for i in range(count))
    body = f"  %r = call {flags}{kind} @{callee}({operands})\n  ret {kind} %r\n"
    return _function(kind, name, operands, body)


def _integer_power(name: str, kind: str, declarations: dict[str, None], flags: str) -> str:
    """Return a power in double precision, in which every i32 exponent is exact."""
    declarations["declare double @llvm.pow.f64(double, double)"] = None
    power = f"  %p = call {flags}double @llvm.pow.f64(double {{}}, double %e)\n"
    body = "  %e = sitofp i32 %1 to double\n"
    if kind == "double":
        body += power.format("%0") + "  ret double %p\n"
    else:
        body = "  %w = fpext float %0 to double\n" + body + power.format("%w")
        body += "  %r = fptrunc double %p to float\n  ret float %r\n"
    return _function(kind, name, f"{kind} %0, i32 %1", body)


def _sincos(
    name: str, kind: str, mangled: str, declarations: dict[str, None], flags: str, *, fused: bool
) -> str:
    lines = []
    for index, function in enumerate(("sin", "cos"), start=1):
        plain = function + "f" * (kind == "float")
        own = functions.define(plain, f"gpubuild.{plain}", fused=fused, declarations=declarations)
        callee = f"gpubuild.{plain}" if own else f"llvm.{function}.{mangled}"
        definition = own.replace("define", "define internal", 1).rstrip()
        declarations[definition or f"declare {kind} @{callee}({kind})"] = None
        lines.append(f"  %{function} = call {'' if own else flags}{kind} @{callee}({kind} %0)")
        lines.append(f"  store {kind} %{function}, ptr %{index}")
    return _function("void", name, f"{kind} %0, ptr %1, ptr %2", "\n".join([*lines, "  ret void"]) + "\n")


def _test(name: str, declarations: dict[str, None]) -> str:
    kind, predicate, infinity = _TESTS[name]
    mangled = "f32" if kind == "float" else "f64"
    lines = []
    value, other = "%0", "%0"
    if infinity:
        declarations[f"declare {kind} @llvm.fabs.{mangled}({kind})"] = None
        lines.append(f"  %a = call {kind} @llvm.fabs.{mangled}({kind} %0)")
        value, other = "%a", "0x7FF0000000000000"  # the format of doubles, for float constants as well
    lines += [f"  %c = fcmp {predicate} {kind} {value}, {other}", "  %r = zext i1 %c to i32", "  ret i32 %r"]
    return _function("i32", name, f"{kind} %0", "\n".join(lines) + "\n")


def _count(name: str, declarations: dict[str, None]) -> str:
    intrinsic, kind = _COUNTS[name]
    extra = ", i1 false" if intrinsic == "ctlz" else ""
    declarations[f"declare {kind} @llvm.{intrinsic}.{kind}({kind}{', i1' if extra else ''})"] = None
    lines = [f"  %c = call {kind} @llvm.{intrinsic}.{kind}({kind} %0{extra})"]
    lines += ["  ret i32 %c"] if kind == "i32" else ["  %r = trunc i64 %c to i32", "  ret i32 %r"]
    return _function("i32", name, f"{kind} %0", "\n".join(lines) + "\n")


def _function(result: str, name: str, parameters: str, body: str) -> str:
    return f"define {result} @{PREFIX}{name}({parameters}) alwaysinline {{\n{body}}}\n"
