"""gpubuild.load: what it compiles, calls and refuses, on the CPU and on the stand-in of the CUDA driver."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from e2e.command import ROOT, run_python, shared_cache
from simulators.cuda_driver import standin

import gpubuild
from gpubuild.errors import GpubuildError, StepError, UsageError

SAXPY = ROOT / "examples" / "saxpy" / "saxpy.mlir"
ADD = """\
gpu.module @m {{
  gpu.func @add(%x: memref<?xi32, strided<[?], offset: ?>>, %y: memref<?xi32>) kernel {{
    %c = arith.constant {number} : i32
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xi32, strided<[?], offset: ?>>
    %w = arith.addi %v, %c : i32
    memref.store %w, %y[%i] : memref<?xi32>
    gpu.return
  }}
}}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shared_cache().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user-cache"))


def test_a_file() -> None:
    module = gpubuild.load(SAXPY)
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    module.saxpy(2.0, x, y)
    np.testing.assert_array_equal(y, 2 * x + 1)
    module.saxpy_kernels.saxpy[4, 256](1000, -2.0, x, y)
    assert (y == 1).all()
    with module.stream() as stream:
        module.saxpy_kernels.saxpy[4, 256](1000, 1.0, x, y, stream=stream)
        module.saxpy_kernels.saxpy[4, 256](1000, 1.0, x, y, stream=stream)
    np.testing.assert_array_equal(y, 2 * x + 1)
    assert module.device == "cpu"
    assert repr(module) == "<gpubuild module saxpy: saxpy, saxpy_kernels>"
    assert "saxpy" in dir(module)
    assert module["saxpy"] is module.saxpy
    with pytest.raises(KeyError):
        module["device"]
    html = module._repr_html_()
    assert "<td>saxpy_kernels.saxpy</td><td>(index, f32, memref&lt;?xf32&gt;, memref" in html
    assert "<th>tier</th>" in html
    assert "<td>saxpy/compile/saxpy_kernels/cpu</td>" in module.report._repr_html_()
    assert (module.path.parent / "saxpy.h").is_file()
    again = gpubuild.load(SAXPY)
    assert again.path == module.path
    assert {str(step.status) for step in again.report.steps} == {"up-to-date"}


def test_a_text_and_edits(tmp_path: Path) -> None:
    file = tmp_path / "odd name.mlir"
    x, y = np.arange(3, dtype=np.int32), np.zeros(3, np.int32)
    for number in (1, 5, 1):
        file.write_text(ADD.format(number=number))
        for module in (gpubuild.load(file), gpubuild.load(text=ADD.format(number=number))):
            module.add[3, 1](x[::-1], y)
            np.testing.assert_array_equal(y, x[::-1] + number)


def test_an_assertion_of_host_code_is_an_exception() -> None:
    text = """\
func.func @small(%n: index) attributes {llvm.emit_c_interface} {
  %limit = arith.constant 4 : index
  %ok = arith.cmpi ult, %n, %limit : index
  cf.assert %ok, "not \\22small\\22: 100 %d"
  return
}
"""
    module = gpubuild.load(text=text)
    module.small(3)
    with pytest.raises(RuntimeError) as caught:
        module.small(4)
    assert 'assertion failed: not "small": 100 %d' in str(caught.value)
    assert "module.mlir:4:3 (cf.assert in @small)" in str(caught.value)
    module.small(0)


