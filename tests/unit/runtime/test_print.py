"""Print, verify and copy functions against MLIR's own runner libraries, byte for byte."""

# ruff: noqa: E501  (programs inside strings are not broken for width)

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from unit.runtime.programs import Runtime, sanitizer_environment, upstreams_libraries

np = pytest.importorskip("numpy")

# Runs in a child with numpy. `call(library, name, *arrays)` passes unranked descriptors.
HARNESS = """
import ctypes, sys
from ctypes import *
import numpy as np
rt = CDLL(sys.argv[1])
libraries = [CDLL(path, RTLD_GLOBAL) for path in sys.argv[2:]]
def upstream(name):
    for library in libraries:
        if hasattr(library, name):
            return getattr(library, name)
    raise AttributeError(name)
def ours(name):
    return getattr(rt, name)
class Unranked(Structure):
    _fields_ = [('rank', c_int64), ('descriptor', c_void_p)]
kept = []
def descriptor(array, offset=0, item=None, start=None):
    item = item or array.itemsize
    start = array.ctypes.data if start is None else start
    words = [start, start, offset, *array.shape, *(s // item for s in array.strides)]
    kept.append((array, (c_int64 * len(words))(*words)))
    return kept[-1][1]
def unranked(array, **how):
    d = descriptor(array, **how)
    kept.append(Unranked(array.ndim, addressof(d)))
    return byref(kept[-1])
"""


@pytest.fixture(scope="module")
def upstream() -> list[Path]:
    return upstreams_libraries("float16_utils", "runner_utils", "c_runner_utils")


def run(runtime: Runtime, upstream: list[Path], script: str, which: str) -> tuple[bytes, bytes]:
    body = HARNESS + f"get = {which}\n" + textwrap.dedent(script) + "\nCDLL(None).fflush(None)\n"
    done = subprocess.run(
        [sys.executable, "-c", body, runtime.library, *upstream],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, **sanitizer_environment()},
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, done.stderr


def addresses_hidden(text: bytes) -> bytes:
    return re.sub(rb"base@ = 0x[0-9a-f]+", b"base@ = 0x-", text)


def same(runtime: Runtime, upstream: list[Path], script: str) -> tuple[bytes, bytes]:
    """What both print; fails where they differ."""
    mine = tuple(map(addresses_hidden, run(runtime, upstream, script, "ours")))
    theirs = tuple(map(addresses_hidden, run(runtime, upstream, script, "upstream")))
    assert mine == theirs
    assert mine != (b"", b"")
    return mine[0], mine[1]


TYPES = {
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "Ind": "uint64", "F16": "float16", "BF16": "uint16",
    "F32": "float32", "F64": "float64", "C32": "complex64", "C64": "complex128",
}  # fmt: skip


def test_print_every_type_and_shape(runtime: Runtime, upstream: list[Path]) -> None:
    script = f"""
        shapes = [(), (1,), (2,), (3,), (16,), (1, 1), (1, 5), (5, 1), (2, 2), (3, 4), (2, 3, 4), (1, 1, 3), (3, 1, 1),
                  (2, 2, 2, 2), (1, 2, 1, 2), (2, 1, 3, 1, 2), (2, 2, 2, 2, 2, 2)]
        for name, dtype in {TYPES}.items():
            show = get(f'_mlir_ciface_printMemref{{name}}')
            random = np.random.default_rng(7)
            pool = random.integers(0, 256, 64 * 1024, dtype=np.uint8).view(dtype).copy()
            pool[:16] = np.arange(16).astype(dtype)
            for shape in shapes:
                size = int(np.prod(shape))
                array = pool[:size].reshape(shape)
                show(unranked(array))
                show(unranked(pool[100:100 + size].reshape(shape)))
                if len(shape) > 1:
                    show(unranked(array.T))
                    show(unranked(array[::-1], offset=0))
                show(unranked(array, offset=5))
    """
    out, _ = same(runtime, upstream, script)
    assert out.count(b"Unranked Memref base@") == len(TYPES) * (17 * 3 + 12 * 2)


def test_print_shapes_and_by_value(runtime: Runtime, upstream: list[Path]) -> None:
    script = f"""
        types = {TYPES}
        for name in ['I8', 'I32', 'I64', 'F32', 'F64', 'C32', 'C64', 'Ind']:
            show = get(f'_mlir_ciface_printMemrefShape{{name}}')
            for shape in [(), (3,), (2, 3), (0, 4), (2, 0, 5)]:
                show(unranked(np.zeros(shape, types[name])))
            show(unranked(np.zeros((2, 3), types[name]), offset=-7, start=0))
            if name != 'I8':
                array = np.arange(6).astype(types[name]).reshape(2, 3)
                get(f'printMemref{{name}}')(c_int64(2), descriptor(array))
    """
    out, _ = same(runtime, upstream, script)
    assert out.count(b"sizes = [2, 0, 5] strides = [") == out.count(b"base@ = 0 rank = 2 offset = -7") == 8


