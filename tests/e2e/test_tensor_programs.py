"""``pipeline: linalg`` and ``tosa``: results on the CPU, and on a device whose memory is not the host's."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from e2e.command import (
    Outcome,
    build_project,
    execute,
    gpubuild,
    project_file,
    run_on_cpu,
    run_python,
    shared_cache,
    write,
)
from simulators.cuda_driver import standin

SOURCES = Path(__file__).parent / "tensors"
PROJECT = """\
version: 1
targets: {sm_60: {}, cpu: {}, checked: {kind: cpu, sanitize: [bounds, race, uninitialized]}}
programs:
  mix: {sources: [SOURCES/mix.mlir], pipeline: linalg, product: shared}
  layer: {sources: [SOURCES/layer.mlir], targets: [sm_60, cpu], pipeline: tosa, product: shared}
  branches: {sources: [SOURCES/branches.mlir], targets: [sm_60, cpu], pipeline: linalg, product: shared}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensors")
    return build_project(folder, PROJECT.replace("SOURCES", os.path.relpath(SOURCES, folder)), {})


def check(built: Path, name: str, **environment: str) -> str:
    """The library's functions give NumPy's results; what the runtime says besides."""
    variables = os.environ | {"PYTHONPATH": str(built / name)} | environment
    return execute(sys.executable, SOURCES / f"check_{name}.py", env=variables).err


@pytest.mark.parametrize("name", ["mix", "layer", "branches"])
def test_on_the_cpu_and_with_memory_apart(built: Path, tmp_path: Path, name: str) -> None:
    check(built, name, GPUBUILD_DEVICE="cpu")
    standin.translate(list((built / name).glob("*.sm_60.ptx")), "7.0", tmp_path)
    for order in ({}, {"EMU_CUDA_BACKWARDS": "1"}, {"EMU_CUDA_ORDER": "early"}):
        check(built, name, **standin.environment("7.0", modules=tmp_path), **order)


def test_checked(built: Path) -> None:
    assert "no problems found" in check(built, "mix", GPUBUILD_DEVICE="cpu", GPUBUILD_CHECK="1")


def test_independent_kernels_are_in_streams_of_their_own(built: Path) -> None:
    said = check(built, "branches", GPUBUILD_DEVICE="cpu", GPUBUILD_TRACE="1")
    stream = dict(re.findall(r" launch \w+::(\w+) .* stream (\w+)", said))
    assert stream["product_kernels"] != stream["product_kernels_1"], said
    made, released = (
        [line for line in said.splitlines() if " stream " in line and line.endswith(ends)]
        for ends in (("created",), ("destroyed", "released"))
    )
    assert len(made) == len(released) > 3


WEIGHTS = """
func.func @layer(%x: tensor<64xf32>) -> tensor<64xf32> attributes {llvm.emit_c_interface} {
  %w = arith.constant dense<NUMBERS> : tensor<64xf32>
  %e = tensor.empty() : tensor<64xf32>
  %r = linalg.mul ins(%x, %w : tensor<64xf32>, tensor<64xf32>) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  return %r : tensor<64xf32>
}
"""
RELOADING = """
import ctypes, sys
import numpy as np
cuda = ctypes.CDLL("libcuda.so.1") if len(sys.argv) > 2 else None
def left():
    if cuda is None: return 0
    context, now, free, total = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    device = ctypes.c_int()
    assert cuda.cuInit(0) == cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxPushCurrent_v2(context) == 0
    assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    assert cuda.cuCtxPopCurrent_v2(ctypes.byref(now)) == 0
    return free.value
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("data", ctypes.c_void_p), ("offset", ctypes.c_int64),
                ("size", ctypes.c_int64), ("stride", ctypes.c_int64)]
def vector(array): return ctypes.byref(Vector(array.ctypes.data, array.ctypes.data, 0, 64, 1))
before = left()
for _ in range(3):
    library = ctypes.CDLL(sys.argv[1])
    x, y = np.full(64, 2, np.float32), np.zeros(64, np.float32)
    library._mlir_ciface_layer(vector(x), vector(y))
    assert (y == 2 * np.arange(64)).all()
    held = before - left()
    handle = library._handle
    del library
    assert ctypes.CDLL(None).dlclose(ctypes.c_void_p(handle)) == 0
    print(held, before - left())
"""


def test_weights_on_a_device_are_freed_with_the_library(tmp_path: Path) -> None:
    net = "net: {sources: [layer.mlir], pipeline: linalg, product: shared}"
    layer = WEIGHTS.replace("NUMBERS", str([float(n) for n in range(64)]))
    build_project(tmp_path, project_file(net, targets="sm_60: {}, cpu: {}"), {"layer.mlir": layer})
    library = tmp_path / "build" / "net" / "libnet.so"
    standin.translate(list(library.parent.glob("*.sm_60.ptx")), "7.0", tmp_path)
    for arguments, environment, numbers in (
        (["cuda"], standin.environment("7.0", modules=tmp_path), "256 0\n"),
        ([], {"GPUBUILD_DEVICE": "cpu"}, "0 0\n"),
    ):
        environment |= {"PATH": os.environ["PATH"]}
        assert run_python(RELOADING, library, *arguments, env=environment).out == numbers * 3


