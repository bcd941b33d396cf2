"""Launch: workgroups and wavefronts of a kernel, which start as LLVM's AMDGPUUsage says.

What a kernel may not rely on is made visible: unset registers, workgroup memory and scratch hold
a pattern, and what lies behind the memory that a kernel asked for must keep it.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from simulators.amd_code import emulator
from simulators.amd_code.code_object import Kernel
from simulators.amd_code.emulator import Instruction
from simulators.amd_code.special import Next, TrapError

POISON = (
    0x7FADBEEF  # no float; as an integer positive, since the emulator divides addresses of lanes that are off
)
_SCALARS, _VECTORS = 106, 256  # registers that kernels may use
_LDS_BYTES = 64 * 1024
_POISONED = [POISON] * (_LDS_BYTES // 4)
_ADDRESSES = (1 << 32) + (1 << 20)
_NO_RESERVE = 0x4000  # MAP_NORESERVE, which Python names since 3.13
_DYNAMIC_STACK_BYTES = 4096
_VCC = 106
_TURN = 4000  # instructions until the next wavefront's turn, so that one may wait for another
MOST_INSTRUCTIONS = 30_000_000
_END = 0xFFFFFFFFFFFFFFFF
_ADD_TID, _SWIZZLE = 1 << 23, 1 << 31


class WrongUseError(Exception):
    """A kernel did what a GPU leaves undefined, or ended with a trap. ``said`` is what had been printed."""

    said = ""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A launch: workgroups, and work-items of each, in three dimensions."""

    groups: tuple[int, int, int]
    items: tuple[int, int, int]
    dynamic_bytes: int = 0


@dataclass(kw_only=True)
class Wave:
    """A wavefront under way."""

    number: int
    registers: Any
    pointers: list[ctypes.c_uint64]
    scratch: Any
    done: bool = False
    waits: bool = False
    executed: int = 0


