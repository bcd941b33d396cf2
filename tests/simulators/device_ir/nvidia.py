"""Rules for NVVM's intrinsics and the functions of NVIDIA's driver, after the PTX ISA.

They are those that PTX text becomes (``simulators.ptx``). A fragment of a matrix (``wmma``) may have any
layout: programs cannot inspect it.
"""

from __future__ import annotations

import re

from simulators.device_ir.host_form import Declared, Rule, Vendor, plain, returns, type_of

_AXES = {"x": 0, "y": 1, "z": 2}
_SHUFFLES = {"up": 0, "down": 1, "bfly": 2, "idx": 3}
_REDUCTIONS = ("add", "min", "max", "umin", "umax", "and", "or", "xor")  # numbers of nvidia.c
_AT = "i32 %site, i32 %depth"


def _register(match: re.Match[str], function: Declared) -> str:
    name, axis = match[1], _AXES[match[2]]
    simple = {"tid": "thread_id", "ctaid": "block_id", "ntid": "block_dim", "nctaid": "grid_dim"}
    if name in simple:
        return returns("i32", f"call i32 @emu_{simple[name]}(i32 {axis})")
    if name == "cluster.nctaid":
        return returns("i32", f"call i32 @emu_cluster_dim(i32 {axis})")
    whole = "grid_dim" if name == "nclusterid" else "block_id"
    op = "urem" if name == "cluster.ctaid" else "udiv"
    return (
        f"  %w = call i32 @emu_{whole}(i32 {axis})\n  %c = call i32 @emu_cluster_dim(i32 {axis})\n"
        f"{returns('i32', f'{op} i32 %w, %c')}"
    )


def _with_predicate(value: str) -> str:
    """Return ``{ value, predicate }``; the predicate is in memory at ``%flag``."""
    return (
        "  %f = load i32, ptr %flag\n  %p = icmp ne i32 %f, 0\n"
        f"  %s = insertvalue {{ i32, i1 }} poison, i32 {value}, 0\n"
        "  %t = insertvalue { i32, i1 } %s, i1 %p, 1\n  ret { i32, i1 } %t"
    )


def _shuffle(match: re.Match[str], function: Declared) -> str:
    text = (
        "  %flag = alloca i32\n"
        f"  %v = call i32 @nv_shuffle(i32 {_SHUFFLES[match[1]]}, i32 %0, i32 %1, i32 %2, i32 %3, ptr %flag, "
        f"{_AT})\n"
    )
    return text + (_with_predicate("%v") if match[2] else "  ret i32 %v")


def _reduction(match: re.Match[str], function: Declared) -> str:
    op = _REDUCTIONS.index(match[1])
    return returns("i32", f"call i32 @nv_redux(i32 {op}, i32 %0, i32 %1, {_AT})")


# ---- matrices ----

_KINDS = {"f16": 0, "f32": 1, "f64": 2, "s8": 3, "s32": 4}  # numbers of nvidia_matrices.c
_BYTES = {"f16": 2, "f32": 4, "f64": 8, "s8": 1, "s32": 4}
_IR_BYTES = {"<2 x half>": 4, "i32": 4, "float": 4, "double": 8}
_ROOM = 64  # bytes: no fragment is larger
_SYNC = f"  call void @nv_warp_sync(i32 -1, {_AT})\n"  # as `.sync` demands


def _members(kind: str) -> list[str]:
    """Return the types of a fragment's members."""
    return [type_of(k.strip()) for k in kind.strip("{} ").split(",")] if kind.startswith("{") else [kind]


def _bytes(kinds: list[str]) -> int:
    return sum(_IR_BYTES[kind] for kind in kinds)


def _memory(match: re.Match[str]) -> str:
    """Return the last arguments of ``nv_wmma_load`` and ``nv_wmma_store``."""
    m, n, k = (int(match[i]) for i in "mnk")
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[match["which"]]
    return f"i32 {_KINDS[match['kind']]}, i32 {rows}, i32 {columns}, i32 {int(match['layout'] == 'col')}"


def _load(match: re.Match[str], function: Declared) -> str:
    count = _bytes(_members(function.result)) // _BYTES[match["kind"]]
    return (
        f"{_SYNC}  %f = alloca {function.result}, align 16\n"
        f"  call void @nv_wmma_load(ptr %f, i32 {count}, ptr %0, i32 %1, {_memory(match)})\n"
        f"  %r = load {function.result}, ptr %f\n  ret {function.result} %r"
    )


def _packed(kinds: list[str], first: int, at: int) -> str:
    """Return stores of the parameters from ``first`` on to ``%f``, from byte ``at`` on."""
    text = ""
    for n, kind in enumerate(kinds):
        text += f"  %p{first + n} = getelementptr i8, ptr %f, i64 {at}\n"
        text += f"  store {kind} %{first + n}, ptr %p{first + n}\n"
        at += _IR_BYTES[kind]
    return text


