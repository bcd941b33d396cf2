"""Far values: arguments for which vector code hands over to the C library, one at a time.

A branch in a loop would keep LLVM from vectorising it, as would a call. So the call is to a function with
variants for vectors, which return at once what they are given where no element is far.
"""

from __future__ import annotations

from gpubuild.engine.mathlib.expressions import Real

PREFIX = "gpubuild.far."
_ATTRIBUTES = "noinline nounwind willreturn memory(none)"
_SIZES = (2, 4, 8, 16)
_SHORT = {"float": "f32", "double": "f64"}


def or_far(name: str, x: Real, most: float, near: Real) -> Real:
    """``near`` where |x| is at most ``most``; else, and for NaN, C's function ``name`` of ``x``."""
    code, kind = x.code, x.kind
    code.declarations.add(f"declare {kind} @{name}({kind}) {_ATTRIBUTES.removeprefix('noinline ')}")
    code.declarations.add(f"declare {kind} @llvm.fabs.{_SHORT[kind]}({kind})")
    bound = code.number(most, kind)
    code.declarations.add(_alone(name, kind, bound))
    for size in _SIZES:
        vector = f"v{size}{_SHORT[kind]}"
        code.declarations.add(f"declare <{size} x {kind}> @llvm.fabs.{vector}(<{size} x {kind}>)")
        code.declarations.add(f"declare i1 @llvm.vector.reduce.and.v{size}i1(<{size} x i1>)")
        code.declarations.add(_together(name, kind, bound, size))
    variants = ",".join(f"_ZGV_LLVM_N{n}vv_{PREFIX}{name}({PREFIX}{name}.{n})" for n in _SIZES)
    return x.made(
        f"call {kind} @{PREFIX}{name}({kind} {x.name}, {kind} {near.name})"
        f' "vector-function-abi-variant"="{variants}"'
    )


def _alone(name: str, kind: str, bound: str) -> str:
    return (
        f"define internal {kind} @{PREFIX}{name}({kind} %x, {kind} %near) {_ATTRIBUTES} {{\n"
        f"  %size = call {kind} @llvm.fabs.{_SHORT[kind]}({kind} %x)\n"
        f"  %close = fcmp ole {kind} %size, {bound}\n"
        "  br i1 %close, label %ready, label %far\n"
        f"far:\n  %r = call {kind} @{name}({kind} %x)\n  ret {kind} %r\n"
        f"ready:\n  ret {kind} %near\n}}"
    )


def _together(name: str, kind: str, bound: str, size: int) -> str:
    vector = f"<{size} x {kind}>"
    bounds = ", ".join([f"{kind} {bound}"] * size)
    lines = [
        f"define internal {vector} @{PREFIX}{name}.{size}({vector} %x, {vector} %near) {_ATTRIBUTES} {{",
        f"  %size = call {vector} @llvm.fabs.v{size}{_SHORT[kind]}({vector} %x)",
        f"  %close = fcmp ole {vector} %size, <{bounds}>",
        f"  %all = call i1 @llvm.vector.reduce.and.v{size}i1(<{size} x i1> %close)",
        f"  br i1 %all, label %ready, label %far\nready:\n  ret {vector} %near\nfar:",
    ]
    result = "%near"
    for i in range(size):
        lines += [
            f"  %x{i} = extractelement {vector} %x, i32 {i}",
            f"  %n{i} = extractelement {vector} %near, i32 {i}",
            f"  %f{i} = call {kind} @{PREFIX}{name}({kind} %x{i}, {kind} %n{i})",
            f"  %r{i} = insertelement {vector} {result}, {kind} %f{i}, i32 {i}",
        ]
        result = f"%r{i}"
    return "\n".join([*lines, f"  ret {vector} {result}\n}}"])
