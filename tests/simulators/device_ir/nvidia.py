# ruff: noqa: E501 — LLVM IR reads better unbroken
"""NVIDIA: what stands for NVVM's intrinsics and the PTX that libdevice has, as the PTX ISA describes it."""

from __future__ import annotations

import re

from simulators.device_ir import nvidia_matrices, nvidia_ptx
from simulators.device_ir.host_form import Declared, Rule, Vendor

EXTERNALS = """
declare i32 @emu_thread_id(i32)
declare i32 @emu_block_id(i32)
declare i32 @emu_block_dim(i32)
declare i32 @emu_grid_dim(i32)
declare i32 @emu_cluster_dim(i32)
declare i32 @emu_lane()
declare i32 @emu_flat_id()
declare i32 @emu_dynamic_bytes()
declare void @emu_barrier(i32, i32, i1 zeroext, i32, i32)
declare void @emu_yield()
declare i32 @nv_shuffle(i32, i32, i32, i32, i32, ptr, i32, i32)
declare i32 @nv_vote(i32, i32, i32, i32, i32)
declare i32 @nv_match(i32, i32, i64, ptr, i32, i32)
declare i32 @nv_redux(ptr, i32, i32, i32, i32)
declare i32 @nv_activemask(i32, i32)
declare i32 @nv_elect(i32, ptr, i32, i32)
declare void @nv_warp_sync(i32, i32, i32)
declare void @nv_assertfail(ptr, ptr, i32, ptr)
declare i32 @nv_vprintf(ptr, ptr)
declare ptr @nv_malloc(i64)
declare float @nv_arith_f(i32, i32, float, float, float)
declare double @nv_arith_d(i32, i32, double, double, double)
declare i64 @nv_to_integer(double, i32, i32, i32)
declare float @nv_approximate(i32, i32, float)
declare double @nv_approximate_d(i32, double)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.minnum.f32(float, float)
declare double @llvm.maxnum.f64(double, double)
declare double @llvm.minnum.f64(double, double)
declare float @llvm.ceil.f32(float)
declare double @llvm.ceil.f64(double)
declare float @llvm.floor.f32(float)
declare double @llvm.floor.f64(double)
declare float @llvm.trunc.f32(float)
declare double @llvm.trunc.f64(double)
declare float @llvm.roundeven.f32(float)
declare double @llvm.roundeven.f64(double)
"""
_AXES = {"x": 0, "y": 1, "z": 2}
_SHUFFLES = {"up": 0, "down": 1, "bfly": 2, "idx": 3}
_VOTES = {"all": 0, "any": 1, "uni": 2, "ballot": 3}
_APPROXIMATE = {
    "ex2": "e",
    "lg2": "l",
    "rcp": "r",
    "rsqrt": "q",
    "sqrt": "s",
    "sin": "i",
    "cos": "c",
    "tanh": "t",
}
_OPS = {"add": "a", "mul": "m", "div": "d", "sqrt": "s", "fma": "f", "rcp": "r"}


def _returns(kind: str, value: str) -> str:
    return f"  %r = {value}\n  ret {kind} %r"


def _register(match: re.Match[str], function: Declared) -> str:
    name, axis = match[1], _AXES[match[2]]
    simple = {"tid": "thread_id", "ctaid": "block_id", "ntid": "block_dim", "nctaid": "grid_dim"}
    if name in simple:
        return _returns("i32", f"call i32 @emu_{simple[name]}(i32 {axis})")
    if name == "cluster.nctaid":
        return _returns("i32", f"call i32 @emu_cluster_dim(i32 {axis})")
    whole = "grid_dim" if name == "nclusterid" else "block_id"
    op = "urem" if name == "cluster.ctaid" else "udiv"
    return (
        f"  %w = call i32 @emu_{whole}(i32 {axis})\n  %c = call i32 @emu_cluster_dim(i32 {axis})\n"
        f"{_returns('i32', f'{op} i32 %w, %c')}"
    )


def _lane_mask(match: re.Match[str], function: Declared) -> str:
    one = "  %l = call i32 @emu_lane()\n  %b = shl i32 1, %l\n  %n = sub i32 %b, 1\n  %e = or i32 %n, %b\n"
    value = {"eq": "or i32 %b, 0", "lt": "or i32 %n, 0", "le": "or i32 %e, 0", "gt": "xor i32 %e, -1",
             "ge": "xor i32 %n, -1"}[match[1]]  # fmt: skip
    return one + _returns("i32", value)