@dataclass(kw_only=True)
class Machine:
    """Runs kernels of one code object. ``seen`` counts instructions by name."""

    chip: str
    code: dict[int, Instruction] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    local: mmap.mmap | None = None

    @property
    def family(self) -> str:
        return emulator.FAMILIES[self.chip]

    def run(
        self, kernel: Kernel, arguments: int, packet: int, grid: Grid, *, backwards: bool = False
    ) -> None:
        """All workgroups, one after the other. ``arguments`` and ``packet`` are addresses."""
        lds_bytes = kernel.group_bytes + grid.dynamic_bytes
        if lds_bytes > _LDS_BYTES:
            raise WrongUseError(f"{lds_bytes} bytes of workgroup memory")
        groups = list(product(*(range(n) for n in reversed(grid.groups))))
        for z, y, x in reversed(groups) if backwards else groups:
            lds = self._local_memory()
            lds[:] = _POISONED
            waves = list(self._waves(kernel, arguments, packet, grid, (x, y, z), lds))
            try:
                self._workgroup(waves[::-1] if backwards else waves)
            except TrapError as error:
                raise WrongUseError(f"{error} in workgroup ({x}, {y}, {z})") from error
            beyond = -(-lds_bytes // 4)
            if any(word != POISON for word in lds[beyond:]):
                raise WrongUseError(f"workgroup memory behind its {lds_bytes} bytes was written")

    def _local_memory(self) -> Any:
        """Its first words. Behind them the emulator reads for lanes that are off, and drops what it read."""
        if self.local is None:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
            self.local = mmap.mmap(-1, _ADDRESSES, flags=flags)
        return (ctypes.c_uint32 * (_LDS_BYTES // 4)).from_buffer(self.local)

    def _workgroup(self, waves: list[Wave]) -> None:
        while not all(wave.done for wave in waves):
            for wave in waves:
                if not wave.done and not wave.waits:
                    self._turn(wave)
            if all(wave.done or wave.waits for wave in waves):
                for wave in waves:
                    wave.waits = False

    def _turn(self, wave: Wave) -> None:
        state, pointers, code, seen = wave.registers, wave.pointers, self.code, self.seen
        for _ in range(_TURN):
            pc = state.pc
            if pc == _END:
                wave.done = True
                return
            found = code.get(pc)
            if found is None:
                found = code[pc] = emulator.instruction(pc, self.chip)
            name = found.name
            seen[name] = seen.get(name, 0) + 1
            if found.sometimes is not None and found.sometimes(state, found.decoded):
                continue
            if found.action is None:
                found.run(*[pointers[n] for n in found.uses])
                continue
            after = found.action(state, found.decoded, self.chip)
            wave.waits = after is Next.WAITS
            if after is not Next.GOES_ON:
                return
        wave.executed += _TURN
        if wave.executed > MOST_INSTRUCTIONS:
            raise WrongUseError("the kernel does not end")

    def _waves(
        self, kernel: Kernel, arguments: int, packet: int, grid: Grid, group: tuple[int, ...], lds: Any
    ) -> Iterator[Wave]:
        lanes = kernel.lanes
        x, y, z = grid.items
        for number in range(-(-x * y * z // lanes)):
            first = number * lanes
            there = min(lanes, x * y * z - first)
            state = emulator.wave(there, lanes)
            _poison(state, lanes)
            scratch = _scratch(kernel, lanes)
            self._scalars(state, kernel, arguments, packet, group, ctypes.addressof(scratch))
            ids = kernel.rsrc2 >> 11 & 3
            for lane in range(there):
                item = first + lane
                # gfx90a and later, gfx11 and later: three ids of ten bits in one register.
                ix, iy, iz = item % x, item // x % y if ids > 0 else 0, item // x // y if ids > 1 else 0
                state._write_vgpr(0, lane, iz << 20 | iy << 10 | ix)
            state._write_sgpr(_stride_index(), _private_bytes(kernel))
            pointers = [
                state.sgpr_buf._buf.va_addr, state.vgpr_buf._buf.va_addr, 0, ctypes.addressof(lds),
                ctypes.addressof(scratch), state.accvgpr_buf._buf.va_addr,
            ]  # fmt: skip
            yield Wave(
                number=number,
                registers=state,
                scratch=scratch,
                pointers=[ctypes.c_uint64(p) for p in pointers],
            )

    def _scalars(
        self, state: Any, kernel: Kernel, arguments: int, packet: int, group: tuple[int, ...], scratch: int
    ) -> None:
        """User registers in the order of the properties' bits, then those of the system."""
        at = 0

        def put(*values: int) -> None:
            nonlocal at
            for value in values:
                state._write_sgpr(at, value)
                at += 1

        def put_address(value: int) -> None:
            put(value & 0xFFFFFFFF, value >> 32)

        wanted = kernel.properties
        if wanted & 1:  # private segment buffer: swizzled in words among 64 lanes
            put(scratch & 0xFFFFFFFF, scratch >> 32 | _SWIZZLE, 0xFFFFFFFF, _ADD_TID | 3 << 21 | 1 << 19)
        if wanted & 2:
            put_address(packet)
        if wanted & 4:
            put_address(_NO_QUEUE)
        if wanted & 8:
            put_address(arguments)
        if wanted & 16:
            put(0, 0)
        if wanted & 32:  # flat scratch: an address and a size, before architected ones
            put_address(scratch)
        if wanted & 64:
            put(_private_bytes(kernel))
        words, offset = kernel.preload & 127, kernel.preload >> 7
        put(*struct.unpack(f"<{words}I", ctypes.string_at(arguments + 4 * offset, 4 * words)))
        users = kernel.rsrc2 >> 1 & 31
        # gfx1100 needs sixteen set registers, also ones that the descriptor does not ask for
        # (UserSGPRInit16Bug of LLVM).
        if at != users and not (self.family == "rdna3" and users > at):
            raise WrongUseError(f"{kernel.name} asks for {at} user registers and tells {users}")
        at = users
        for axis in range(3):
            if kernel.rsrc2 >> (7 + axis) & 1:
                put(group[axis])
        if kernel.rsrc2 >> 10 & 1:
            put(0)
        if kernel.rsrc2 & 1 and wanted & 1:
            put(0)  # the wavefront's offset into scratch memory: each has its own here
        state.pc = kernel.entry


_NO_QUEUE = 0xBAD0_0000_0000


def _stride_index() -> int:
    return emulator._module().SCRATCH_STRIDE_IDX


def _poison(state: Any, lanes: int) -> None:
    for number in (*range(_SCALARS), _VCC, _VCC + 1):
        state._write_sgpr(number, POISON)
    for buffer in {id(b): b for b in (state.vgpr_buf, state.accvgpr_buf)}.values():
        words = (ctypes.c_uint32 * (_VECTORS * lanes)).from_address(buffer._buf.va_addr)
        words[:] = [POISON] * len(words)


def _private_bytes(kernel: Kernel) -> int:
    """Per work-item; more than was asked for where that is a lower bound."""
    return kernel.private_bytes + (_DYNAMIC_STACK_BYTES if kernel.properties >> 11 & 1 else 0)


def _scratch(kernel: Kernel, lanes: int) -> Any:
    words = max(_private_bytes(kernel) * lanes // 4, 1)
    return (ctypes.c_uint32 * words)(*[POISON] * words)
