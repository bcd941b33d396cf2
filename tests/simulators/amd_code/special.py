"""Instructions that are executed here and not by tinygrad's emulator, after AMD's ISA documents.

They concern several wavefronts (barriers, traps, sleep), or the emulator lacks them (jumps by register), has
only some of their forms (buffer instructions, with which gfx90a accesses scratch memory), or is wrong
(permutes, whose addresses it does not wrap; products of matrices of integers, which it cannot compile).
"""

from __future__ import annotations

import ctypes
import enum
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from simulators.amd_code.vector_memory import executing, registers

_EXEC, _INLINE, _MASK = 126, 128, 0xFFFFFFFF
_ADD_TID, _SWIZZLE = 1 << 23, 1 << 31
_BYTES = {"ubyte": 1, "sbyte": 1, "byte": 1, "ushort": 2, "sshort": 2, "short": 2,
          "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}  # fmt: skip
_BUFFER = re.compile(r"buffer_(load|store)_([us]?byte|[us]?short|dword(?:x[234])?)(_d16)?(_hi)?$")


class Next(enum.Enum):
    """What a wavefront does after an instruction."""

    GOES_ON = enum.auto()
    YIELDS = enum.auto()
    WAITS = enum.auto()


class TrapError(Exception):
    """A wavefront came to a trap."""


Action = Callable[[Any, Any, str], Next]  # registers, decoded instruction, chip


def action_for(name: str) -> Action | None:
    """What the instruction called ``name`` does; ``None`` where the emulator knows it."""
    if _BUFFER.match(name):
        return _buffer
    return _ACTIONS.get(name)


def _step(state: Any, decoded: Any) -> None:
    state.pc += decoded.size()


def _trap(state: Any, decoded: Any, chip: str) -> Next:
    if chip.startswith("gfx110") and decoded.op.name == "S_TRAP":
        _step(state, decoded)  # these ignore `s_trap 2` (LLVM's AMDGPUUsage, "Trap Handler ABI")
        return Next.GOES_ON
    raise TrapError("trap")


def _nothing(state: Any, decoded: Any, chip: str) -> Next:
    _step(state, decoded)
    return Next.GOES_ON


def _sleep(state: Any, decoded: Any, chip: str) -> Next:
    _step(state, decoded)
    return Next.YIELDS


def _barrier(state: Any, decoded: Any, chip: str) -> Next:
    _step(state, decoded)
    return Next.WAITS


def _pair(state: Any, at: int) -> int:
    return state._read_sgpr(at) | state._read_sgpr(at + 1) << 32


def _put_pair(state: Any, at: int, value: int) -> None:
    state._write_sgpr(at, value & _MASK)
    state._write_sgpr(at + 1, value >> 32)


def _get_pc(state: Any, decoded: Any, chip: str) -> Next:
    _step(state, decoded)
    _put_pair(state, decoded.sdst.offset, state.pc)
    return Next.GOES_ON


def _set_pc(state: Any, decoded: Any, chip: str) -> Next:
    state.pc = _pair(state, decoded.ssrc0.offset)
    return Next.GOES_ON


def _swap_pc(state: Any, decoded: Any, chip: str) -> Next:
    to = _pair(state, decoded.ssrc0.offset)
    _put_pair(state, decoded.sdst.offset, state.pc + decoded.size())
    state.pc = to
    return Next.GOES_ON


def _message_answer(state: Any, decoded: Any, chip: str) -> Next:
    """``s_sendmsg_rtn_*``: of the doorbell, before a trap. It is no number that a program could use."""
    _step(state, decoded)
    _put_pair(state, decoded.sdst.offset, 0)
    return Next.GOES_ON


def _word(state: Any, register: Any) -> int:
    """A scalar operand: register, or inline constant."""
    return int(state._read_sgpr(register.offset))


def _buffer(state: Any, decoded: Any, chip: str) -> Next:
    """MUBUF with the addresses of "Buffer Addressing" in the ISA document; reads out of range are 0."""
    found = _BUFFER.match(decoded.op.name.lower())
    assert found is not None
    size = _BYTES[found[2]]
    lanes, executes = state.wave_size, _pair(state, _EXEC)
    resource = [state._read_sgpr(decoded.srsrc.offset + n) for n in range(4)]
    base = resource[0] | (resource[1] & 0xFFFF) << 32
    stride = resource[1] >> 16 & 0x3FFF
    offset = _word(state, decoded.soffset)
    file = state.accvgpr_buf if getattr(decoded, "acc", 0) else state.vgpr_buf
    data = (ctypes.c_uint32 * (256 * lanes)).from_address(file._buf.va_addr)
    register, address = decoded.vdata.offset & 255, decoded.vaddr.offset & 255
    for lane in range(lanes):
        if not executes >> lane & 1:
            continue
        index, at = 0, decoded.offset
        if decoded.idxen:
            index = state._read_vgpr(address, lane)
        if decoded.offen:
            at += state._read_vgpr(address + (1 if decoded.idxen else 0), lane)
        if resource[3] & _ADD_TID:
            index += lane
        if resource[1] & _SWIZZLE:
            element, group = 2 << (resource[3] >> 19 & 3), 8 << (resource[3] >> 21 & 3)
            at += offset
            if at % element + min(size, element) > element or size > element:
                raise NotImplementedError(f"{size} bytes at {at} of a swizzled buffer")
            place = base + (at // element * group + index % group) * element + at % element
            inside = at < resource[2]
        else:
            place = base + offset + stride * index + at
            inside = index < resource[2] if stride else at + size <= resource[2]
        _move(found, data, register, lane, lanes, place, inside, size)
    _step(state, decoded)
    return Next.GOES_ON


def _move(
    found: re.Match[str], data: Any, register: int, lane: int, lanes: int, place: int, inside: bool, size: int
) -> None:
    first = register * lanes + lane
    words = [data[first + n * lanes] for n in range(max(size // 4, 1))]
    if found[1] == "store":
        if inside:
            value = sum(w << 32 * n for n, w in enumerate(words)) >> (16 if found[4] else 0)
            ctypes.memmove(place, (value & (1 << 8 * size) - 1).to_bytes(size, "little"), size)
        return
    value = int.from_bytes(ctypes.string_at(place, size), "little") if inside else 0
    if found[2].startswith("s") and value >> (8 * size - 1):
        value |= _MASK & ~((1 << 8 * size) - 1)
    if found[3]:
        value &= 0xFFFF
        value = value << 16 | words[0] & 0xFFFF if found[4] else words[0] & 0xFFFF0000 | value
    for n in range(len(words)):
        data[first + n * lanes] = value >> 32 * n & _MASK


# There are no caches here.
_CACHES = ("buffer_gl0_inv", "buffer_gl1_inv", "buffer_inv", "buffer_wbl2", "buffer_wbinvl1",
           "buffer_wbinvl1_vol", "global_inv", "global_wb", "global_wbinv")  # fmt: skip


def _permute(state: Any, decoded: Any, chip: str) -> Next:
    """``ds_permute_b32``, ``ds_bpermute_b32``: addresses wrap, lanes that are off have 0."""

    def lanes(register: Any) -> np.ndarray:
        return registers(state, register.offset, 1, state.vgpr_buf)[0]

    on, result = executing(state), np.zeros(state.wave_size, np.uint32)
    offset = decoded.offset0 | decoded.offset1 << 8
    addresses = (lanes(decoded.addr).astype(np.int64)[on] + offset) // 4 % state.wave_size
    data = lanes(decoded.data0).copy()
    if decoded.op.name.startswith("DS_B"):
        result[on] = np.where(np.isin(addresses, on), data[addresses], 0)
    else:
        result[addresses] = data[on]
    lanes(decoded.vdst)[on] = result[on]
    _step(state, decoded)
    return Next.GOES_ON


_MULTIPLY_OF_GFX90A = "v_mfma_f32_32x32x16_f16"  # what v_mfma_i32_16x16x16i8 is for gfx950 and the emulator


def _multiply_integers(state: Any, decoded: Any, chip: str) -> Next:
    """Execute ``v_mfma_i32_16x16x32_i8`` or the older form, which ignore the mask of lanes."""
    if decoded.acc or decoded.acc_cd or decoded.cbsz or decoded.blgp:
        raise NotImplementedError("matrix instruction with accumulation registers or permutations")
    words = 1 if decoded.op.name.lower() == _MULTIPLY_OF_GFX90A else 2

    def factor(register: Any) -> np.ndarray:
        """Lanes of 16 rows, in four groups with a part of the depth each."""
        values = np.ascontiguousarray(registers(state, register.offset, words, state.vgpr_buf).T)
        return values.view(np.int8).reshape(4, 16, -1).transpose(1, 0, 2).reshape(16, -1).astype(np.int32)

    start: Any = decoded.src2.offset - _INLINE
    if start >= 256 - _INLINE:
        start = registers(state, decoded.src2.offset, 4, state.vgpr_buf).copy()
    elif not 0 <= start <= 64:
        raise NotImplementedError("matrix instruction with a scalar operand")
    product = factor(decoded.src0) @ factor(decoded.src1).T
    by_register = product.reshape(4, 4, 16).transpose(1, 0, 2).reshape(4, 64).view(np.uint32)
    registers(state, decoded.vdst.offset, 4, state.vgpr_buf)[:] = by_register + np.uint32(start)
    _step(state, decoded)
    return Next.GOES_ON


_ACTIONS: Mapping[str, Action] = {
    "s_trap": _trap,
    "s_sethalt": _trap,
    "s_sleep": _sleep,
    "s_barrier": _barrier,
    "s_barrier_wait": _barrier,
    "s_barrier_signal": _nothing,
    "s_sendmsg": _nothing,
    "s_sendmsg_rtn_b32": _message_answer,
    "s_sendmsg_rtn_b64": _message_answer,
    **dict.fromkeys(_CACHES, _nothing),
    "ds_permute_b32": _permute,
    "ds_bpermute_b32": _permute,
    "v_mfma_i32_16x16x32_i8": _multiply_integers,
    _MULTIPLY_OF_GFX90A: _multiply_integers,
    "s_getpc_b64": _get_pc,
    "s_setpc_b64": _set_pc,
    "s_swappc_b64": _swap_pc,
}
