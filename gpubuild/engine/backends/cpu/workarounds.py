"""Workarounds of errors in MLIR and LLVM that only CPUs need.

Misplaced vector parts: on x86 with AVX, LLVM 22.1's code generator joins ``extract(v, n / 2)`` with the next
part to one of twice the width, and rounds its position down to a multiple of that width. That is wrong where
n is not a power of two: rows 3 and 4 of six rows of four floats became rows 2 and 3 (LLVM 22.1.8). An empty
inline assembly on the part prevents the join.

Shuffles up: upstream's conversion for NVIDIA bounds the source lane by 32 - width, which is right for a
width of 32 only; the gpu dialect bounds it by lane 0.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.builder import LlvmBuilder
from gpubuild.engine.ir.workarounds import Workaround

_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
_BITS |= {f"i{bits}": bits for bits in (8, 16, 32, 64)}
_SHUFFLE = re.compile(
    r'^  (?P<name>%(?:"[^"]*"|[^ ]+)) = shufflevector <(?P<from>\d+) x (?P<element>\w+)> '
    r".*, <(?P<count>\d+) x i32> <(?P<mask>[^<>]*)>(?P<rest>[^<>]*)$",
    re.MULTILINE,
)
_ADDITION = (
    "define <16 x float> @f(<16 x float> %a) {\n  %r = fadd <16 x float> %a, %a\n  ret <16 x float> %r\n}\n"
)
_REGISTERS = (("%zmm", 512), ("%ymm", 256))


def keep_odd_halves(module: llvm.Module, machine: llvm.Machine) -> llvm.Module:
    """Return ``module``, or a copy without parts that LLVM misplaces. Call it after all optimisation."""
    if not machine.triple.startswith("x86_64"):
        return module
    text = str(module)
    if not any(_is_odd_half(found) for found in _SHUFFLE.finditer(text)):
        return module
    kept = keep_in_text(text, register_bits(machine))
    return module if kept == text else llvm.parse_assembly(kept, llvm.new_context())


def keep_in_text(text: str, bits: int) -> str:
    """Change LLVM IR text in the same way; ``bits`` is the width of the widest registers."""
    return _SHUFFLE.sub(
        lambda found: _kept(found) if _is_odd_half(found) and 2 * _part_bits(found) <= bits else found[0],
        text,
    )


def register_bits(machine: llvm.Machine) -> int:
    """Return the width of the widest vectors that an x86 ``machine`` adds in one instruction."""
    module = llvm.parse_assembly(_ADDITION, llvm.new_context())
    llvm.set_target(module, machine)
    text = llvm.emit_assembly(module, machine)
    return next((bits for name, bits in _REGISTERS if name in text), 128)


def _part_bits(shuffle: re.Match[str]) -> int:
    return _BITS.get(shuffle["element"], 0) * int(shuffle["count"])


def _is_odd_half(shuffle: re.Match[str]) -> bool:
    whole, count = int(shuffle["from"]), int(shuffle["count"])
    if _part_bits(shuffle) not in (128, 256) or whole % (2 * count):
        return False
    if whole // (2 * count) % 2 == 0 or whole == 2 * count:
        return False
    words = [item.split()[-1] for item in shuffle["mask"].split(",")]
    indices = [int(word) for word in words if word.isdigit()]
    sides = [[i for i in indices if i < whole], [i - whole for i in indices if i >= whole]]
    return any(side and whole // 2 <= min(side) and max(side) < whole // 2 + count for side in sides)


def _kept(shuffle: re.Match[str]) -> str:
    """Rename the instruction, and give its name to the output of an empty assembly."""
    name, element, count = shuffle["name"], shuffle["element"], int(shuffle["count"])
    bits = f"<{_part_bits(shuffle) // 64} x i64>"
    kind = f"<{count} x {element}>"
    there, back = ("ptrtoint", "inttoptr") if element == "ptr" else ("bitcast", "bitcast")
    taken, packed, kept = (_named(name, part) for part in ("taken", "packed", "kept"))
    return "\n".join(
        (
            shuffle[0].replace(name, taken, 1),
            f"  {packed} = {there} {kind} {taken} to {bits}",
            f'  {kept} = call {bits} asm "", "=x,0"({bits} {packed})',
            f"  {name} = {back} {bits} {kept} to {kind}",
        )
    )


def _named(name: str, part: str) -> str:
    plain = name[1:].strip('"')
    return f'%"gpubuild.{part}.{plain}"'


def bound_of_shuffle_up(build: LlvmBuilder, bound: ir.Value, written: str) -> ir.Value:
    """Return the operand ``bound`` of an ``nvvm.shfl.sync up``; ``written`` is the source's operation."""
    return build.constant(0) if written == "gpu.shuffle" else bound


WORKAROUNDS = (
    Workaround(
        name="keep_odd_halves",
        bug="parts of vectors have a wrong position on x86 with AVX",
        seen="LLVM 22.1.8",
        package="llvmlite",
        remove_when="0.51",
    ),
    Workaround(
        name="bound_of_shuffle_up",
        bug="convert-gpu-to-nvvm bounds gpu.shuffle up by 32 - width",
        seen="MLIR 22.1",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
)