def _shuffle(match: re.Match[str], function: Declared) -> str:
    mode, kind, pair = _SHUFFLES[match[1]], match[2], match[3]
    text = "  %inside = alloca i32\n"
    value = "%1"
    if kind == "f32":
        text += "  %bits = bitcast float %1 to i32\n"
        value = "%bits"
    text += (f"  %got = call i32 @nv_shuffle(i32 {mode}, i32 %0, i32 {value}, i32 %2, i32 %3, ptr %inside, "
             "i32 %site, i32 %depth)\n")  # fmt: skip
    result, of = ("%got", "i32")
    if kind == "f32":
        text += "  %real = bitcast i32 %got to float\n"
        result, of = "%real", "float"
    if not pair:
        return f"{text}  ret {of} {result}"
    return (
        f"{text}  %in = load i32, ptr %inside\n  %p = icmp ne i32 %in, 0\n"
        f"  %s = insertvalue {function.result} poison, {of} {result}, 0\n"
        f"  %t = insertvalue {function.result} %s, i1 %p, 1\n  ret {function.result} %t"
    )


def _vote(match: re.Match[str], function: Declared) -> str:
    text = (f"  %p = zext i1 %1 to i32\n  %v = call i32 @nv_vote(i32 {_VOTES[match[1]]}, i32 %0, i32 %p, "
            "i32 %site, i32 %depth)\n")  # fmt: skip
    if match[1] == "ballot":
        return f"{text}  ret i32 %v"
    return f"{text}  %r = icmp ne i32 %v, 0\n  ret i1 %r"


def _match(match: re.Match[str], function: Declared) -> str:
    value = "%1" if match[3] == "i64" else "%w"
    text = "  %agreed = alloca i32\n" + ("" if match[3] == "i64" else "  %w = zext i32 %1 to i64\n")
    text += (f"  %m = call i32 @nv_match(i32 {int(match[1] == 'all')}, i32 %0, i64 {value}, ptr %agreed, "
             "i32 %site, i32 %depth)\n")  # fmt: skip
    if not match[4]:
        return f"{text}  ret i32 %m"
    return (
        f"{text}  %a = load i32, ptr %agreed\n  %p = icmp ne i32 %a, 0\n"
        "  %s = insertvalue { i32, i1 } poison, i32 %m, 0\n  %t = insertvalue { i32, i1 } %s, i1 %p, 1\n"
        "  ret { i32, i1 } %t"
    )


def _redux(match: re.Match[str], function: Declared) -> str:
    name = match[1]
    return _returns(
        "i32", f"call i32 @nv_redux(ptr @emu.redux.{name}, i32 %0, i32 %1, i32 %site, i32 %depth)"
    )


def _elect(match: re.Match[str], function: Declared) -> str:
    return (
        "  %e = alloca i32\n  %l = call i32 @nv_elect(i32 %0, ptr %e, i32 %site, i32 %depth)\n"
        "  %v = load i32, ptr %e\n  %p = icmp ne i32 %v, 0\n"
        "  %s = insertvalue { i32, i1 } poison, i32 %l, 0\n  %t = insertvalue { i32, i1 } %s, i1 %p, 1\n"
        "  ret { i32, i1 } %t"
    )


def _arithmetic(match: re.Match[str], function: Declared) -> str:
    op, mode, letter = match[1], ord(match[2][1]) + (256 if match["flush"] else 0), match["kind"]
    kind = {"f": "float", "d": "double"}[letter]
    values = [f"{kind} %{n}" for n in range(len(function.arguments))]
    if op == "rcp":
        values = [f"{kind} 1.0", *values]
        op = "div"
    values += [f"{kind} 0.0"] * (3 - len(values))
    return _returns(
        kind, f"call {kind} @nv_arith_{letter}(i32 {ord(_OPS[op])}, i32 {mode}, {', '.join(values)})"
    )


def _approximation(match: re.Match[str], function: Declared) -> str:
    op, flush, letter = match[1], bool(match[2]), match[3]
    code = ord(_APPROXIMATE[op])
    if letter in ("d", "f64") and not flush:  # "emulated in software": as exact as its type
        return _returns(
            "double",
            f"call double @nv_arith_d(i32 {ord('q')}, i32 {ord('n')}, double %0, double 0.0, double 0.0)",
        )
    if letter in ("d", "f64"):
        return _returns("double", f"call double @nv_approximate_d(i32 {code}, double %0)")
    return _returns("float", f"call float @nv_approximate(i32 {code}, i32 {int(flush)}, float %0)")


