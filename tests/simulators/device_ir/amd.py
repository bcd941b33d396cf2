"""Rules for the intrinsics of AMDGPU, after LLVM's AMDGPUUsage and AMD's ISA documents; messages of HIP."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping

from simulators.device_ir.host_form import Declared, Rule, Vendor, plain, returns

MESSAGE_ROOM = 1 << 15  # bytes of the buffer for messages
_AXES = {"x": 0, "y": 1, "z": 2}
_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}
_AT = "i32 %site, i32 %depth"


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


def _read_lane(match: re.Match[str], function: Declared) -> str:
    kind = function.result
    called = "amd_read_first_lane(i64 %w" if match[1] == "first" else "amd_read_lane(i64 %w, i32 %1"
    return _as_word(kind, "%0", "%w") + f"  %v = call i64 @{called}, {_AT})\n" + _from_word(kind, "%v")


def _count_below(match: re.Match[str], function: Declared) -> str:
    return returns("i32", f"call i32 @amd_count_below(i32 %0, i32 %1, i32 {int(match[1] == 'hi')})")


# ---- matrices ----

_KINDS = {"f16": 0, "f32": 1, "f64": 2, "i8": 3, "i32": 4, "iu8": 5}  # numbers of matrices.h; i8 has a sign
_ROOM = 64  # bytes: no fragment is larger


def _multiply(match: re.Match[str], function: Declared) -> str:
    """A product of 16 x 16 elements. Operands of ``iu8`` follow their signs, and the last one saturates."""
    factor, result, kind = _KINDS[match["factor"]], _KINDS[match["result"]], function.result
    bytes_ = {"f32": 4, "i32": 4, "f64": 8}[match["result"]] * int(kind.split()[0].lstrip("<"))
    with_signs = match["factor"] == "iu8"
    operands = (1, 3, 4) if with_signs else (0, 1, 2)
    others = [
        n for n in range(len(function.arguments)) if n not in (*operands, *((0, 2) if with_signs else ()))
    ]
    text = (
        f"  %f = alloca [{3 * _ROOM} x i8], align 64\n  %d = alloca {kind}, align 64\n  %c0 = add i32 0, 0\n"
    )
    for place, number in enumerate(operands):
        text += f"  %p{place} = getelementptr i8, ptr %f, i64 {place * _ROOM}\n"
        text += f"  store {function.arguments[number]} %{number}, ptr %p{place}\n"
    for count, number in enumerate(others):
        cast = "zext" if function.arguments[number] == "i1" else "bitcast"
        text += f"  %w{count} = {cast} {function.arguments[number]} %{number} to i32\n"
        text += f"  %c{count + 1} = or i32 %c{count}, %w{count}\n"
    kinds = f"i32 {factor}, i32 {factor}"
    if with_signs:
        signed = _KINDS["i8"]
        text += "".join(f"  %s{n} = select i1 %{n}, i32 {signed}, i32 {factor}\n" for n in (0, 2))
        kinds = "i32 %s0, i32 %s2"
    return text + (
        f"  call void @amd_multiply(ptr %f, ptr %d, i32 {bytes_}, i32 {match['depth']}, {kinds}, "
        f"i32 {result}, i32 %c{len(others)}, {_AT})\n  %r = load {kind}, ptr %d\n  ret {kind} %r"
    )


RULES = (
    Rule(pattern=r"llvm\.amdgcn\.workitem\.id\.([xyz])",
         body=lambda m, f: returns("i32", f"call i32 @emu_thread_id(i32 {_AXES[m[1]]})")),
    Rule(pattern=r"llvm\.amdgcn\.workgroup\.id\.([xyz])",
         body=lambda m, f: returns("i32", f"call i32 @emu_block_id(i32 {_AXES[m[1]]})")),
    Rule(pattern=r"llvm\.amdgcn\.implicitarg\.ptr",
         body=plain(returns("ptr", "call ptr @amd_implicit_arguments()"))),
    # Lanes are in step anyway: none is behind this before all have come.
    Rule(pattern=r"llvm\.amdgcn\.wave\.barrier", together=True,
         body=plain(f"  %r = call i64 @amd_ballot(i32 1, {_AT})\n  ret void")),
    Rule(pattern=r"llvm\.trap", body=plain("  call void @amd_trap()\n  unreachable")),
    Rule(pattern=r"llvm\.amdgcn\.s\.barrier", together=True,
         body=plain(f"  call void @emu_barrier(i32 0, {_AT})\n  ret void")),
    Rule(pattern=r"llvm\.amdgcn\.read(first)?lane\..*", together=True, body=_read_lane),
    Rule(pattern=r"llvm\.amdgcn\.ds\.bpermute", together=True,
         body=plain(returns("i32", f"call i32 @amd_bpermute(i32 %0, i32 %1, {_AT})"))),
    Rule(pattern=r"llvm\.amdgcn\.mbcnt\.(lo|hi)", body=_count_below),
    Rule(pattern=r"llvm\.amdgcn\.(?:mfma|wmma)\.(?P<result>f32|i32|f64)\.16x16x(?P<depth>\d+)\.?"
                 r"(?P<factor>f16|i8|f32|f64|iu8)(?:\..*)?",
         together=True, body=_multiply),
)  # fmt: skip


def vendor(subgroup_size: int) -> Vendor:
    """The table for chips whose subgroups have 32 or 64 lanes."""
    return Vendor(rules=RULES, subgroup_size=subgroup_size, no_addresses=frozenset({7, 8, 9}))


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