def test_quotients_of_more_than_64_bits_in_host_code() -> None:
    module = gpubuild.load(
        text="""
          func.func @floor(%m: memref<?xi64>) attributes {llvm.emit_c_interface} {
            %c0 = arith.constant 0 : index
            %c1 = arith.constant 1 : index
            %bits = arith.constant 64 : i100
            %a = memref.load %m[%c0] : memref<?xi64>
            %b = memref.load %m[%c1] : memref<?xi64>
            %x = arith.extsi %a : i64 to i100
            %y = arith.extsi %b : i64 to i100
            %f = arith.floordivsi %x, %y : i100
            %high = arith.shrsi %f, %bits : i100
            %p = arith.trunci %f : i100 to i64
            %q = arith.trunci %high : i100 to i64
            memref.store %p, %m[%c0] : memref<?xi64>
            memref.store %q, %m[%c1] : memref<?xi64>
            return
          }"""
    )
    for a, b in ((7, -2), (-7, 2), (-7, -2), (6, -2)):
        numbers = np.array([a, b])
        module.floor(numbers)
        assert list(numbers) == [a // b, (a // b) >> 64], (a, b)


def test_targets_and_passes() -> None:
    loop = """func.func @twice(%x: memref<?xf32>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %x, %c0 : memref<?xf32>
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %x[%i] : memref<?xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %x[%i] : memref<?xf32>
  }
  return
}
"""
    passes = "builtin.module(func.func(gpu-map-parallel-loops,convert-parallel-loops-to-gpu))"
    targets = {"fast": {"kind": "cpu", "chip": "native", "fast_math": True}, "sm_70": {}}
    module = gpubuild.load(text=loop, passes=passes, targets=targets, opt_level=2)
    x = np.arange(5, dtype=np.float32)
    module.twice(x)
    np.testing.assert_array_equal(x, 2 * np.arange(5))
    assert [step.target for step in module.report.steps if step.target] == ["fast", "sm_70"]


def test_tensors() -> None:
    text = """func.func @product(%a: tensor<?x3xf32>, %b: tensor<3x4xf32>, %c: tensor<?x4xf32>)
    -> tensor<?x4xf32> attributes {llvm.emit_c_interface} {
  %sum = linalg.matmul ins(%a, %b : tensor<?x3xf32>, tensor<3x4xf32>)
      outs(%c : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %sum : tensor<?x4xf32>
}
"""
    a, b, c = (
        np.arange(count, dtype=np.float32).reshape(-1, width) for count, width in ((6, 3), (12, 4), (8, 4))
    )
    result = np.zeros_like(c)
    gpubuild.load(text=text, pipeline="linalg").product(a, b, c, result)
    np.testing.assert_array_equal(result, a @ b + c)
    with pytest.raises(GpubuildError, match="linalg, tosa"):
        gpubuild.load(text=text, pipeline="torch")


def test_errors(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="takes a file or text="):
        gpubuild.load()
    with pytest.raises(TypeError, match=r"\['cpu'\]"):
        gpubuild.load(SAXPY, targets="cpu")
    with pytest.raises(UsageError, match="there is no file"):
        gpubuild.load(tmp_path / "none.mlir")
    with pytest.raises(UsageError, match="not an .mlir file"):
        gpubuild.load(Path(__file__))
    with pytest.raises(UsageError, match="sm_1"):
        gpubuild.load(SAXPY, targets=["sm_1"])
    with pytest.raises(StepError, match="invalid MLIR") as caught:
        gpubuild.load(text="func.func @f( {\n")
    assert "module.mlir:1:" in caught.value.render()
    with pytest.raises(GpubuildError, match="nothing to call|would export no function"):
        gpubuild.load(text="func.func @f() { return }")


ON_CUDA = """\
import ctypes, sys
import numpy as np, gpubuild
module = gpubuild.load(text=open(sys.argv[1]).read(), targets=["sm_60"])
assert module.device == "cuda:0", module.device
x, y = np.arange(64, dtype=np.int32), np.zeros(8, np.int32)
module.add[2, 4](x[::-3][:8], y)
np.testing.assert_array_equal(y, x[::-3][:8] + 7)
with module.stream() as stream:
    module.add[2, 4](y, y, stream=stream)
    module.add[2, 4](y, y, stream=stream)
np.testing.assert_array_equal(y, x[::-3][:8] + 21)
try:
    module.add[2, 4](y[::-1], y[:7])
except ValueError as error:
    assert "overlaps" in str(error), error
else:
    raise AssertionError("overlap")

library = module.library


class OnDevice:
    "An array of another library in memory of the device, by DLPack."

    def __init__(self, size, device=(2, 0)):
        self.device, self.shape = device, (ctypes.c_int64 * 1)(size)
        self.address = library.allocate(4 * size)
        self.managed = (ctypes.c_uint8 * 128)()
        tensor = module._Tensor.from_buffer(self.managed)
        tensor.data, tensor.rank, tensor.shape = self.address, 1, self.shape
        tensor.device[:] = device
        tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = 0, 32, 1

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        self.stream = stream
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self.managed), b"dltensor", None)

    def read(self):
        result = np.zeros(self.shape[0], np.int32)
        library.copy(result.ctypes.data, self.address, result.nbytes)
        library.synchronize()
        return result


a, b = OnDevice(8), OnDevice(8)
module.add[8, 1](y, a)
module.add[8, 1](a, b)
assert a.stream == 1
np.testing.assert_array_equal(b.read(), y + 14)
stream = library.create_stream()
module.add[8, 1](b, a, stream=stream)
assert a.stream == stream
library.synchronize(stream)
np.testing.assert_array_equal(a.read(), y + 21)
module.through(a, b)
np.testing.assert_array_equal(b.read(), y + 28)
for wrong in ((2, 1), (10, 0)):
    try:
        module.through(OnDevice(8, wrong), b)
    except TypeError as error:
        assert "and the library runs on cuda:0" in str(error)
    else:
        raise AssertionError(wrong)
for _ in range(100):  # each leaves the caller's context current
    try:
        module.add[1, 2000](a, b)
    except module.LibraryError as error:
        assert "block 2000x1x1" in str(error), error
    else:
        raise AssertionError("launch")
module.add[8, 1](a, b)
print("ok")
"""
THROUGH = """\
func.func @through(%x: memref<?xi32, strided<[?], offset: ?>>, %y: memref<?xi32>)
    attributes {llvm.emit_c_interface} {
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  gpu.launch_func @m::@add blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
      args(%x : memref<?xi32, strided<[?], offset: ?>>, %y : memref<?xi32>)
  return
}
"""


def test_on_the_stand_in_of_cuda(tmp_path: Path) -> None:
    source = f"module attributes {{gpu.container_module}} {{\n{ADD.format(number=7)}{THROUGH}}}\n"
    (tmp_path / "source.txt").write_text(source)
    variables = os.environ | standin.environment("7.0", modules=tmp_path / "modules")
    done = run_python(ON_CUDA, str(tmp_path / "source.txt"), env=variables, code=None)
    assert (done.out, done.code) == ("ok\n", 0), done.err


IN_PLACE = """\
import sys
import numpy as np, gpubuild
checked = {"kind": "cpu", "chip": "x86-64-v2", "sanitize": ["host-memory"]}
module = gpubuild.load(text=open(sys.argv[1]).read(), targets={"checked": checked})
x, y = np.arange(64, dtype=np.int32), np.zeros(8, np.int32)
module.m.add[2, 4](x[::-3][:8], y)
with module.stream() as stream:
    module.m.add[2, 4](y, y, stream=stream)
np.testing.assert_array_equal(y, x[::-3][:8] + 14)
"""


def test_arrays_of_launches_on_the_cpu_are_no_host_memory(tmp_path: Path) -> None:
    (tmp_path / "source.txt").write_text(ADD.format(number=7))
    profile = tmp_path / "profile.json"
    env = os.environ | {"GPUBUILD_CHECK": "1", "GPUBUILD_PROFILE": str(profile)}
    done = run_python(IN_PLACE, tmp_path / "source.txt", env=env)
    assert "no problems found in 2 launches checked for host-memory" in done.err
    (kernel,) = json.loads(profile.read_text())["kernels"]
    assert kernel["bytes"] == (7 * 3 + 1) * 4 + 8 * 4 + 8 * 4


PRODUCT = """func.func @product(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32>
    attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %a, %c0 : tensor<?x?xf32>
  %columns = tensor.dim %b, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%rows, %columns) : tensor<?x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %sum = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>)
      outs(%zeros : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %sum : tensor<?x?xf32>
}
"""
WITHOUT_COPIES = """\
import json, sys
import numpy as np, gpubuild
text, chosen, begin = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
module = gpubuild.load(text=text, pipeline="linalg", targets={"cpu": chosen})
memory = np.zeros(513, np.float32)[1:]  # vectors are not aligned
a, result = (memory[at : at + 64].reshape(8, 8) for at in (0, begin))
a[:] = np.arange(64).reshape(8, 8)
wanted = a @ a
module.product(a, a, result)
np.testing.assert_array_equal(result, wanted)
"""


@pytest.mark.parametrize(
    ("sanitize", "begin", "copies"),
    [
        pytest.param([], 64, 0, id="apart"),
        pytest.param([], 40, 3, id="the result overlaps an argument"),
        pytest.param(["bounds"], 64, 3, id="checked kernels have memory of known extent"),
    ],
)
def test_tensors_are_not_copied_on_the_cpu(sanitize: list[str], begin: int, copies: int) -> None:
    chosen = {"kind": "cpu", "chip": "x86-64-v2", "sanitize": sanitize}
    env = os.environ | {"GPUBUILD_TRACE": "1"}
    trace = run_python(WITHOUT_COPIES, PRODUCT, json.dumps(chosen), str(begin), env=env).err
    assert trace.count("bytes of the host at") == 3 - copies
    assert trace.count(": allocate 256 bytes") == trace.count(": free ") == copies