def _to_integer(match: re.Match[str], function: Declared) -> str:
    source, target, mode = match[1], match[2], match[3]
    bits = 64 if "ll" in target else 32
    text = "  %w = fpext float %0 to double\n" if source == "f" else "  %w = fadd double %0, -0.0\n"
    text += (f"  %v = call i64 @nv_to_integer(double %w, i32 {ord(mode[1])}, i32 {bits}, "
             f"i32 {int('u' not in target)})\n")  # fmt: skip
    return text + ("  ret i64 %v" if bits == 64 else "  %r = trunc i64 %v to i32\n  ret i32 %r")


def _extreme(match: re.Match[str], function: Declared) -> str:
    kind, suffix = {"f": ("float", "f32"), "d": ("double", "f64")}[match[2]]
    return _returns(kind, f"call {kind} @llvm.{match[1]}num.{suffix}({kind} %0, {kind} %1)")


def _rounded(match: re.Match[str], function: Declared) -> str:
    kind, suffix = {"f": ("float", "f32"), "d": ("double", "f64")}[match[2]]
    return _returns(kind, f"call {kind} @llvm.{match[1]}.{suffix}({kind} %0)")


def _plain(text: str):
    return lambda match, function: text


_BARRIER = "  call void @emu_barrier(i32 %0, i32 {count}, i1 {aligned}, i32 %site, i32 %depth)\n  ret void"
_WORDS = "  %b = bitcast double %0 to i64\n{shift}  %r = trunc i64 {from} to i32\n  ret i32 %r"
_NOTHING = _plain("  ret void")