def test_what_a_loop_carries_is_copied_back_before_it_is_freed(tmp_path: Path) -> None:
    """AddressSanitizer sees the copy: the result is right even where it comes too late."""
    if shutil.which("cc") is None:
        pytest.skip("no compiler of the system's, whose AddressSanitizer this needs")
    (tmp_path / "targets.yaml").write_text(
        "version: 1\ntargets: {sm_60: {}, cpu: {}}\nprograms:\n  loop:\n    pipeline: linalg\n"
        f"    sources: [{SOURCES}/loop.mlir, {SOURCES}/loop.c]\n    link: {{flags: [-fsanitize=address]}}\n"
    )
    gpubuild("build", cwd=tmp_path, env=shared_cache(), code=0)
    program = tmp_path / "build" / "loop" / "loop"
    assert run_on_cpu(program, ASAN_OPTIONS="detect_leaks=0") == Outcome(0, "0 wrong\n", "")


DIFFERENCE = """
func.func @sum(%x: tensor<?xf32>, %so_far: tensor<f32>) -> tensor<f32> {
  %r = linalg.reduce ins(%x : tensor<?xf32>) outs(%so_far : tensor<f32>) dimensions = [0]
    (%a: f32, %b: f32) { %q = arith.subf %a, %b : f32 linalg.yield %q : f32 }
  return %r : tensor<f32>
}
"""


def test_what_stays_on_the_host_is_a_warning(tmp_path: Path) -> None:
    yaml = project_file("sum: {sources: [sum.mlir], pipeline: linalg, product: object}")
    write(tmp_path, {"sum.mlir": DIFFERENCE, "targets.yaml": yaml})
    outcome = gpubuild("build", cwd=tmp_path, seeded=True)
    text = outcome.out + outcome.err
    assert "sum.mlir:3:8: warning: this stays on the host: it has no parallel loop" in text


UNKNOWN = {
    "stablehlo": (
        '"stablehlo.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
        "stablehlo-opt --stablehlo-legalize-to-linalg",
    ),
    "torch": (
        '"torch.aten.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>',
        "torch-mlir-opt --torch-backend-to-linalg-on-tensors-backend-pipeline",
    ),
    "not lowered": (
        "tensor.gather %x[%i] gather_dims([0]) : (tensor<4xf32>, tensor<4x1xindex>) -> tensor<4xf32>",
        "op was not bufferized",
        "write it as a linalg.generic",
    ),
    "TOSA": ("tosa.exp %x : (tensor<4xf32>) -> tensor<4xf32>", "hint: write `pipeline: tosa`"),
    "freed by hand": (
        "arith.negf %x : tensor<4xf32>\n  memref.dealloc %m : memref<4xf32>",
        "memory free side-effect on MemRef value not supported!",
        "leave memref.dealloc out",
    ),
    "written argument": (
        "scf.execute_region -> tensor<4xf32> { %n = arith.negf %x : tensor<4xf32>\n"
        "  %d = bufferization.materialize_in_destination %n in %x : (tensor<4xf32>, tensor<4xf32>)"
        " -> tensor<4xf32>\n  scf.yield %d : tensor<4xf32> }",
        "give this one {bufferization.writable = true}",
    ),
    "registered by hand": (
        "arith.negf %x : tensor<4xf32>\n  gpu.host_register %u : memref<*xf32>",
        "hint: leave it out: the pipeline copies",
    ),
    "unranked": (
        "arith.negf %x : tensor<4xf32>\n  %c = memref.cast %u : memref<*xf32> to memref<4xf32>\n"
        "  linalg.exp ins(%m : memref<4xf32>) outs(%c : memref<4xf32>)",
        ".mlir:3:8: error: the rank is unknown before this",
    ),
}


def test_what_to_do_about_other_operations(tmp_path: Path) -> None:
    """Those of other projects, whose own tools lower them, and those that the pipeline does not lower."""
    files, programs = {}, []
    for number, (operation, *_) in enumerate(UNKNOWN.values()):
        files[f"a{number}.mlir"] = (
            "func.func @f(%x: tensor<4xf32>, %i: tensor<4x1xindex>, %m: memref<4xf32>, %u: memref<*xf32>)\n"
            f"  -> tensor<4xf32> {{ %y = {operation}\n"
            "  return %y : tensor<4xf32>\n}\n"
        )
        programs.append(f"p{number}: {{sources: [a{number}.mlir], pipeline: linalg}}")
    write(tmp_path, files | {"targets.yaml": project_file(*programs)})
    outcome = gpubuild("build", "-k", cwd=tmp_path, seeded=True, code=1)
    errors = re.split("^error: ", outcome.err, flags=re.M)
    for number, (name, (_, *advice)) in enumerate(UNKNOWN.items()):
        [error] = [text for text in errors if f"program p{number}" in text]
        assert re.search(rf"a{number}\.mlir:[23]:", error), name
        assert [text for text in advice if text not in error] == [], (name, error)
