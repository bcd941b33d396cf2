"""The Python module of a library: what its functions accept, refuse and return."""

from __future__ import annotations

import array
import os
import re
import resource
import shutil
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from e2e.command import ROOT, run_python, without_settings
from e2e.library_programs import SCALARS, build_library, functions, imported, word

SPIN = """\
func.func @spin(%n: index, %x: memref<1xi64>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %three = arith.constant 3 : i64
  scf.for %i = %c0 to %n step %c1 {
    %a = memref.load %x[%c0] : memref<1xi64>
    %b = arith.muli %a, %three : i64
    %d = arith.index_cast %i : index to i64
    %e = arith.xori %b, %d : i64
    memref.store %e, %x[%c0] : memref<1xi64>
  }
  return
}
"""
COPY_F8 = """\
func.func @copy(%x: memref<?xf8E5M2>, %y: memref<?xf8E5M2>) attributes {llvm.emit_c_interface} {
  memref.copy %x, %y : memref<?xf8E5M2> to memref<?xf8E5M2>
  return
}
"""
DTYPES = {
    "i1": ["bool"], "i8": ["int8", "uint8"], "i16": ["int16", "uint16"], "i32": ["int32", "uint32"],
    "i64": ["int64", "uint64"], "index": ["int64", "uint64"], "f16": ["float16"], "bf16": ["uint16"],
    "f32": ["float32"], "f64": ["float64"], "complex<f32>": ["complex64"], "complex<f64>": ["complex128"],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("module"), "lib", functions() + SPIN)


@pytest.fixture(scope="module")
def lib(folder: Path) -> Any:
    return imported(folder / "lib.py")


VALUES: dict[str, list[Any]] = {
    "i1": [True, False, np.True_, 0, -1],
    "i8": [-128, 127, np.int8(-3)],
    "i16": [-32768, 32767],
    "i32": [-(2**31), 2**31 - 1, np.int64(9)],
    "i64": [-(2**63), 2**63 - 1],
    "index": [-1, 0, 2**40],
    "f16": [1.5, -65504.0, 2.0**-24, np.inf, 0],
    "bf16": [1.5, -(2.0**127), 2.0**-130, np.inf, np.float32(0.5)],
    "f32": [0.5, -np.inf, 1e-45, 3],
    "f64": [0.1, -1e308, True],
    "complex<f32>": [1 - 2j, 3, 0.5],
    "complex<f64>": [0.1 + 1e300j, -1],
}


@pytest.mark.parametrize("element", SCALARS)
def test_scalars(lib: Any, element: str) -> None:
    echo = getattr(lib, f"echo_{word(element)}")
    for value in VALUES[element]:
        returned = echo(value)
        expected = np.float32(value) if element in ("f32", "bf16") else value
        assert returned == (bool(value) if element == "i1" else expected), value
    assert type(returned) is {"i1": bool, "f": float, "b": float, "c": complex}.get(
        element if element == "i1" else element[0], int
    )
    if element in ("f16", "bf16", "f32", "f64"):
        assert np.isnan(echo(float("nan")))
    with pytest.raises(TypeError, match=f"argument a: expected {re.escape(element)}, got str"):
        echo("1")
    with pytest.raises(TypeError, match="got list"):
        echo([1])
    if not element.startswith("complex"):
        with pytest.raises(OverflowError, match="argument a: .* does not fit"):
            echo(10**400)


def test_rounding_of_scalars(lib: Any) -> None:
    assert lib.echo_f16(2049.0) == 2048.0  # ties to even
    assert lib.echo_f16(2051.0) == 2052.0
    assert lib.echo_bf16(1 + 2**-8) == 1.0
    assert lib.echo_bf16(1 + 3 * 2**-8) == 1 + 2**-6
    assert lib.echo_bf16(3.4e38) == np.inf


@pytest.mark.parametrize(
    ("name", "value"),
    [("i8", 256), ("i8", -129), ("i32", 2**32), ("i64", 2**64), ("index", -(2**63) - 1), ("i1", 2)],
)
def test_integers_that_do_not_fit(lib: Any, name: str, value: int) -> None:
    with pytest.raises(OverflowError, match=f"{value} does not fit into {name}"):
        getattr(lib, f"echo_{name}")(value)
    with pytest.raises(TypeError, match="got float"):
        getattr(lib, f"echo_{name}")(1.0)


