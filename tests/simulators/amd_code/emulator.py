"""Emulator: tinygrad's of AMD instruction sets, one wavefront's instruction at a time.

It is not part of this repository: ``GPUBUILD_TEST_TINYGRAD`` names a checkout of tinygrad. What an
instruction does is its word; what a wavefront finds in its registers when it starts, workgroups, barriers,
scratch memory and traps are done here and in ``launch.py``. It compiles each kind of instruction, for which
it needs ``clang`` (or ``CC``).
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from simulators.amd_code import multiply_add
from simulators.amd_code.special import Action, action_for
from simulators.amd_code.vector_memory import Handler, handler_for

VARIABLE = "GPUBUILD_TEST_TINYGRAD"
_COMPILERS = ("clang", *(f"clang-{version}" for version in range(24, 13, -1)))
FAMILIES = {"gfx90a": "cdna", "gfx942": "cdna", "gfx1100": "rdna3"}


def require() -> Path:
    """The checkout; skips the test where none is named."""
    checkout = os.environ.get(VARIABLE)
    if not checkout:
        pytest.skip(f"{VARIABLE} names no checkout of tinygrad")
    return Path(checkout)


@functools.cache
def _module() -> ModuleType:
    if "CC" not in os.environ:
        found = next((path for name in _COMPILERS if (path := shutil.which(name))), None)
        if found is None:
            raise FileNotFoundError("the emulator needs clang")
        os.environ["CC"] = found
    os.environ.update(DEV="CPU", DEBUG="0")
    sys.path.insert(0, str(require()))
    from test.mockgpu.amd import emu

    _repair(emu)
    return emu


def _repair(emu: ModuleType) -> None:
    """Without these few, next to nothing that LLVM writes for CDNA runs."""
    # The bit by which an atomic returns the old value is called sc0 since gfx940; the emulator asks for glc.
    for name in ("FLAT", "GLOBAL"):
        getattr(emu.irc, name).glc = property(lambda decoded: decoded.sc0)
    # FLAT instructions of GFX9 have no scalar address, so that the field, which is 0, does not name s[0:1].
    original = emu._Ctx.optional_field

    def optional_field(self: Any, decoded: Any, name: str) -> Any:
        scalar_address_of_flat = name == "saddr" and isinstance(decoded, emu.irc.FLAT)
        return None if scalar_address_of_flat else original(self, decoded, name)

    emu._Ctx.optional_field = optional_field
    _repair_dpp(emu)
    _repair_zeros(emu)


# Of minimum and maximum: the ISA of CDNA writes `(S0 == +0.0) && (S1 == -0.0)`.
_ZEROS = re.compile(
    r"\(\((?P<left>[^()]*(?:\([^()]*\))?) == (?P<sign>[+-])0\.0\)"
    r" && \((?P<right>[^()]*(?:\([^()]*\))?) == [+-]0\.0\)\)"
)


def _repair_zeros(emu: ModuleType) -> None:
    """Zeros of two signs, which the emulator compares as numbers, so that they are equal."""
    original = emu.get_pcode

    def signed(found: re.Match[str]) -> str:
        left, right = (re.findall(r"S[01]\.f\d+", found[side])[0] for side in ("left", "right"))
        signs = ("!", "") if found["sign"] == "+" else ("", "!")
        return f"{found[0][:-1]} && {signs[0]}sign({left}) && {signs[1]}sign({right}))"

    emu.get_pcode = functools.cache(lambda op: _ZEROS.sub(signed, original(op)))


def _repair_dpp(emu: ModuleType) -> None:
    """Controls of DPP that the emulator gives other meanings than LLVM's SIDefines.h and the ISA."""
    original = emu._dpp16_ctrl

    def control(lane: Any, dpp: int, row_mask: int, bank_mask: int, lanes: int) -> Any:
        of_cdna = lanes == 64
        _, enabled, valid = original(lane, 0x140, row_mask, bank_mask, lanes)
        at = lane.cast(emu.dtypes.int)

        def number(value: int) -> Any:
            return emu._c(value, emu.dtypes.int)

        if dpp >> 4 == 0x15:  # row_newbcast of gfx90a, row_share of gfx10
            return (at & number(~15)) + number(dpp & 15), enabled, valid
        if dpp >> 4 == 0x16 and not of_cdna:  # row_xmask
            return at ^ number(dpp & 15), enabled, valid
        if dpp == 0x142 and of_cdna:  # row_bcast15: the last lane of the row before
            return (at & number(~15)) - number(1), enabled, number(16) <= at
        if dpp == 0x143 and of_cdna:  # row_bcast31
            return number(31), enabled, number(32) <= at
        return original(lane, dpp, row_mask, bank_mask, lanes)

    emu._dpp16_ctrl = control


