"""What the harness itself knows of AMD's ABI and instructions; needs no emulator."""

from __future__ import annotations

import ctypes
import struct
from types import SimpleNamespace

import numpy as np
import pytest
from simulators.amd_code import multiply_add, special, vector_memory
from simulators.amd_code.code_object import CodeObject
from simulators.amd_code.launch import WrongUseError
from simulators.amd_code.runner import formats, kernel_arguments
from simulators.device_ir.test_amd import ASSERTION
from unit.engine.device_steps import compile_module, kernel

SIZES = "%b = gpu.block_dim y\n%g = gpu.grid_dim z\n%s = arith.addi %b, %g : index\n"
STORES = "%q = arith.index_cast %s : index to i32\n%p = arith.sitofp %q : i32 to f32\n"
STORES += "memref.store %p, %a[%s] : memref<?xf32>\n"


@pytest.mark.parametrize(("chip", "lanes"), [("gfx942", 64), ("gfx1100", 32)])
def test_a_code_object_is_what_a_loader_expects(chip: str, lanes: int) -> None:
    code = CodeObject.load(compile_module(kernel(SIZES + STORES + ASSERTION), chip, opt_level=1).object)
    found = code.kernels["f"]
    assert code.target.partition(":")[0] == chip and found.lanes == lanes
    assert code.base < found.entry < code.base + code.size
    assert "gpubuild_assertion_record" in code.symbols and len(formats(code.formats)) == 1
    values = [np.zeros(1, np.int64)] * 13 + [np.zeros(1, np.float32), np.array([7], np.int32)]
    with pytest.raises(WrongUseError, match="15 arguments, 14 were given"):
        kernel_arguments(found, values[1:], (1, 1, 1), (1, 1, 1), dynamic=0, messages=0)
    segment = bytes(kernel_arguments(found, values, (2, 3, 4), (5, 6, 7), dynamic=0, messages=0x1234))
    places = {argument.kind: argument.offset for argument in found.arguments}
    assert struct.unpack_from("<I", segment, 108) == (7,)
    assert struct.unpack_from("<I", segment, places["hidden_block_count_z"]) == (4,)
    assert struct.unpack_from("<H", segment, places["hidden_group_size_y"]) == (6,)
    assert struct.unpack_from("<Q", segment, places["hidden_printf_buffer"]) == (0x1234,)


class Registers:
    """As the emulator's: scalars, and vectors of a word for each lane."""

    def __init__(self, lanes: int, on: int) -> None:
        self.wave_size, self.pc = lanes, 0
        self.scalars = dict.fromkeys(range(256), 0) | {126: on & 0xFFFFFFFF, 127: on >> 32}
        self.words = np.zeros((256, lanes), np.uint32)
        self.vgpr_buf = SimpleNamespace(_buf=SimpleNamespace(va_addr=self.words.ctypes.data))

    def _read_sgpr(self, number: int) -> int:
        return self.scalars[number]

    def _read_vgpr(self, number: int, lane: int) -> int:
        return int(self.words[number, lane])


def register(number: int) -> SimpleNamespace:
    return SimpleNamespace(offset=number)


def instruction(name: str, **fields: object) -> SimpleNamespace:
    return SimpleNamespace(op=SimpleNamespace(name=name), size=lambda: 8, **fields)


def test_permutes_wrap_and_read_nothing_of_lanes_that_are_off() -> None:
    state = Registers(32, 0xFFFF)
    state.words[1], state.words[2] = np.arange(32) * 4 + 4 * 28, np.arange(32) + 100
    action = special.action_for("ds_bpermute_b32")
    action(state, instruction("DS_BPERMUTE_B32", addr=register(1), data0=register(2), vdst=register(3),
                              offset0=0, offset1=0), "gfx1100")  # fmt: skip
    assert state.words[3].tolist() == [0] * 4 + [*range(100, 112)] + [0] * 16


def test_scratch_of_gfx90a_is_swizzled_among_lanes() -> None:
    """Word 3 of lane 5 lies behind three words of 64 lanes and five of its own row."""
    memory = (ctypes.c_uint32 * (64 * 8))()
    state = Registers(64, 1 << 5)
    base = ctypes.addressof(memory)
    state.scalars |= {
        0: base & 0xFFFFFFFF,
        1: base >> 32 | 1 << 31,
        2: 0xFFFFFFFF,
        3: 1 << 23 | 3 << 21 | 1 << 19,
    }
    state.words[7] = 42
    fields = {"vdata": register(7), "vaddr": register(0), "srsrc": register(0), "soffset": register(128),
              "offset": 12, "offen": 0, "idxen": 0}  # fmt: skip
    special.action_for("buffer_store_dword")(state, instruction("BUFFER_STORE_DWORD", **fields), "gfx90a")
    assert [n for n, word in enumerate(memory) if word] == [3 * 64 + 5]


def test_compare_and_swap_takes_the_second_value_for_what_must_be_there() -> None:
    cell = np.array([11], np.uint64)
    state = Registers(64, 0b11)
    address = cell.ctypes.data
    state.words[0], state.words[1] = address & 0xFFFFFFFF, address >> 32
    state.words[2], state.words[4] = 22, 11
    done = vector_memory.handler_for("global_atomic_cmpswap_x2")(
        state, Memory(addr=register(0), data=register(2), vdst=register(6), offset=0, glc=1)
    )
    assert done and cell[0] == 22 and state.words[6, :2].tolist() == [11, 22]


class Memory(SimpleNamespace):
    """A decoded instruction whose offset has 13 bits."""

    offset = SimpleNamespace(hi=12, lo=0)

    def size(self) -> int:
        return 8


def test_multiply_add_of_gfx90a_rounds_twice_and_has_no_small_numbers() -> None:
    raw = struct.pack("<II", 0xD1C10006, 257 | 258 << 9 | 259 << 18)
    what, run = multiply_add.decoded(raw)
    state = Registers(64, 1)
    reals = state.words.view(np.float32)
    reals[1], reals[2], reals[3] = 1 + 2**-12, 1 + 2**-12, -(1 + 2**-11)
    run(state, what, "gfx90a")
    assert reals[6, 0] == 0
    reals[1], reals[2], reals[3] = 1e-30, 1e-10, 1
    run(state, what, "gfx90a")
    assert reals[6, 0] == 1
