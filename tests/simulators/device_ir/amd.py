"""AMD: what stands for the intrinsics of AMDGPU, as LLVM's AMDGPUUsage and AMD's ISAs describe them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping

from simulators.device_ir.host_form import Declared, Rule, Vendor

EXTERNALS = """
declare i32 @emu_thread_id(i32)
declare i32 @emu_block_id(i32)
declare i32 @emu_subgroup_size()
declare void @emu_barrier(i32, i32, i1 zeroext, i32, i32)
declare void @emu_yield()
declare ptr @amd_implicit_arguments()
declare void @amd_trap()
declare i64 @amd_read_first_lane(i64, i32, i32)
declare i64 @amd_read_lane(i64, i32, i32, i32)
declare i64 @amd_ballot(i32, i32, i32)
declare i32 @amd_bpermute(i32, i32, i32, i32)
declare i32 @amd_permute(i32, i32, i32, i32)
declare i32 @amd_swizzle(i32, i32, i32, i32)
declare i32 @amd_dpp(i32, i32, i32, i32, i32, i32, i32, i32)
declare i32 @amd_permlane(i32, i32, i32, i32, i32, i32, i32, i32)
declare void @amd_swap(i32, i32, i32, ptr, i32, i32)
declare i32 @amd_count_below(i32, i32, i32)
"""
MESSAGE_ROOM = 1 << 15  # bytes of the buffer for messages
_AXES = {"x": 0, "y": 1, "z": 2}
_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
_AT = "i32 %site, i32 %depth"


def _returns(kind: str, value: str) -> str:
    return f"  %r = {value}\n  ret {kind} %r"


def _plain(text: str):
    return lambda match, function: text


def _width(kind: str) -> int:
    return _WIDTHS[kind] if kind in _WIDTHS else 64 if kind == "ptr" else int(kind.removeprefix("i"))


def _as_word(kind: str, value: str, name: str) -> str:
    """``name`` is ``value`` in an i64."""
    width = _width(kind)
    cast = "ptrtoint" if kind == "ptr" else "bitcast"
    text = f"  {name}.bits = {cast} {kind} {value} to i{width}\n"
    return text + (f"  {name} = zext i{width} {name}.bits to i64\n" if width < 64
                   else f"  {name} = add i64 {name}.bits, 0\n")  # fmt: skip


def _from_word(kind: str, value: str) -> str:
    width = _width(kind)
    cast = "inttoptr" if kind == "ptr" else "bitcast"
    text = f"  %narrow = {'trunc' if width < 64 else 'add'} i64 {value}"
    text += f" to i{width}\n" if width < 64 else ", 0\n"
    return text + f"  %result = {cast} i{width} %narrow to {kind}\n  ret {kind} %result"


def _read_first(match: re.Match[str], function: Declared) -> str:
    kind = function.result
    call = f"  %v = call i64 @amd_read_first_lane(i64 %w, {_AT})\n"
    return _as_word(kind, "%0", "%w") + call + _from_word(kind, "%v")


def _read_lane(match: re.Match[str], function: Declared) -> str:
    kind = function.result
    call = f"  %v = call i64 @amd_read_lane(i64 %w, i32 %1, {_AT})\n"
    return _as_word(kind, "%0", "%w") + call + _from_word(kind, "%v")


def _dpp(match: re.Match[str], function: Declared) -> str:
    """``update.dpp``: old, source, control, row mask, bank mask, bound control; 64 bits in two halves."""
    kind = function.result
    text = _as_word(kind, "%0", "%old") + _as_word(kind, "%1", "%new")
    parts = []
    for half in range(2 if _width(kind) == 64 else 1):
        for name in ("old", "new"):
            text += f"  %{name}.s{half} = lshr i64 %{name}, {32 * half}\n"
            text += f"  %{name}.{half} = trunc i64 %{name}.s{half} to i32\n"
        text += f"  %b{half} = zext i1 %5 to i32\n"
        text += (
            f"  %v{half} = call i32 @amd_dpp(i32 %old.{half}, i32 %new.{half}, i32 %2, i32 %3, i32 %4, "
            f"i32 %b{half}, {_AT})\n  %z{half} = zext i32 %v{half} to i64\n"
        )
        parts.append(f"%z{half}")
    if len(parts) == 2:
        text += "  %high = shl i64 %z1, 32\n  %both = or i64 %z0, %high\n"
        return text + _from_word(kind, "%both")
    return text + _from_word(kind, "%z0")


def _ballot(match: re.Match[str], function: Declared) -> str:
    kind = function.result
    text = f"  %w = zext i1 %0 to i32\n  %v = call i64 @amd_ballot(i32 %w, {_AT})\n"
    return text + (f"  %r = trunc i64 %v to {kind}\n  ret {kind} %r" if kind != "i64" else "  ret i64 %v")


def _permlane(match: re.Match[str], function: Declared) -> str:
    """permlane16, permlanex16: old, source, two words of numbers, fetch inactive, bound control."""
    text = "  %b = zext i1 %5 to i32\n"
    call = (
        f"call i32 @amd_permlane(i32 %0, i32 %1, i32 %2, i32 %3, i32 {int(match[1] == 'x')}, i32 %b, {_AT})"
    )
    return text + _returns("i32", call)


def _swap(match: re.Match[str], function: Declared) -> str:
    pair = "{ i32, i32 }"
    return (
        f"  %place = alloca [2 x i32]\n"
        f"  call void @amd_swap(i32 %0, i32 %1, i32 {match[1]}, ptr %place, {_AT})\n"
        f"  %v = load {pair}, ptr %place\n  ret {pair} %v"
    )


def _count_below(match: re.Match[str], function: Declared) -> str:
    return _returns("i32", f"call i32 @amd_count_below(i32 %0, i32 %1, i32 {int(match[1] == 'hi')})")


_NOTHING = _plain("  ret void")
RULES = (
    Rule(pattern=r"llvm\.amdgcn\.workitem\.id\.([xyz])",
         body=lambda m, f: _returns("i32", f"call i32 @emu_thread_id(i32 {_AXES[m[1]]})")),
    Rule(pattern=r"llvm\.amdgcn\.workgroup\.id\.([xyz])",
         body=lambda m, f: _returns("i32", f"call i32 @emu_block_id(i32 {_AXES[m[1]]})")),
    Rule(pattern=r"llvm\.amdgcn\.implicitarg\.ptr",
         body=_plain(_returns("ptr", "call ptr @amd_implicit_arguments()"))),
    Rule(pattern=r"llvm\.amdgcn\.wavefrontsize",
         body=_plain(_returns("i32", "call i32 @emu_subgroup_size()"))),
    Rule(pattern=r"llvm\.amdgcn\.(?:s\.waitcnt|sched\.barrier|s\.wait\..*)", body=_NOTHING),
    # Lanes are in step anyway: none is behind this before all have come.
    Rule(pattern=r"llvm\.amdgcn\.wave\.barrier", together=True,
         body=_plain(f"  %r = call i64 @amd_ballot(i32 1, {_AT})\n  ret void")),
    Rule(pattern=r"llvm\.amdgcn\.s\.sleep", body=_plain("  call void @emu_yield()\n  ret void")),
    Rule(pattern=r"llvm\.trap", body=_plain("  call void @amd_trap()\n  unreachable")),
    Rule(pattern=r"llvm\.amdgcn\.s\.barrier", together=True,
         body=_plain(f"  call void @emu_barrier(i32 0, i32 0, i1 1, {_AT})\n  ret void")),
    Rule(pattern=r"llvm\.amdgcn\.readfirstlane\..*", together=True, body=_read_first),
    Rule(pattern=r"llvm\.amdgcn\.readlane\..*", together=True, body=_read_lane),
    Rule(pattern=r"llvm\.amdgcn\.ballot\..*", together=True, body=_ballot),
    Rule(pattern=r"llvm\.amdgcn\.ds\.bpermute", together=True,
         body=_plain(_returns("i32", f"call i32 @amd_bpermute(i32 %0, i32 %1, {_AT})"))),
    Rule(pattern=r"llvm\.amdgcn\.ds\.permute", together=True,
         body=_plain(_returns("i32", f"call i32 @amd_permute(i32 %0, i32 %1, {_AT})"))),
    Rule(pattern=r"llvm\.amdgcn\.ds\.swizzle", together=True,
         body=_plain(_returns("i32", f"call i32 @amd_swizzle(i32 %0, i32 %1, {_AT})"))),
    Rule(pattern=r"llvm\.amdgcn\.update\.dpp\..*", together=True, body=_dpp),
    Rule(pattern=r"llvm\.amdgcn\.permlane(x?)16(?:\.i32)?", together=True, body=_permlane),
    Rule(pattern=r"llvm\.amdgcn\.permlane(16|32)\.swap", together=True, body=_swap),
    Rule(pattern=r"llvm\.amdgcn\.mbcnt\.(lo|hi)", body=_count_below),
)  # fmt: skip


def vendor(subgroup_size: int) -> Vendor:
    """The table for chips whose subgroups have 32 or 64 lanes."""
    return Vendor(
        rules=RULES, externals=EXTERNALS, subgroup_size=subgroup_size, no_addresses=frozenset({7, 8, 9})
    )


def formats_of(text: str) -> dict[int, str]:
    """The formats that a module's metadata ``llvm.printf.fmts`` has, by name, as HIP's runtime reads them.

    Raises ``ValueError`` for two of one name, over which HIP prints nothing.
    """
    found = re.search(r"^!llvm\.printf\.fmts = !\{([^}]*)\}", text, re.MULTILINE)
    formats: dict[int, str] = {}
    for reference in re.findall(r"!\d+", found[1]) if found else ():
        entry = re.search(rf'^{reference} = !\{{!"(.*)"\}}$', text, re.MULTILINE)
        assert entry is not None
        raw = re.sub(rb"\\([0-9A-F]{2})", lambda m: bytes([int(m[1], 16)]), entry[1].encode())
        number, sizes, rest = raw.decode().split(":", 2)
        assert (number, sizes) == ("0", "0"), "HIP takes what follows for sizes of values"
        name, _, said = rest.partition(",")
        if int(name, 16) in formats:
            raise ValueError(f"two formats are called {name}")
        formats[int(name, 16)] = re.sub(r"\\(72|[abfnrv])", _escape, said)
    return formats


def _escape(found: re.Match[str]) -> str:
    return {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "v": "\v", "72": ":"}[found[1]]


def read_messages(data: bytes, formats: Mapping[int, str]) -> tuple[str, str]:
    """What HIP prints of a buffer: to stdout and to stderr.

    Each message is a word (size in bytes times 4; bit 1: the format is named; bit 0: stderr), the name of its
    format in 8 bytes, and values of 8 bytes.
    """
    streams = ["", ""]
    at = 0
    while at < len(data):
        (control,) = struct.unpack_from("<I", data, at)
        size = control >> 2
        assert control & 2 and size >= 12 and (size - 12) % 8 == 0 and at + size <= len(data), (control, at)
        (name,) = struct.unpack_from("<Q", data, at + 4)
        values = struct.unpack_from(f"<{(size - 12) // 8}Q", data, at + 12)
        said = formats[name]
        # HIP's copy of a text without values is written past its end when there is no room for the padding.
        assert values or (len(said.encode()) + 1) % 8, "HIP writes past the end of this message"
        streams[control & 1] += _formatted(said, iter(values))
        at += size
    return streams[0], streams[1]


_CONVERSION = re.compile(r"%(?:%|([-+ #0]*)(\*|\d*)(?:\.(\*|\d*))?(hh|h|ll|l|z|j|t)?([diouxXfFeEgGaAcsp]))")


def _formatted(said: str, values: Iterator[int]) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        flags, width, precision, length, letter = found.groups()
        if width == "*":
            width = str(_signed(next(values), 32))
        if precision == "*":
            precision = str(_signed(next(values), 32))
        form = f"%{flags}{width}" + (f".{precision}" if precision is not None else "")
        value = next(values)
        bits = {"hh": 8, "h": 16, None: 32}.get(length, 64)
        if letter in "fFeEgG":
            (real,) = struct.unpack("<d", struct.pack("<Q", value))
            return f"{form}{letter}" % real
        if letter == "c":
            return f"{form}c" % (value & 0xFF)
        if letter in "di":
            return f"{form}d" % _signed(value, bits)
        if letter in "ouxX":
            return f"{form}{'d' if letter == 'u' else letter}" % (value & ((1 << bits) - 1))
        raise NotImplementedError(found[0])

    return _CONVERSION.sub(replace, said)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