def _store(match: re.Match[str], function: Declared) -> str:
    kinds = list(function.arguments[1:-1])
    count = _bytes(kinds) // _BYTES[match["kind"]]
    return (
        f"{_SYNC}  %f = alloca [{_ROOM} x i8], align 16\n{_packed(kinds, 1, 0)}"
        f"  call void @nv_wmma_store(ptr %f, i32 {count}, ptr %0, i32 %{len(kinds) + 1}, {_memory(match)})\n"
        "  ret void"
    )


def _multiply(match: re.Match[str], function: Declared) -> str:
    m, n, k = (int(match[i]) for i in "mnk")
    words = match["kinds"].split(".")
    if len(words) == 2:  # f16 has two types of D and C
        operand, addend, result = "f16", words[1], words[0]
    else:
        operand = words[0]
        addend = result = {"s8": "s32", "f64": "f64"}[operand]
    parts, left = [], list(function.arguments)
    for elements in (m * k, k * n):
        copies = (
            2 if operand == "f16" and m * n * k == 4096 else 1
        )  # fragments of f16 have each element twice
        taken: list[str] = []
        while _bytes(taken) < elements // 32 * _BYTES[operand] * copies:
            taken.append(left.pop(0))
        parts.append(taken)
    parts.append(left)
    assert _bytes(left) == _bytes(_members(function.result)) * _BYTES[addend] // _BYTES[result], match[0]
    text, first = f"  %f = alloca [{3 * _ROOM} x i8], align 16\n", 0
    for number, part in enumerate(parts):
        text += _packed(part, first, number * _ROOM)
        first += len(part)
    shape = m << 16 | n << 8 | k
    kinds = _KINDS[operand] << 16 | _KINDS[addend] << 8 | _KINDS[result]
    return (
        f"{text}  %d = alloca {function.result}, align 16\n"
        f"  call void @nv_wmma_multiply(ptr %f, i32 {_ROOM}, ptr %d, "
        f"i32 {_bytes(_members(function.result))}, i32 {shape}, i32 {kinds}, {_AT})\n"
        f"  %r = load {function.result}, ptr %d\n  ret {function.result} %r"
    )


_WMMA = r"llvm\.nvvm\.wmma\.m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)\."
_MEMORY = r"(?P<layout>row|col)\.stride\.(?P<kind>f16|f32|f64|s8|s32)\.p0"
_REGISTERS = r"llvm\.nvvm\.read\.ptx\.sreg\."

NVIDIA = Vendor(
    rules=(
        Rule(pattern=rf"{_REGISTERS}(n?tid|n?ctaid|n?clusterid|cluster\.n?ctaid)\.([xyz])", body=_register),
        Rule(pattern=rf"{_REGISTERS}laneid", body=plain(returns("i32", "call i32 @emu_lane()"))),
        Rule(
            pattern=r"llvm\.nvvm\.barrier\.cta\.sync\.aligned\.all",
            together=True,
            body=plain(f"  call void @emu_barrier(i32 %0, {_AT})\n  ret void"),
        ),
        Rule(
            pattern=r"llvm\.nvvm\.bar\.warp\.sync",
            together=True,
            body=plain(f"  call void @nv_warp_sync(i32 %0, {_AT})\n  ret void"),
        ),
        Rule(pattern=r"llvm\.nvvm\.shfl\.sync\.(up|down|bfly|idx)\.i32(p?)", together=True, body=_shuffle),
        Rule(
            pattern=r"llvm\.nvvm\.vote\.ballot\.sync",
            together=True,
            body=plain(
                f"  %p = zext i1 %1 to i32\n{returns('i32', f'call i32 @nv_ballot(i32 %0, i32 %p, {_AT})')}"
            ),
        ),
        Rule(pattern=rf"llvm\.nvvm\.redux\.sync\.({'|'.join(_REDUCTIONS)})", together=True, body=_reduction),
        Rule(
            pattern=r"llvm\.nvvm\.activemask",
            together=True,
            body=plain(returns("i32", f"call i32 @nv_activemask({_AT})")),
        ),
        Rule(
            pattern=r"llvm\.nvvm\.elect\.sync",
            together=True,
            body=plain(
                f"  %flag = alloca i32\n  %v = call i32 @nv_elect(i32 %0, ptr %flag, {_AT})\n"
                + _with_predicate("%v")
            ),
        ),
        Rule(pattern=rf"{_WMMA}load\.(?P<which>[abc])\.{_MEMORY}", body=_load, together=True),
        Rule(pattern=rf"{_WMMA}store\.(?P<which>d)\.{_MEMORY}", body=_store, together=True),
        Rule(
            pattern=rf"{_WMMA}mma\.(?:row|col)\.(?:row|col)\.(?P<kinds>f(?:16|32)\.f(?:16|32)|s8|f64)",
            body=_multiply,
            together=True,
        ),
        Rule(
            pattern="__assertfail",
            body=plain("  call void @nv_assertfail(ptr %0, ptr %1, i32 %2, ptr %3)\n  unreachable"),
        ),
        Rule(pattern="vprintf", body=plain(returns("i32", "call i32 @nv_vprintf(ptr %0, ptr %1)"))),
        Rule(pattern="malloc", body=plain(returns("ptr", "call ptr @nv_malloc(i64 %0)"))),
        Rule(pattern="free", body=plain("  ret void")),  # later reads find the old value: not checked
    )
)
