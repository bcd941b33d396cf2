"""``v_mac_f32`` and ``v_mad_f32`` of gfx90a, which gfx940 and tinygrad's emulator lack.

Their numbers are other instructions' there. After AMD's "Instinct MI200" ISA, product and sum are rounded
separately, and subnormal operands and results are zero.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from simulators.amd_code.special import Action, Next
from simulators.amd_code.vector_memory import executing, registers

_LITERAL, _VECTOR = 255, 256
_VOP3 = 0b110100
_MAC, _MAC_VOP3, _MAD_VOP3 = 22, 278, 449


class MultiplyAdd(NamedTuple):
    """Decoded: operands are numbered as in the encoding."""

    sources: tuple[int, int, int]
    into: int
    absolute: int = 0
    negative: int = 0
    scale: int = 0
    clamp: int = 0
    literal: int = 0
    bytes: int = 8

    def size(self) -> int:
        return self.bytes


def decoded(raw: bytes) -> tuple[MultiplyAdd, Action] | None:
    """``None`` for other instructions."""
    word, second = int.from_bytes(raw[:4], "little"), int.from_bytes(raw[4:8], "little")
    if word >> 25 == _MAC:
        source, into = word & 511, word >> 17 & 255
        has_literal = source == _LITERAL
        return MultiplyAdd(
            sources=(source, _VECTOR + (word >> 9 & 255), _VECTOR + into), into=into, literal=second,
            bytes=8 if has_literal else 4,
        ), run  # fmt: skip
    opcode = word >> 16 & 1023
    if word >> 26 != _VOP3 or opcode not in (_MAC_VOP3, _MAD_VOP3):
        return None
    into = word & 255
    third = second >> 18 & 511 if opcode == _MAD_VOP3 else _VECTOR + into
    return MultiplyAdd(
        sources=(second & 511, second >> 9 & 511, third), into=into, absolute=word >> 8 & 7,
        negative=second >> 29, scale=second >> 27 & 3, clamp=word >> 15 & 1,
    ), run  # fmt: skip


def _normal(values: np.ndarray) -> np.ndarray:
    tiny = np.finfo(np.float32).tiny
    return np.where(np.abs(values) < tiny, np.copysign(np.float32(0), values), values).astype(np.float32)


def _operand(state: Any, what: MultiplyAdd, number: int) -> np.ndarray:
    source = what.sources[number]
    if source >= _VECTOR:
        bits = registers(state, source - _VECTOR, 1, state.vgpr_buf)[0].copy()
    else:
        word = what.literal if source == _LITERAL else state._read_sgpr(source)
        bits = np.full(state.wave_size, word, np.uint32)
    if what.absolute >> number & 1:
        bits &= np.uint32(0x7FFFFFFF)
    if what.negative >> number & 1:
        bits ^= np.uint32(0x80000000)
    return _normal(bits.view(np.float32))


def run(state: Any, what: MultiplyAdd, chip: str) -> Next:
    """In the lanes that are on."""
    with np.errstate(all="ignore"):
        a, b, c = (_operand(state, what, number) for number in range(3))
        result = _normal(_normal(a * b) + c)
        result = _normal(result * np.float32((1, 2, 4, 0.5)[what.scale]))
        if what.clamp:
            result = np.clip(np.nan_to_num(result, nan=0), 0, 1).astype(np.float32)
    lanes = executing(state)
    registers(state, what.into, 1, state.vgpr_buf)[0].view(np.float32)[lanes] = result[lanes]
    state.pc += what.size()
    return Next.GOES_ON