@pytest.mark.parametrize("element", SCALARS)
def test_arrays_of_each_type(lib: Any, element: str) -> None:
    copy = getattr(lib, f"copy_{word(element)}")
    random = np.random.default_rng(1)
    for name in DTYPES[element]:
        dtype = np.dtype(name)
        x = random.integers(0, 2 if name == "bool" else 100, 37).astype(dtype)
        y = np.zeros(37, dtype)
        assert copy(x, y) is None
        np.testing.assert_array_equal(x, y)
    for name in {d for names in DTYPES.values() for d in names} - set(DTYPES[element]):
        with pytest.raises(TypeError, match=f"expected an array of .* got {name}"):
            copy(np.zeros(3, name), np.zeros(3, DTYPES[element][0]))
    if dtype.itemsize > 1:
        with pytest.raises(TypeError, match="got >"):
            copy(x.astype(dtype.newbyteorder(">")), y)


@pytest.mark.parametrize("rank", range(5))
def test_ranks_and_views(lib: Any, rank: int) -> None:
    function = getattr(lib, f"rank_{rank}")
    base = np.arange(6**rank, dtype=np.float32).reshape((6,) * rank)
    views = {
        "whole": base,
        "fortran": base.copy(order="F"),
        "every other": base[(slice(None, None, 2),) * rank],
        "reversed": base[(slice(None, None, -1),) * rank],
        "inner": base[(slice(1, 4),) * rank],
        "empty": base[(slice(2, 2),) * rank] if rank else base,
        "broadcast": np.broadcast_to(np.float32(3), base.shape),
    }
    for name, x in views.items():
        out = np.full(x.shape, -1, np.float32)
        function(x, out)
        np.testing.assert_array_equal(out, x, name)
    target = np.zeros((12,) * rank, np.float32)
    if rank:
        into = target[(slice(None, None, 2),) * rank]
        function(base, into)
        np.testing.assert_array_equal(into, base)
        assert target.sum() == base.sum()
    for other in range(5):
        if other != rank:
            with pytest.raises(ValueError, match=f"argument x: expected {rank} dimensions? .* got {other}"):
                function(np.zeros((2,) * other, np.float32), out)


