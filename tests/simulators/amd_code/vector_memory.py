"""GLOBAL and FLAT instructions in the forms that tinygrad's emulator lacks.

It reads and writes whole words at multiples of four bytes, but the HSA ABI enables unaligned accesses, and
LLVM uses them. For compare-and-swap of 64 bits it uses the wrong registers.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np

_NO_REGISTER = 124  # and what follows, for scalar addresses
_EXEC = 126
_SWAP = re.compile(r"(?:global|flat)_atomic_cmpswap(_x2|_b64|_b32)?$")
Handler = Callable[[Any, Any], bool]


def handler_for(name: str) -> Handler | None:
    """Return a function that executes an instruction and returns True, or leaves it to the emulator."""
    if found := _SWAP.match(name):
        wide = found[1] in ("_x2", "_b64")
        return lambda state, decoded: _swap(state, decoded, 8 if wide else 4)
    size = _SIZES.get(name.removeprefix("global_").removeprefix("flat_"))
    if size is None:
        return None
    load, half = "_load_" in name, _HALVES.get(name.removeprefix("global_").removeprefix("flat_"))
    return lambda state, decoded: _move(state, decoded, size, load, half)


_WORDS = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "b32": 4, "b64": 8, "b96": 12, "b128": 16}
_SIZES = {f"{way}_{kind}": size for way in ("load", "store") for kind, size in _WORDS.items()} | {
    "load_d16_b16": 2, "load_d16_hi_b16": 2, "load_short_d16": 2, "load_short_d16_hi": 2, "load_ushort": 2,
    "load_u16": 2, "load_sshort": -2, "load_i16": -2, "store_short": 2, "store_b16": 2,
}  # fmt: skip
# Loads of one half of a register, by its first bit; the other is kept.
_HALVES = {"load_d16_b16": 0, "load_short_d16": 0, "load_d16_hi_b16": 16, "load_short_d16_hi": 16}


def executing(state: Any) -> np.ndarray:
    """Return the numbers of the lanes that are on."""
    mask = state._read_sgpr(_EXEC) | (state._read_sgpr(_EXEC + 1) << 32 if state.wave_size == 64 else 0)
    return np.flatnonzero([mask >> lane & 1 for lane in range(state.wave_size)])


def registers(state: Any, first: int, count: int, file: Any) -> np.ndarray:
    """Return vector registers by number and lane, to be read and written."""
    lanes = state.wave_size
    words = (ctypes.c_uint32 * (count * lanes)).from_address(file._buf.va_addr + first % 256 * lanes * 4)
    return np.frombuffer(words, np.uint32).reshape(count, lanes)


def _addresses(state: Any, decoded: Any) -> np.ndarray:
    """Of all lanes: vector address, or a scalar one and an offset in a vector register."""
    bits = type(decoded).offset.hi - type(decoded).offset.lo + 1
    offset = decoded.offset - (1 << bits if decoded.offset >> (bits - 1) else 0)
    low = registers(state, decoded.addr.offset, 1, state.vgpr_buf)[0].astype(np.uint64)
    scalar = getattr(decoded, "saddr", None)
    flat = type(decoded).__name__ == "FLAT"
    if scalar is not None and not flat and scalar.offset < _NO_REGISTER:
        base = state._read_sgpr(scalar.offset) | state._read_sgpr(scalar.offset + 1) << 32
        return low + np.uint64((base + offset) % (1 << 64))
    high = registers(state, decoded.addr.offset + 1, 1, state.vgpr_buf)[0].astype(np.uint64)
    return (low | high << np.uint64(32)) + np.uint64(offset % (1 << 64))


def _move(state: Any, decoded: Any, size: int, load: bool, half: int | None) -> bool:
    lanes = executing(state)
    addresses = _addresses(state, decoded)[lanes]
    signed, size = size < 0, abs(size)
    if not (addresses % np.uint64(min(size, 4))).any():
        return False
    file = state.accvgpr_buf if getattr(decoded, "acc", 0) else state.vgpr_buf
    count = -(-size // 4)
    data = registers(state, (decoded.vdst if load else decoded.data).offset, count, file)
    for lane, address in zip(lanes, addresses, strict=True):
        if load:
            value = int.from_bytes(ctypes.string_at(int(address), size), "little", signed=signed)
            if half is not None:
                kept = int(data[0, lane]) & (0xFFFF0000 >> half)
                value = value << half | kept
            data[:, lane] = np.frombuffer(value.to_bytes(4 * count, "little", signed=signed), np.uint32)
        else:
            ctypes.memmove(int(address), data[:, lane].tobytes()[:size], size)
    state.pc += decoded.size()
    return True


def _swap(state: Any, decoded: Any, size: int) -> bool:
    """The new value is in the first registers, what must be there in those behind."""
    lanes = executing(state)
    addresses = _addresses(state, decoded)
    words = size // 4
    data = registers(state, decoded.data.offset, 2 * words, state.vgpr_buf).copy()
    returns = getattr(decoded, "glc", 0)
    into = registers(state, decoded.vdst.offset, words, state.vgpr_buf)
    for lane in lanes:
        address = int(addresses[lane])
        there = ctypes.string_at(address, size)
        if there == data[words:, lane].tobytes():
            ctypes.memmove(address, data[:words, lane].tobytes(), size)
        if returns:
            into[:, lane] = np.frombuffer(there, np.uint32)
    state.pc += decoded.size()
    return True
