"""Copies and fills of elements of any size and of memrefs with gaps, on every back end."""

import pytest
from unit.runtime.programs import Runtime

BEGIN = """
    rt.gpubuildMemset.argtypes = [P, P, P, c_int64, c_int64, P]
    rt.gpubuildMemcpy.argtypes = [P, P, P, c_int64, c_int64, P]
    def words(*values): return (c_int64 * max(1, len(values)))(*values)
    def set(address, element, sizes, strides):
        rt.gpubuildMemset(address, element, words(*sizes, *strides), len(sizes), len(element), stream)
    def copy(to, origin, sizes, to_strides, from_strides, bytes):
        rt.gpubuildMemcpy(to, origin, words(*sizes, *to_strides, *from_strides), len(sizes), bytes, stream)
    stream = mgpuStreamCreate()
    data = mgpuMemAlloc(64, stream, 1)
    mgpuMemset32(data, 0, 16, stream)
    def show(count):
        mgpuStreamSynchronize(stream)
        print(string_at(data, count).hex(), flush=True)
"""
DEVICES = [{"device": "cpu"}, {"cuda": "sm_90"}, {"hip": "gfx90a"}]


ELEMENTS = (
    "ab", "abcd", "aaaa", "01020304", "0102030405060708", "0102030401020304", "0102010201020102",
    "5555555555555555", "000102030405060708090a0b0c0d0e0f", "010203", "010203040506",
)  # fmt: skip


@pytest.mark.parametrize("device", DEVICES, ids=["cpu", "cuda", "hip"])
def test_elements_of_every_size(runtime: Runtime, device: dict[str, str]) -> None:
    fill = "    set(data, bytes.fromhex('{}'), [3], [1])\n    show(64)\n"
    ended = runtime.each([(BEGIN + fill.format(element), {}) for element in ELEMENTS], **device)
    assert [done.ok().out.decode().strip() for done in ended] == [(e * 3).ljust(128, "0") for e in ELEMENTS]


@pytest.mark.parametrize("device", DEVICES, ids=["cpu", "cuda", "hip"])
def test_gaps_and_any_order(runtime: Runtime, device: dict[str, str]) -> None:
    script = """
    set(data, b'\\x11', [2, 3], [8, 1])          # rows of 3 in rows of 8
    set(data + 16, b'\\x22', [2, 2], [1, 4])      # transposed
    set(data + 24, b'\\x33', [], [])              # one element
    set(data + 25, b'\\x44', [2, 1, 3], [3, 7, 1]) # 6 in one piece, whatever the stride of one
    set(data + 32, b'\\x55', [2, 0], [1, 1])      # nothing
    set(None, b'\\x55', [0], [1])
    set(data + 36, b'\\x66', [3], [-1])
    show(40)
    copy(data + 48, data, [3, 2], [2, 1], [1, 8], 1)
    show(56)
    """
    rows = "1111110000000000" * 2 + "2222000022220000" + "33" + "44" * 6 + "00" + "0000666666000000"
    lines = runtime.run(BEGIN + script, **device).ok().out.decode().split()
    assert lines == [rows, rows + "00" * 8 + "11" * 6 + "0000"]


def test_what_has_no_gaps_is_one_operation(runtime: Runtime) -> None:
    script = """
    other = mgpuMemAlloc(64, stream, 0)
    copy(other, data, [2, 3, 4], [12, 4, 1], [12, 4, 1], 2)
    copy(other, data, [2, 3, 4], [16, 4, 1], [12, 4, 1], 2)
    set(data, bytes(8), [2, 4], [4, 1])
    set(data, bytes(range(8)), [2, 4], [4, 1])
    set(data, bytes([1, 2, 3, 4, 5, 6]), [4], [1])
    rt.gpubuildStreamRelease.argtypes = [P]
    rt.gpubuildStreamRelease(stream)
    """
    calls = runtime.run(BEGIN + script, cuda="sm_90").ok().called("cuMemcpy", "cuMemset", "cuStreamDestroy")
    found = [" ".join(w for w in call.split() if "stream=" not in w and "ctx=" not in w) for call in calls]
    assert found[:-1] == [
        "cuMemsetD8Async 0x0 64",
        "cuMemcpyAsync 48",
        "cuMemcpyAsync 24",
        "cuMemcpyAsync 24",
        "cuMemsetD8Async 0x0 64",
        "cuMemsetD2D32Async 0x3020100 8 1x8",
        "cuMemsetD2D32Async 0x7060504 8 1x8",
        "cuMemsetD2D16Async 0x201 6 1x4",
        "cuMemsetD2D16Async 0x403 6 1x4",
        "cuMemsetD2D16Async 0x605 6 1x4",
    ]
    assert found[-1].startswith("cuStreamDestroy")


def test_no_address(runtime: Runtime) -> None:
    done = runtime.run(BEGIN + "\n    set(None, b'1', [1], [1])", device="cpu")
    assert done.code == 1
    assert "the address is NULL" in done.err
