"""LLVM IR that defines intrinsics of NVVM, under other names, by OpenCL's built-in functions.

It has what ``convert-gpu-to-nvvm`` and gpubuild's expansions use; tests compile each. And it has functions of
libdevice that gpubuild's mathematics computes in i128, which SPIR-V lacks. Their errors are those of the
OpenCL specification: 4 units in the last place, 5 of ``tan``. Names are mangled as SPIR-V's back end reads
them.
"""

from __future__ import annotations

_PURE = "nounwind willreturn memory(none)"
_POSITIONS = {
    "tid": "_Z12get_local_idj",
    "ntid": "_Z14get_local_sizej",
    "ctaid": "_Z12get_group_idj",
    "nctaid": "_Z14get_num_groupsj",
}
_LANE = "call i32 @_Z22get_sub_group_local_idv()"
_LANES = f"""\
declare i32 @_Z22get_sub_group_local_idv() {_PURE}
declare void @_Z7barrierj(i32) convergent
declare void @_Z17sub_group_barrierj(i32) convergent
declare i32 @_Z17sub_group_shuffleij(i32, i32) convergent

define i32 @gpubuild.nvvm.read.ptx.sreg.laneid() alwaysinline {{
  %r = {_LANE}
  ret i32 %r
}}

; Flags: CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE.
define void @gpubuild.nvvm.barrier.cta.sync.aligned.all(i32 %0) alwaysinline convergent {{
  call void @_Z7barrierj(i32 3)
  ret void
}}

; Lanes of a subgroup need not run in step.
define void @gpubuild.nvvm.bar.warp.sync(i32 %0) alwaysinline convergent {{
  call void @_Z17sub_group_barrierj(i32 3)
  ret void
}}

; The lane, if it is at most the last one that takes part, else the own one.
define internal i32 @gpubuild.read_lane(i32 %value, i32 %source, i1 %valid) alwaysinline convergent {{
  %own = {_LANE}
  %from = select i1 %valid, i32 %source, i32 %own
  %r = call i32 @_Z17sub_group_shuffleij(i32 %value, i32 %from)
  ret i32 %r
}}
"""
_SOURCES = {
    "idx": "  %source = and i32 %offset, 31\n",
    "bfly": f"  %lane = {_LANE}\n  %source = xor i32 %lane, %offset\n",
}


def _position(register: str, function: str) -> str:
    """Define reads of a register for each axis."""
    definitions = [
        f"define i32 @gpubuild.nvvm.read.ptx.sreg.{register}.{axis}() alwaysinline {{\n"
        f"  %wide = call i64 @{function}(i32 {number})\n"
        f"  %r = trunc i64 %wide to i32\n  ret i32 %r\n}}\n"
        for number, axis in enumerate("xyz")
    ]
    return "".join([f"declare i64 @{function}(i32) {_PURE}\n", *definitions])


def _shuffle(mode: str, kind: str, *, pair: bool) -> str:
    """Define a shuffle of ``kind``; that of a ``pair`` also returns whether the source lane takes part."""
    result = f"{{ {kind}, i1 }}" if pair else kind
    name = f"gpubuild.nvvm.shfl.sync.{mode}.{'i32' if kind == 'i32' else 'f32'}{'p' * pair}"
    end = f"  ret {kind} %result\n"
    if pair:
        end = (
            f"  %first = insertvalue {result} undef, {kind} %result, 0\n"
            f"  %both = insertvalue {result} %first, i1 %valid, 1\n  ret {result} %both\n"
        )
    return (
        f"define {result} @{name}(i32 %mask, {kind} %value, i32 %offset, i32 %clamp) alwaysinline convergent "
        f"{{\n{_SOURCES[mode]}"
        "  %last = and i32 %clamp, 31\n  %valid = icmp ule i32 %source, %last\n"
        f"  %word = bitcast {kind} %value to i32\n"
        "  %moved = call i32 @gpubuild.read_lane(i32 %word, i32 %source, i1 %valid)\n"
        f"  %result = bitcast i32 %moved to {kind}\n{end}}}\n"
    )


def _mathematics(kind: str, letter: str, suffix: str) -> str:
    """Define libdevice's functions of ``kind``; ``letter`` is its mangled name."""
    definitions = [
        f"declare {kind} @_Z3{name}{letter}({kind}) {_PURE}\n"
        f"define {kind} @__nv_{name}{suffix}({kind} %0) alwaysinline {{\n"
        f"  %r = call {kind} @_Z3{name}{letter}({kind} %0)\n  ret {kind} %r\n}}\n"
        for name in ("sin", "cos", "tan")
    ]
    return "".join(definitions) + (
        f"define {kind} @__nv_fmod{suffix}({kind} %0, {kind} %1) alwaysinline {{\n"
        f"  %r = frem {kind} %0, %1\n  ret {kind} %r\n}}\n"
        f"define void @__nv_sincos{suffix}({kind} %0, ptr addrspace(4) %1, ptr addrspace(4) %2) alwaysinline "
        f"{{\n  %s = call {kind} @_Z3sin{letter}({kind} %0)\n  %c = call {kind} @_Z3cos{letter}({kind} %0)\n"
        f"  store {kind} %s, ptr addrspace(4) %1\n  store {kind} %c, ptr addrspace(4) %2\n  ret void\n}}\n"
    )


LIBRARY = "".join(
    [
        *(_position(register, function) for register, function in _POSITIONS.items()),
        _LANES,
        *(_shuffle(m, k, pair=p) for m in _SOURCES for k in ("i32", "float") for p in (True, False)),
        _mathematics("float", "f", "f"),
        _mathematics("double", "d", ""),
    ]
)