RULES = (
    Rule(pattern=r"llvm\.nvvm\.read\.ptx\.sreg\.(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster\.n?ctaid)\.([xyz])",
         body=_register),
    Rule(pattern=r"llvm\.nvvm\.read\.ptx\.sreg\.laneid", body=_plain(_returns("i32", "call i32 @emu_lane()"))),
    Rule(pattern=r"llvm\.nvvm\.read\.ptx\.sreg\.warpsize", body=_plain("  ret i32 32")),
    Rule(pattern=r"llvm\.nvvm\.read\.ptx\.sreg\.dynamic_smem_size",
         body=_plain(_returns("i32", "call i32 @emu_dynamic_bytes()"))),
    Rule(pattern=r"llvm\.nvvm\.read\.ptx\.sreg\.lanemask\.(eq|lt|le|gt|ge)", body=_lane_mask),
    Rule(pattern=r"llvm\.nvvm\.(?:membar|fence)\..*", body=_NOTHING),
    Rule(pattern=r"llvm\.nvvm\.nanosleep", body=_plain("  call void @emu_yield()\n  ret void")),
    Rule(pattern=r"llvm\.nvvm\.barrier\.cta\.sync\.(?:aligned\.)?all", together=True,
         body=lambda m, f: _BARRIER.format(count=0, aligned=int("aligned" in m[0]))),
    Rule(pattern=r"llvm\.nvvm\.barrier\.cta\.sync\.(?:aligned\.)?count", together=True,
         body=lambda m, f: _BARRIER.format(count="%1", aligned=int("aligned" in m[0]))),
    Rule(pattern=r"llvm\.nvvm\.barrier0", together=True,
         body=lambda m, f: _BARRIER.replace("%0", "0").format(count=0, aligned=1)),
    Rule(pattern=r"llvm\.nvvm\.bar\.warp\.sync", together=True,
         body=_plain("  call void @nv_warp_sync(i32 %0, i32 %site, i32 %depth)\n  ret void")),
    Rule(pattern=r"llvm\.nvvm\.shfl\.sync\.(up|down|bfly|idx)\.(i32|f32)(p?)", together=True, body=_shuffle),
    Rule(pattern=r"llvm\.nvvm\.vote\.(all|any|uni|ballot)\.sync", together=True, body=_vote),
    Rule(pattern=r"llvm\.nvvm\.match\.(any|all)\.sync()\.(i32|i64)(p?)", together=True, body=_match),
    Rule(pattern=r"llvm\.nvvm\.redux\.sync\.(add|min|max|umin|umax|and|or|xor)", together=True, body=_redux),
    Rule(pattern=r"llvm\.nvvm\.activemask", together=True,
         body=_plain(_returns("i32", "call i32 @nv_activemask(i32 %site, i32 %depth)"))),
    Rule(pattern=r"llvm\.nvvm\.elect\.sync", together=True, body=_elect),
    Rule(pattern=r"llvm\.nvvm\.(add|mul|div|fma|rcp|sqrt)\.(r[nzmp])(?P<flush>\.ftz)?\.(?P<kind>[fd])", body=_arithmetic),
    Rule(pattern=r"llvm\.nvvm\.(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\.approx(\.ftz)?\.(f32|f64|f|d)", body=_approximation),
    Rule(pattern=r"llvm\.nvvm\.div\.approx\.f", body=_plain(_returns("float", "fdiv float %0, %1"))),
    Rule(pattern=r"llvm\.nvvm\.div\.approx\.ftz\.f",
         body=_plain(_returns("float", f"call float @nv_arith_f(i32 {ord('d')}, i32 {ord('n') + 256}, float %0, float %1, float 0.0)"))),
    Rule(pattern=r"llvm\.nvvm\.([fd])2(u?(?:i|ll))\.(r[nzmp])(?:\.ftz)?", body=_to_integer),
    Rule(pattern=r"llvm\.nvvm\.d2i\.lo", body=_plain(_WORDS.format_map({"shift": "", "from": "%b"}))),
    Rule(pattern=r"llvm\.nvvm\.d2i\.hi",
         body=_plain(_WORDS.format_map({"shift": "  %h = lshr i64 %b, 32\n", "from": "%h"}))),
    Rule(pattern=r"llvm\.nvvm\.lohi\.i2d",
         body=_plain("  %l = zext i32 %0 to i64\n  %h = zext i32 %1 to i64\n  %s = shl i64 %h, 32\n"
                     "  %b = or i64 %l, %s\n  %r = bitcast i64 %b to double\n  ret double %r")),
    Rule(pattern=r"llvm\.nvvm\.fabs\.f32", body=_plain(_returns("float", "call float @llvm.fabs.f32(float %0)"))),
    Rule(pattern=r"llvm\.nvvm\.fabs\.ftz\.f32",
         body=_plain("  %m = call float @llvm.fabs.f32(float %0)\n  %n = fcmp olt float %m, 0x3810000000000000\n"
                     "  %r = select i1 %n, float 0.0, float %m\n  ret float %r")),
    Rule(pattern=r"llvm\.nvvm\.fabs\.f64", body=_plain(_returns("double", "call double @llvm.fabs.f64(double %0)"))),
    Rule(pattern=r"llvm\.nvvm\.f(min|max)\.([fd])", body=_extreme),
    Rule(pattern=r"llvm\.nvvm\.(ceil|floor|trunc)\.([fd])", body=_rounded),
    Rule(pattern=r"llvm\.nvvm\.round\.f", body=_plain(_returns("float", "call float @llvm.roundeven.f32(float %0)"))),
    Rule(pattern=r"llvm\.nvvm\.round\.d", body=_plain(_returns("double", "call double @llvm.roundeven.f64(double %0)"))),
    Rule(pattern=r"llvm\.nvvm\.saturate\.(?:ftz\.)?f",
         body=_plain("  %m = call float @llvm.maxnum.f32(float %0, float 0.0)\n"
                     "  %r = call float @llvm.minnum.f32(float %m, float 1.0)\n  ret float %r")),
    Rule(pattern="__assertfail",
         body=_plain("  call void @nv_assertfail(ptr %0, ptr %1, i32 %2, ptr %3)\n  unreachable")),
    Rule(pattern="vprintf", body=_plain(_returns("i32", "call i32 @nv_vprintf(ptr %0, ptr %1)"))),
    Rule(pattern="malloc", body=_plain(_returns("ptr", "call ptr @nv_malloc(i64 %0)"))),
    Rule(pattern="free", body=_NOTHING),  # what is read after it is still what it was: nothing else is checked
)  # fmt: skip

_REDUX = "".join(
    f'@emu.redux.{op} = internal constant [8 x i8] c"{op}{chr(92) + "00"}{(7 - len(op)) * (chr(92) + "00")}"\n'
    for op in ("add", "min", "max", "umin", "umax", "and", "or", "xor")
)

_MUL_64 = "  %a = zext i64 %0 to i128\n  %b = zext i64 %1 to i128\n  %m = mul i128 %a, %b\n"
_PAIRS = (
    "  %al = zext i64 %0 to i128\n  %ah = zext i64 %1 to i128\n  %as = shl i128 %ah, 64\n  %a = or i128 %al, %as\n"
    "  %bl = zext i64 %2 to i128\n  %bh = zext i64 %3 to i128\n  %bs = shl i128 %bh, 64\n  %b = or i128 %bl, %bs\n"
)