def test_print_ranked(runtime: Runtime, upstream: list[Path]) -> None:
    script = """
        for rank, name, dtype in [(0, 'F32', 'float32'), (1, 'F32', 'float32'), (2, 'F32', 'float32'), (3, 'F32', 'float32'),
                                  (4, 'F32', 'float32'), (1, 'I8', 'int8'), (1, 'I32', 'int32'), (1, 'I64', 'int64'),
                                  (1, 'Ind', 'uint64'), (1, 'F64', 'float64'), (1, 'C32', 'complex64'), (1, 'C64', 'complex128')]:
            array = (np.arange(3 ** rank) - 2).astype(dtype).reshape((3,) * rank)
            get(f'_mlir_ciface_printMemref{rank}d{name}')(descriptor(array))
        array = np.arange(2 * 3 * 16, dtype=np.float32).reshape(2, 3, 16) / 3
        words = (c_int64 * 7)(array.ctypes.data, array.ctypes.data, 0, 2, 3, 3, 1)
        get('_mlir_ciface_printMemrefVector4x4xf32')(words)
    """
    out, _ = same(runtime, upstream, script)
    assert out.count(b"Memref base@") == 13
    empty = "get('_mlir_ciface_printMemrefF32')(unranked(np.zeros({}, 'float32'), start=0));"
    out, _ = run(runtime, upstream, empty.format("(0,)") + empty.format("(2, 0)"), "ours")
    lines = out.decode().splitlines()
    assert lines[1:] == ["[]", lines[2], "[[], ", " []]"], "memrefs without elements print none"


def test_print_scalars(runtime: Runtime, upstream: list[Path]) -> None:
    script = """
        numbers = [0.0, -0.0, 1 / 3, 1e30, 1e-30, 123456789.0, float('nan'), -float('nan'), float('inf'), -float('inf'), 100000.0, 1e6]
        get('printOpen')()
        for n in numbers:
            get('printF32')(c_float(n if abs(n) < 1e38 or n != n or n in (float('inf'), -float('inf')) else 0))
            get('printComma')()
            get('printF64')(c_double(n))
            get('printNewline')()
        get('printClose')()
        for i in [0, -1, 2**63 - 1, -2**63]:
            get('printI64')(c_int64(i))
            get('printU64')(c_uint64(i))
        get('printString')(b'text with %d in it')
        get('printFlops')(c_double(3.5e9))
    """
    out, err = same(runtime, upstream, script)
    assert b"text with %d in it" in out
    assert err == b"3.500000 GFLOPS\n"


def test_print_half_precision(runtime: Runtime, upstream: list[Path]) -> None:
    """Values of every exponent; what lies above the 16 bits of the argument does not count."""
    for name in ("printF16", "printBF16"):
        script = f"for i in range(0, 65536, 11): get('{name}')(c_uint32(i)); get('printNewline')()"
        mine, _ = run(runtime, upstream, script, "ours")
        # Upstream prints numbers and line ends through two buffers, so the numbers are compared without line ends.
        theirs, _ = run(
            runtime, upstream, f"for i in range(0, 65536, 11): get('{name}')(c_uint32(i))", "upstream"
        )
        assert mine.replace(b"\n", b"") == theirs
    mine, _ = run(runtime, upstream, "get('printF16')(c_uint32(0xabcd3c00))", "ours")
    assert mine == b"1"


def test_verify(runtime: Runtime, upstream: list[Path]) -> None:
    script = f"""
        def report(verify, *arrays):
            print(verify(*[unranked(x) for x in arrays]), flush=True)
        for name, dtype in {TYPES}.items():
            a = (np.arange(60) % 50).astype(dtype).reshape(3, 4, 5)
            b = a.copy()
            b[1, 2, 3] = b[2, 0, 0] = 77
            verify = get(f'_mlir_ciface_verifyMemRef{{name}}')
            verify.restype = c_int64
            for arrays in ((a, a), (a, b), (b.T, a.T), (a, np.ones_like(a)), (a, a[:2]), (a, a[0])):
                report(verify, *arrays)
        for name, dtype, epsilon in [('F32', 'float32', 1e-6), ('F64', 'float64', 1e-12)]:
            a = np.full(6, 100, dtype)
            b = a * np.array([1, 1 + epsilon * 0.5, 1 + epsilon * 2, np.nan, np.inf, 1], dtype)
            verify = get(f'_mlir_ciface_verifyMemRef{{name}}')
            report(verify, a, b)
            report(verify, b, b)
    """
    out, err = same(runtime, upstream, script)
    found = [int(number) for number in out.split()]
    for start in range(0, 6 * len(TYPES), 6):
        same_arrays, two_differ, transposed, _, *other_shapes = found[start : start + 6]
        assert (same_arrays, two_differ, transposed, other_shapes) == (0, 2, 2, [-1, -1])
    assert found[6 * len(TYPES) :] == [3, 2, 3, 2]
    assert err.count(b" != ") >= 14 * len(TYPES)
    own_strides = """
        a = np.arange(12, dtype=np.float32).reshape(3, 4)
        verify = get('_mlir_ciface_verifyMemRefF32')
        verify.restype = c_int64
        print(verify(unranked(a), unranked(np.asfortranarray(a))), flush=True)
    """
    assert (
        run(runtime, upstream, own_strides, "ours")[0] == b"0\n"
    )  # upstream walks both by those of the first


