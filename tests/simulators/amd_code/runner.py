"""Runner: kernels of a code object launched as HIP does it, by tinygrad's emulator."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from simulators.amd_code.code_object import Argument, CodeObject, Kernel
from simulators.amd_code.launch import Grid, Machine, WrongUseError
from simulators.device_ir import amd
from simulators.device_ir.runner import Guarded, three

_POISON_BYTE = 0xA5
_BEYOND_BYTES = 256
_HEAD_BYTES = 8


@dataclass(frozen=True, kw_only=True)
class CodeModule:
    """A module's kernels. Make and use it in a child: wrong code may end the process."""

    chip: str
    code: CodeObject
    machine: Machine

    @classmethod
    def load(cls, data: bytes, chip: str) -> CodeModule:
        """``data`` is the code object of a compile step for ``chip``."""
        code = CodeObject.load(data)
        if code.target.partition(":")[0] != chip:
            raise ValueError(f"the code object is for {code.target}")
        return cls(chip=chip, code=code, machine=Machine(chip=chip))

    def launch(
        self,
        name: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *values: Any,
        dynamic: int = 0,
        cluster: int | Sequence[int] = 1,
        backwards: bool = False,
    ) -> str:
        """Run kernel ``name``; what it printed. Arrays are memref descriptors, and changed.

        Raises :class:`WrongUseError`, and ``NotImplementedError`` for what the emulator lacks.
        """
        kernel = self.code.kernels[name]
        groups, items = three(grid), three(block)
        if int(np.prod(items)) > kernel.metadata[".max_flat_workgroup_size"]:
            raise WrongUseError(f"{name} does not allow workgroups of {items}")
        memory = Guarded([v for v in values if isinstance(v, np.ndarray)])
        explicit = memory.arguments(values)
        messages = (ctypes.c_uint8 * (_HEAD_BYTES + amd.MESSAGE_ROOM))()
        struct.pack_into("<2I", messages, 0, 0, amd.MESSAGE_ROOM)
        segment = kernel_arguments(
            kernel, explicit, groups, items, dynamic=dynamic, messages=ctypes.addressof(messages)
        )
        before = bytes(segment)
        packet = _packet(kernel, groups, items, dynamic, ctypes.addressof(segment))
        launch = Grid(groups=groups, items=items, dynamic_bytes=dynamic)
        try:
            self.machine.run(
                kernel, ctypes.addressof(segment), ctypes.addressof(packet), launch, backwards=backwards
            )
        except WrongUseError as error:
            error.said = self._said(messages)
            raise
        if bytes(segment) != before:
            raise WrongUseError("the kernel wrote into its arguments")
        memory.copy_back()
        return self._said(messages)

    def _said(self, messages: Any) -> str:
        (used,) = struct.unpack_from("<I", messages, 0)
        return "".join(
            amd.read_messages(bytes(messages)[_HEAD_BYTES : _HEAD_BYTES + used], formats(self.code.formats))
        )


def formats(entries: Sequence[str]) -> Mapping[int, str]:
    """``amdhsa.printf`` of a code object, as HIP's runtime reads it."""
    quoted = ", ".join(f"!{n}" for n in range(len(entries)))
    text = "".join(f'!{n} = !{{!"{_quoted(entry)}"}}\n' for n, entry in enumerate(entries))
    return amd.formats_of(f"!llvm.printf.fmts = !{{{quoted}}}\n{text}")


def _quoted(text: str) -> str:
    return re.sub(r"[^ !#-\[\]-~]", lambda m: "".join(f"\\{b:02X}" for b in m[0].encode()), text)


def kernel_arguments(
    kernel: Kernel,
    explicit: Sequence[np.ndarray],
    groups: Sequence[int],
    items: Sequence[int],
    *,
    dynamic: int,
    messages: int,
) -> Any:
    """The kernarg segment, as the metadata asks for it; the rest is poison."""
    segment = _aligned(kernel.kernarg_bytes + _BEYOND_BYTES)
    ctypes.memset(segment, _POISON_BYTE, len(segment))
    given = [a for a in kernel.arguments if not a.kind.startswith("hidden_")]
    if len(given) != len(explicit):
        raise WrongUseError(f"{kernel.name} has {len(given)} arguments, {len(explicit)} were given")
    hidden = _hidden(groups, items, dynamic, messages)
    for argument, value in zip(given, explicit, strict=True):
        _put(segment, kernel, argument, value.tobytes())
    for argument in kernel.arguments:
        if argument.kind in hidden:
            _put(segment, kernel, argument, hidden[argument.kind].to_bytes(argument.size, "little"))
        elif argument.kind.startswith("hidden_") and argument.kind not in _NO_NUMBERS:
            raise WrongUseError(f"{kernel.name} asks for {argument.kind}")
    return segment


# HIP has values for them, which no kernel of ours may use.
_NO_NUMBERS = frozenset(
    f"hidden_{name}" for name in ("hostcall_buffer", "multigrid_sync_arg", "heap_v1", "default_queue",
                                  "completion_action", "queue_ptr", "none")
)  # fmt: skip


def _hidden(groups: Sequence[int], items: Sequence[int], dynamic: int, messages: int) -> Mapping[str, int]:
    found = {
        "hidden_grid_dims": 3,
        "hidden_printf_buffer": messages,
        "hidden_dynamic_lds_size": dynamic,
    }
    for axis, letter in enumerate("xyz"):
        found[f"hidden_block_count_{letter}"] = groups[axis]
        found[f"hidden_group_size_{letter}"] = items[axis]
        found[f"hidden_remainder_{letter}"] = 0
        found[f"hidden_global_offset_{letter}"] = 0
    return found


def _put(segment: Any, kernel: Kernel, argument: Argument, data: bytes) -> None:
    if len(data) != argument.size:
        raise WrongUseError(
            f"{kernel.name}: {argument.kind} has {argument.size} bytes, {len(data)} were given"
        )
    if argument.offset + argument.size > kernel.kernarg_bytes:
        raise WrongUseError(f"{kernel.name}: {argument.kind} lies behind the segment")
    ctypes.memmove(ctypes.addressof(segment) + argument.offset, data, len(data))


def _aligned(size: int, alignment: int = 64) -> Any:
    room = (ctypes.c_uint8 * (size + alignment))()
    start = -ctypes.addressof(room) % alignment
    found = (ctypes.c_uint8 * size).from_buffer(room, start)
    found._room = room
    return found


def _packet(kernel: Kernel, groups: Sequence[int], items: Sequence[int], dynamic: int, arguments: int) -> Any:
    """hsa_kernel_dispatch_packet_t."""
    grid = [g * i for g, i in zip(groups, items, strict=True)]
    data = struct.pack(
        "<2H3HH3I2IQQQQ", 0, 3, *items, 0, *grid, kernel.private_bytes, kernel.group_bytes + dynamic,
        kernel.entry, arguments, 0, 0,
    )  # fmt: skip
    packet = _aligned(64)
    ctypes.memmove(packet, data, len(data))
    return packet