def _halves(value: str, kind: str, bits: int) -> str:
    pair = f"{{ {kind}, {kind} }}"
    return (
        f"  %lo = trunc i{2 * bits} {value} to {kind}\n  %hs = lshr i{2 * bits} {value}, {bits}\n"
        f"  %hi = trunc i{2 * bits} %hs to {kind}\n  %s = insertvalue {pair} poison, {kind} %lo, 0\n"
        f"  %t = insertvalue {pair} %s, {kind} %hi, 1\n  ret {pair} %t"
    )


_REGS = ".reg .u32 r0, r1, r2, r3, "
ASSEMBLY = {
    "rcp.approx.ftz.f32 $0,$1;": _returns("float", f"call float @nv_approximate(i32 {ord('r')}, i32 1, float %0)"),
    "rsqrt.approx.ftz.f64 $0, $1;": _returns("double", f"call double @nv_approximate_d(i32 {ord('q')}, double %0)"),
    "{ mad.lo.cc.u32 $0, $2, $3, $4; madc.hi.u32 $1, $2, $3, 0; }": (
        "  %a = zext i32 %0 to i64\n  %b = zext i32 %1 to i64\n  %c = zext i32 %2 to i64\n"
        "  %m = mul i64 %a, %b\n  %v = add i64 %m, %c\n" + _halves("%v", "i32", 32)
    ),
    "{ " + _REGS + "alo, ahi, blo, bhi; mov.b64 {alo,ahi}, $2; mov.b64 {blo,bhi}, $3; mul.lo.u32 r0, alo, blo; "
    "mul.hi.u32 r1, alo, blo; mad.lo.cc.u32 r1, alo, bhi, r1; madc.hi.u32 r2, alo, bhi, 0; "
    "mad.lo.cc.u32 r1, ahi, blo, r1; madc.hi.cc.u32 r2, ahi, blo, r2; madc.hi.u32 r3, ahi, bhi, 0; "
    "mad.lo.cc.u32 r2, ahi, bhi, r2; addc.u32 r3, r3, 0; mov.b64 $0, {r0,r1}; mov.b64 $1, {r2,r3}; }":
        _MUL_64 + _halves("%m", "i64", 64),
    "{ " + _REGS + "alo, ahi, blo, bhi, clo, chi; mov.b64 {alo,ahi}, $2; mov.b64 {blo,bhi}, $3; "
    "mov.b64 {clo,chi}, $4; mad.lo.cc.u32 r0, alo, blo, clo; madc.hi.cc.u32 r1, alo, blo, chi; "
    "madc.hi.u32 r2, alo, bhi, 0; mad.lo.cc.u32 r1, alo, bhi, r1; madc.hi.cc.u32 r2, ahi, blo, r2; "
    "madc.hi.u32 r3, ahi, bhi, 0; mad.lo.cc.u32 r1, ahi, blo, r1; madc.lo.cc.u32 r2, ahi, bhi, r2; "
    "addc.u32 r3, r3, 0; mov.b64 $0, {r0,r1}; mov.b64 $1, {r2,r3}; }":
        _MUL_64 + "  %c = zext i64 %2 to i128\n  %v = add i128 %m, %c\n" + _halves("%v", "i64", 64),
    **{
        "{ " + _REGS + "a0, a1, a2, a3, b0, b1, b2, b3; mov.b64 {a0,a1}, $2; mov.b64 {a2,a3}, $3; "
        f"mov.b64 {{b0,b1}}, $4; mov.b64 {{b2,b3}}, $5; {op}.cc.u32 r0, a0, b0; {op}c.cc.u32 r1, a1, b1; "
        f"{op}c.cc.u32 r2, a2, b2; {op}c.u32 r3, a3, b3; mov.b64 $0, {{r0,r1}}; mov.b64 $1, {{r2,r3}}; }}":
            _PAIRS + f"  %v = {op} i128 %a, %b\n" + _halves("%v", "i64", 64)
        for op in ("add", "sub")
    },
}  # fmt: skip

NVIDIA = Vendor(
    rules=(*RULES, *nvidia_matrices.RULES),
    externals=EXTERNALS + nvidia_matrices.EXTERNALS + nvidia_ptx.EXTERNALS + _REDUX,
    assembly=ASSEMBLY,
)