def test_copy(runtime: Runtime, upstream: list[Path]) -> None:
    script = """
        random = np.random.default_rng(3)
        for shape in [(), (5,), (3, 4), (2, 3, 4), (0, 3), (2, 1, 3, 2)]:
            for dtype in ['int8', 'int16', 'float32', 'complex128']:
                source = random.integers(-100, 100, shape).astype(dtype)
                for s, t in [(source, np.zeros_like(source)), (source.T, np.zeros(source.T.shape, dtype)),
                             (source, np.zeros_like(source.T).T), (source, np.zeros((*shape, 2), dtype)[..., 1])]:
                    if s.ndim == 0:
                        t = np.zeros((), dtype)
                    get('memrefCopy')(c_int64(s.itemsize), unranked(s), unranked(t))
                    assert np.array_equal(s, t), (shape, dtype)
        target = np.zeros(8, 'int32')
        get('memrefCopy')(c_int64(4), unranked(np.arange(8, dtype='int32')[:4], offset=2), unranked(target[:4], offset=3))
        print(target.tolist(), flush=True)
    """
    out, _ = same(runtime, upstream, script)
    assert out == b"[0, 0, 0, 2, 3, 4, 5, 0]\n"


def test_clocks_and_aligned_memory(runtime: Runtime, upstream: list[Path]) -> None:
    script = """
        import time
        get('rtclock').restype = c_double
        get('_mlir_ciface_nanoTime').restype = c_int64
        first = get('_mlir_ciface_nanoTime')()
        print(abs(get('rtclock')() - time.time()) < 60, get('_mlir_ciface_nanoTime')() >= first)
        for prefix in ('_mlir_memref_to_llvm_aligned_alloc', 'mlirAlignedAlloc'):
            allocate = get(prefix)
            allocate.restype, allocate.argtypes = c_void_p, [c_uint64, c_uint64]
            for alignment in (1, 8, 64, 4096):
                address = allocate(alignment, 100)
                memset(address, 1, 100)
                print(address % alignment, end=' ')
                get('mlirAlignedFree')(c_void_p(address))
    """
    clocks, *misaligned = run(runtime, upstream, script, "ours")[0].splitlines()
    assert (clocks, misaligned[0].split()) == (b"True True", [b"0"] * 8)


def test_output_that_cannot_be_written_is_fatal(runtime: Runtime) -> None:
    script = """
        os.dup2(os.open('/dev/full', os.O_WRONLY), 1)
        data = (c_float * 2)(1, 2)
        words = memref(addressof(data), 0, [2], [1])
        rt._mlir_ciface_printMemref1dF32(words)
    """
    done = runtime.run(script)
    assert (done.code, "gpubuild: cannot write to standard output" in done.err) == (1, True)


def test_conversion_to_bf16(runtime: Runtime, upstream: list[Path]) -> None:
    """Random, tied, huge, tiny and special values; doubles that a rounding through float would get wrong."""
    script = """
        random = np.random.default_rng(11)
        floats = random.integers(0, 2**32, 2000, dtype=np.uint32)
        floats = floats[np.isfinite(floats.view(np.float32))]
        ties = (random.integers(0, 0x7f80, 500, dtype=np.uint32) << 16) | 0x8000
        edges = np.array([0, 0x80000000, 0x7f800000, 0xff800000, 0x7f7fffff, 1, 0x8000, 0x18000, 0x7fc00000], np.uint32)
        narrow, wide = get('__truncsfbf2'), get('__truncdfbf2')
        narrow.restype = wide.restype = c_float
        def bits(x):
            return np.float32(x).view(np.uint32) & 0xffff
        for values in (floats, ties, edges):
            for v in values.view(np.float32):
                print(bits(narrow(c_float(v))), bits(wide(c_double(float(v)))), end=' ')
        print()
        beside = [(t, float(np.uint32(t).view(np.float32))) for t in ties if t >= 0x800000]
        above = all(bits(wide(c_double(v * (1 + 2.0**-40)))) == (t >> 16) + 1 for t, v in beside)
        below = all(bits(wide(c_double(v * (1 - 2.0**-40)))) == t >> 16 for t, v in beside)
        print(above, below, bits(wide(c_double(1e300))), bits(wide(c_double(-1e300))), bits(wide(c_double(1e-300))))
    """
    mine, ours = run(runtime, upstream, script, "ours")[0].splitlines()
    theirs = run(runtime, upstream, script, "upstream")[0].splitlines()[0]
    assert mine == theirs
    assert ours == b"True True 32640 65408 0"  # where upstream rounds twice