# Buffer instructions of RDNA3 and gfx90a which the emulator does not decode: encoding 0x38, opcode.
_CACHE_INSTRUCTIONS = {
    "rdna3": {0x38 << 8 | 43: "buffer_gl0_inv", 0x38 << 8 | 44: "buffer_gl1_inv"},
    "cdna": {0x38 << 8 | 62: "buffer_wbinvl1", 0x38 << 8 | 63: "buffer_wbinvl1_vol"},
}


# src_shared_base, src_shared_limit, src_private_base, src_private_limit
_APERTURES = range(235, 239)
_SOURCES = ("ssrc0", "ssrc1", "src0", "src1", "src2")


class _OnlySize(int):
    def size(self) -> int:
        return int(self)


@dataclass(frozen=True, slots=True)
class Instruction:
    """Code at one place: an ``action`` of our own, or ``run`` with the pointers that ``uses`` names.

    ``sometimes`` is asked before ``run``, and may have done it.
    """

    name: str
    decoded: Any
    run: Callable[..., None] | None = None
    uses: tuple[int, ...] = ()
    action: Action | None = None
    sometimes: Handler | None = None


def instruction(at: int, chip: str) -> Instruction:
    """What stands at address ``at``, for ``chip``.

    Raises ``NotImplementedError`` for what the emulator does not know.
    """
    emu = _module()
    family = FAMILIES[chip]
    raw = ctypes.string_at(at, 16)
    if chip == "gfx90a" and (found := multiply_add.decoded(raw)):
        return Instruction(name="v_mad_f32", decoded=found[0], action=found[1])
    if name := _CACHE_INSTRUCTIONS.get(family, {}).get(int.from_bytes(raw[:4], "little") >> 18):
        return Instruction(name=name, decoded=_OnlySize(8), action=action_for(name))
    try:
        decoded = emu.decode_inst(raw, family)
    except Exception as error:
        raise NotImplementedError(f"cannot decode {raw.hex()}: {error}") from error
    name = emu._op_name(decoded).lower()
    if action := action_for(name):
        return Instruction(name=name, decoded=decoded, action=action)
    if any(getattr(getattr(decoded, field, None), "offset", 0) in _APERTURES for field in _SOURCES):
        raise NotImplementedError("generic addresses of memory that is not global")
    sometimes = handler_for(name)
    try:
        program, runtime = emu._get_runner(bytes(raw[: decoded.size() + 4]), family)
    except Exception as error:
        raise NotImplementedError(f"{name}: {type(error).__name__}: {str(error)[:200]}") from error
    return Instruction(name=name, decoded=decoded, run=runtime.fxn, uses=tuple(program.arg.globals),
                       sometimes=sometimes)  # fmt: skip


def wave(lanes_there: int, lanes: int) -> Any:
    """The registers of a wavefront."""
    return _module().WaveState(lanes_there, lanes)


def version() -> str:
    """Such as ``tinygrad 0.13.0``."""
    text = (require() / "pyproject.toml").read_text()
    number = re.search(r'^version = "(.*)"', text, re.MULTILINE)
    return f"tinygrad {number[1] if number else 'unknown'}"