def test_layouts_and_sizes(lib: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    padded = np.arange(8, dtype=np.float32).reshape(2, 4)[:, :3]
    assert lib.sized(x, padded) == 4 + 5
    assert lib.sized(y=padded, x=x) == 9
    with pytest.raises(ValueError, match=r"argument y: expected stride 4 in dimension 0 for .*, got 3"):
        lib.sized(x, x)
    with pytest.raises(ValueError, match=r"argument x: expected size 2 in dimension 0 .*, got 3"):
        lib.sized(np.zeros((3, 3), np.float32), padded)
    with pytest.raises(ValueError, match="argument x: expected a contiguous array"):
        lib.sized(padded, padded)
    with pytest.raises(ValueError, match="expected a contiguous array"):
        lib.copy_f32(np.zeros(8, np.float32)[::2], np.zeros(4, np.float32))
    odd = np.frombuffer(bytearray(17), np.uint8)[1:].view(np.float32)
    with pytest.raises(ValueError, match="not aligned to 4 bytes"):
        lib.copy_f32(odd, np.zeros(4, np.float32))
    fields = np.zeros(4, [("a", "f4"), ("b", "u1")])["a"]
    with pytest.raises(ValueError, match=r"stride of 5 bytes is not a multiple of 4|not aligned"):
        lib.rank_1(fields, np.zeros(4, np.float32))


def test_read_only_arrays(lib: Any) -> None:
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    lib.copy_f32(x, y)
    np.testing.assert_array_equal(x, y)
    with pytest.raises(
        ValueError, match=r"copy_f32\(\): argument y: the array is read-only, and copy_f32 writes"
    ):
        lib.copy_f32(y, x)
    lib.copy_i8(b"abc", z := bytearray(3))
    assert z == b"abc"
    y = np.zeros(1, np.float32)
    lib.without_rank(x[:1], y)
    assert y[0] == 7
    with pytest.raises(ValueError, match="argument y: the array is read-only"):
        lib.without_rank(x[:1], x[:1])
    one, z = x[1:2].reshape(1, 1), np.zeros((1, 1), np.float32)
    lib.times(one, one, z)
    assert z == 1
    with pytest.raises(ValueError, match="argument z: the array is read-only"):
        lib.times(one, one, one)
    scalar = np.float32(3)
    lib.rank_0(scalar, y.reshape(()))
    assert y[0] == 3
    with pytest.raises(ValueError, match="argument y: the array is read-only"):
        lib.rank_0(scalar, scalar)


def test_small_floats_of_ml_dtypes(tmp_path: Path) -> None:
    kinds = pytest.importorskip("ml_dtypes")
    lib: Any = imported(build_library(tmp_path, "lib", COPY_F8) / "lib.py")
    x, y = np.arange(3).astype(kinds.float8_e5m2), np.zeros(3, kinds.float8_e5m2)
    lib.copy(x, y)
    np.testing.assert_array_equal(x.view(np.uint8), y.view(np.uint8))


class OnlyDlpack:
    """An array of another library: nothing but DLPack, on any device."""

    def __init__(self, content: np.ndarray[Any, Any], device: tuple[int, int] = (1, 0)) -> None:
        self.content, self.device = content, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        options.pop("stream", None)
        return self.content.__dlpack__(**options)


class OldDlpack(OnlyDlpack):
    """The protocol before versions."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.content.__dlpack__()


class OnlyInterface:
    """An array that has only ``__array_interface__``."""

    def __init__(self, content: np.ndarray[Any, Any]) -> None:
        self.__array_interface__ = content.__array_interface__
        self.content = content


def test_arrays_of_other_libraries(lib: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2]
    for kind in (OnlyDlpack, OldDlpack, OnlyInterface):
        y = np.zeros((3, 2), np.float32)
        lib.rank_2(kind(x), kind(y))
        np.testing.assert_array_equal(x, y)
    numbers = array.array("f", [1, 2, 3])
    lib.copy_f32(numbers, memoryview(y.reshape(-1)[:3]))
    assert list(y.reshape(-1)[:3]) == [1, 2, 3]
    with pytest.raises(TypeError, match="the array is on cuda:0, and the library runs on cpu"):
        lib.rank_2(OnlyDlpack(x, (2, 0)), y)
    with pytest.raises(TypeError, match="the array is on hip:1"):
        lib.rank_2(OnlyDlpack(x, (10, 1)), y)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        lib.rank_2(y, OnlyDlpack(x))
    for wrong in ([1.0], 1.0, None, "x"):
        with pytest.raises(TypeError, match="expected an array"):
            lib.rank_2(wrong, y)
    with pytest.raises(TypeError, match=r"rank_2\(\) takes 2 arguments, got 1"):
        lib.rank_2(y)
    with pytest.raises(TypeError, match=r"rank_2\(\): missing a required argument: 'y'"):
        lib.rank_2(x=y)


def test_results(lib: Any) -> None:
    first, flag, number, second = lib.fresh(5, -7)
    assert (flag, number, first.dtype, first.tolist()) == (True, 1.5 - 2j, np.int32, [-7] * 5)
    second[0] = 3
    assert first[0] == 3  # the same memory, freed once
    x = np.arange(4, dtype=np.float32)
    same = lib.same(x)
    assert same.ctypes.data == x.ctypes.data
    del x
    assert same.tolist() == [0, 1, 2, 3]
    constants = lib.constants()
    assert constants.tolist() == [1, -2, 3]
    assert not constants.flags.writeable
    assert lib.fresh(0, 1)[0].shape == (0,)
    b = np.array(2, np.float32)
    assert lib.mixed(1.5, b, 1 + 0.25j, -3, -4.0, True, 0.5, -7) == 1.5 + 2 + 0.25 - 3 - 4 + 1 + 0.5 - 7


def test_returned_memory_is_freed(lib: Any) -> None:
    lib.fresh(1 << 20, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        lib.fresh(1 << 20, 1)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # of 400 MiB


def test_module(lib: ModuleType) -> None:
    assert "sized" in lib.__all__
    assert lib.sized.__doc__.splitlines()[1] == "x: memref<2x3xf32>"
    assert "y: memref<?xf32>, written" in lib.copy_f32.__doc__
    with pytest.raises(AttributeError, match="vectors cannot be called from Python: it takes vector<4xf32>"):
        _ = lib.vectors
    with pytest.raises(
        AttributeError,
        match=r"unranked cannot be called .*: it takes memref<\*xf32>: write a function for each rank",
    ):
        _ = lib.unranked
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lib.nothing
    assert lib.library.device == "cpu"


def test_names(lib: ModuleType) -> None:
    """Names that are no identifiers, equal as identifiers, or names of Python or of the module."""
    assert (lib.a_b(0.5), lib.a_b_(-5), lib._1st(7), lib.max(1j, 3.0), lib.Stream_(4)) == (0.5, -5, 7, 3, 4)
    assert {"a_b", "a_b_", "_1st", "max", "Stream_"} <= set(lib.__all__)
    assert lib.library.functions["a-b"] is lib.a_b_


def test_the_page(tmp_path: Path) -> None:
    library = build_library(tmp_path, "saxpy", (ROOT / "examples" / "saxpy" / "saxpy.mlir").read_text())
    page = (ROOT / "docs" / "how-to" / "embedding.md").read_text()
    (block,) = (text for text in re.findall(r"```python\n(.*?)```", page, re.S) if "import saxpy" in text)
    code = block + "np.testing.assert_array_equal(y, 6 * x + 1)\n"
    variables = os.environ | {"GPUBUILD_DEVICE": "cpu", "PYTHONPATH": str(library)}
    run_python(code, env=variables)


def test_calls_release_the_gil(lib: Any) -> None:
    x = np.ones(1, np.int64)
    thread = threading.Thread(target=lib.spin, args=(300_000_000, x))
    thread.start()
    steps = 0
    while thread.is_alive() and steps < 5:
        time.sleep(0.001)
        steps += 1
    assert steps == 5
    assert x[0] == 1 or thread.is_alive()
    thread.join()


def test_calls_of_several_threads(lib: Any) -> None:
    wrong = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).random(257, np.float32)
        for _ in range(200):
            y = np.zeros(257, np.float32)
            lib.copy_f32(x, y)
            if not (x == y).all() or lib.fresh(3, seed)[0].tolist() != [seed] * 3:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_stale_module_is_an_import_error(folder: Path, tmp_path: Path) -> None:
    text = (
        "func.func @echo_i32(%a: i32) -> i64 attributes {llvm.emit_c_interface} {\n"
        "  %r = arith.extsi %a : i32 to i64\n  return %r : i64\n}\n"
    )
    other = build_library(tmp_path, "lib", text)
    assert imported(other / "lib.py").echo_i32(-3) == -3
    shutil.copy(folder / "lib.py", other / "lib.py")
    with pytest.raises(ImportError, match=r"liblib\.so has other functions than lib\.py describes"):
        imported(other / "lib.py")
    shutil.copy(folder / "lib.py", tmp_path)
    with pytest.raises(ImportError, match="cannot load the library of lib"):
        imported(tmp_path / "lib.py")


KEEPS = """\
gpu.module @m { gpu.func @k(%x: memref<1xi32>) kernel {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<1xi32>
  gpu.return
} }
"""


def test_a_module_that_does_not_know_of_a_write_is_an_import_error(tmp_path: Path) -> None:
    """It would not copy the memory back from a GPU."""
    older = build_library(tmp_path / "older", "lib", KEEPS)
    writes = KEEPS.replace("  gpu.return", "  memref.store %v, %x[%c0] : memref<1xi32>\n  gpu.return")
    newer = build_library(tmp_path / "newer", "lib", writes)
    shutil.copy(older / "lib.py", newer / "lib.py")
    with pytest.raises(ImportError, match=r"liblib\.so has other functions than lib\.py describes"):
        imported(newer / "lib.py")


FAILURE = """\
import sys
sys.path.insert(0, sys.argv[1])
import lib, numpy as np
x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
for _ in range(3):
    try:
        lib.scale(x, 2000)
    except lib.LibraryError as error:
        text = str(error)
        print(type(error).__name__, "2000 x 1 x 1 has more than 1024" in text, "kernel: k" in text)
lib.scale(x, 4)
print(x)
"""
SCALE = """\
module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @k(%x: memref<?xf32>) kernel {
      %i = gpu.thread_id x
      %v = memref.load %x[%i] : memref<?xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %x[%i] : memref<?xf32>
      gpu.return
    }
  }
  func.func @scale(%x: memref<?xf32>, %block: index) attributes {llvm.emit_c_interface} {
    %c1 = arith.constant 1 : index
    gpu.launch_func @m::@k blocks in (%c1, %c1, %c1) threads in (%block, %c1, %c1) args(%x : memref<?xf32>)
    return
  }
}
"""


KERNELS = """\
module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @add(%x: memref<?xf32, strided<[?], offset: ?>>, %a: f16, %flag: i1, %c: complex<f32>, %d: i8,
                  %y: memref<?xf32, #gpu.address_space<global>>, %z: memref<4xf32, 1>) kernel {
      %i = gpu.global_id x
      %v = memref.load %x[%i] : memref<?xf32, strided<[?], offset: ?>>
      %b = arith.extf %a : f16 to f32
      %im = complex.im %c : complex<f32>
      %e = arith.sitofp %d : i8 to f32
      %s = arith.addf %v, %b : f32
      %t = arith.addf %s, %im : f32
      %w = arith.addf %t, %e : f32
      memref.store %w, %y[%i] : memref<?xf32, #gpu.address_space<global>>
      scf.if %flag { memref.store %w, %z[%i] : memref<4xf32, 1> }
      gpu.return
    }
    gpu.func @lambda(%x: memref<?xi32>) kernel {
      %i = gpu.global_id x
      %v = memref.load %x[%i] : memref<?xi32>
      %w = arith.addi %v, %v : i32
      memref.store %w, %x[%i] : memref<?xi32>
      gpu.return
    }
    gpu.func @odd(%v: vector<2xf32>) kernel { gpu.return }
  }
}
"""


def test_launches_of_kernels(tmp_path: Path) -> None:
    lib: Any = imported(build_library(tmp_path, "lib", KERNELS) / "lib.py")
    assert lib.add is lib.m.add
    assert "m::lambda" in repr(lib.lambda_)
    x = np.arange(8, dtype=np.float32)[::-2]
    y, z = np.zeros(4, np.float32), np.zeros(4, np.float32)
    lib.add[1, 4](x, 0.5, True, 3 + 0.25j, -1, y, z)
    np.testing.assert_array_equal(y, x + 0.5 + 0.25 - 1)
    np.testing.assert_array_equal(y, z)
    x.flags.writeable = False
    lib.add[(2, 1, 1), [2]](x, 0, False, 0, 0, y, z)
    np.testing.assert_array_equal(y, x)
    numbers = np.arange(64, dtype=np.int32)
    with lib.library.stream() as stream:
        for _ in range(5):
            lib.m.kernels["lambda"][4, 16](numbers, stream=stream, shared=64)
    np.testing.assert_array_equal(numbers, np.arange(64) * 32)
    wrong = {
        "takes 7 arguments, got 1": lambda: lib.add[1, 4](x),
        "write add[grid, block](...)": lambda: lib.add[1](x),
        "add: write add[grid, block](...)": lambda: lib.add(x),
        "add[...]() got an unexpected keyword": lambda: lib.add[1, 4](x, size=4),
        "grid must be one to three numbers": lambda: lib.add[-1, 4](x),
        "grid must be one to three numbers, got 1844": lambda: lib.lambda_[2**64, 1](numbers),
        "block must be whole numbers, got 0.5": lambda: lib.lambda_[1, 0.5](numbers),
        "shared: 1099511627776 does not fit": lambda: lib.lambda_[1, 1](numbers, shared=2**40),
        "block must be one to three numbers": lambda: lib.add[1, (1, 1, 1, 1)](x),
        "argument y: the array is read-only": lambda: lib.add[1, 4](x, 0, True, 0, 0, x.view(), z),
        "argument z: expected size 4": lambda: lib.add[1, 4](x, 0, True, 0, 0, y, y[:3]),
        "an array of the host needs a stream": lambda: lib.lambda_[1, 1](numbers, stream=1234),
        "a workgroup of 2000 x 1 x 1 has more": lambda: lib.lambda_[1, 2000](numbers),
        "it takes vector<2xf32>": lambda: lib.odd,
        "has no kernel 'none'": lambda: lib.m.none,
    }
    for message, call in wrong.items():
        kinds = (TypeError, ValueError, OverflowError, lib.LibraryError, AttributeError)
        with pytest.raises(kinds, match=re.escape(message)):
            call()
    lib.lambda_[1, 64](numbers)
    np.testing.assert_array_equal(numbers, np.arange(64) * 64)


def test_failures_are_exceptions(tmp_path: Path) -> None:
    library = build_library(tmp_path, "lib", SCALE)
    environment = without_settings()

    def run(**more: str) -> list[str]:
        done = run_python(FAILURE, str(library), env=environment | more)
        assert done.err == ""
        return done.out.splitlines()

    assert run() == ["LibraryError True True"] * 3 + ["[2. 2. 2. 2.]"]
    code = FAILURE.replace("print(type(error).__name__", "print(text.splitlines()[0]").replace(
        "lib.scale(x, 4)", ""
    )
    done = run_python(code, str(library), env=environment | {"GPUBUILD_DEVICE": "hip"})
    assert done.out.count("cannot run on the device that GPUBUILD_DEVICE asks for (hip)") == 3
