"""A network on tensors (`pipeline: linalg`) beside kernels of it by hand, and beside NumPy, on the CPU.

python bench/tensors.py [--rounds N] [--chip CHIP]

All have the layers of examples/mlp. By hand, a layer is a kernel with a work-item for each number, which
sums in a register and adds the bias; weights are constants of the kernels' module. Each computes some
batches in turns, in one process with one CPU thread: the least CPU time of all rounds counts. NumPy uses the
instructions of this machine, whatever ``--chip`` is.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from timing import ROOT, gpubuild_command, machine

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy loads OpenBLAS
import numpy as np

GOAL = 1.5
# inputs, hidden, outputs, rows of a batch; the first is that of examples/mlp
SHAPES = (
    (32, 64, 10, 77),
    (32, 64, 10, 4096),
    (784, 512, 10, 256),
    (512, 512, 512, 64),
    (512, 512, 512, 512),
)
LAYER = """
  %product{n} = linalg.matmul ins(%{x}, %w{n} : tensor<?x{k}xf32>, tensor<{k}x{m}xf32>)
      outs(%zeros{n} : tensor<?x{m}xf32>) -> tensor<?x{m}xf32>
  %layer{n} = linalg.generic {{indexing_maps = [#plain, #row, #plain], iterator_types = ["parallel", "parallel"]}}
      ins(%product{n}, %b{n} : tensor<?x{m}xf32>, tensor<{m}xf32>) outs(%empty{n} : tensor<?x{m}xf32>) {{
  ^bb0(%value: f32, %bias: f32, %unused: f32):
    %sum = arith.addf %value, %bias : f32
{activation}
    linalg.yield {result} : f32
  }} -> tensor<?x{m}xf32>
"""  # noqa: E501 - a line of MLIR
ON_TENSORS = """
#plain = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (j)>
func.func @mlp(%x: tensor<?x{k}xf32>) -> tensor<?x{m}xf32> attributes {{llvm.emit_c_interface}} {{
  %w1 = arith.constant dense_resource<w1> : tensor<{k}x{h}xf32>
  %b1 = arith.constant dense_resource<b1> : tensor<{h}xf32>
  %w2 = arith.constant dense_resource<w2> : tensor<{h}x{m}xf32>
  %b2 = arith.constant dense_resource<b2> : tensor<{m}xf32>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x{k}xf32>
  %empty1 = tensor.empty(%rows) : tensor<?x{h}xf32>
  %empty2 = tensor.empty(%rows) : tensor<?x{m}xf32>
  %zeros1 = linalg.fill ins(%zero : f32) outs(%empty1 : tensor<?x{h}xf32>) -> tensor<?x{h}xf32>
  %zeros2 = linalg.fill ins(%zero : f32) outs(%empty2 : tensor<?x{m}xf32>) -> tensor<?x{m}xf32>
{first}{second}
  return %layer2 : tensor<?x{m}xf32>
}}
"""
KERNEL = """
    memref.global "private" constant @w{n} : memref<{k}x{m}xf32> = dense_resource<w{n}>
    memref.global "private" constant @b{n} : memref<{m}xf32> = dense_resource<b{n}>
    gpu.func @layer{n}(%x: memref<?x{k}xf32>, %y: memref<?x{m}xf32>) kernel {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %inputs = arith.constant {k} : index
      %outputs = arith.constant {m} : index
      %zero = arith.constant 0.0 : f32
      %rows = memref.dim %x, %c0 : memref<?x{k}xf32>
      %column = gpu.global_id x
      %row = gpu.global_id y
      %left = arith.cmpi ult, %column, %outputs : index
      %above = arith.cmpi ult, %row, %rows : index
      %inside = arith.andi %left, %above : i1
      scf.if %inside {{
        %w = memref.get_global @w{n} : memref<{k}x{m}xf32>
        %b = memref.get_global @b{n} : memref<{m}xf32>
        %product = scf.for %i = %c0 to %inputs step %c1 iter_args(%so_far = %zero) -> f32 {{
          %a = memref.load %x[%row, %i] : memref<?x{k}xf32>
          %c = memref.load %w[%i, %column] : memref<{k}x{m}xf32>
          %term = arith.mulf %a, %c : f32
          %next = arith.addf %so_far, %term : f32
          scf.yield %next : f32
        }}
        %bias = memref.load %b[%column] : memref<{m}xf32>
        %sum = arith.addf %product, %bias : f32
{activation}
        memref.store {result}, %y[%row, %column] : memref<?x{m}xf32>
      }}
      gpu.return
    }}
"""
BY_HAND = """
module attributes {{gpu.container_module}} {{
  gpu.module @k {{{first}{second}  }}
  func.func @mlp(%x: memref<?x{k}xf32>, %y: memref<?x{m}xf32>) attributes {{llvm.emit_c_interface}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %columns = arith.constant {columns} : index
    %height = arith.constant {height} : index
    %groups1 = arith.constant {groups1} : index
    %groups2 = arith.constant {groups2} : index
    %rows = memref.dim %x, %c0 : memref<?x{k}xf32>
    %down = arith.ceildivui %rows, %height : index
    %in = gpu.alloc (%rows) : memref<?x{k}xf32>
    %hidden = gpu.alloc (%rows) : memref<?x{h}xf32>
    %out = gpu.alloc (%rows) : memref<?x{m}xf32>
    gpu.memcpy %in, %x : memref<?x{k}xf32>, memref<?x{k}xf32>
    gpu.launch_func @k::@layer1 blocks in (%groups1, %down, %c1) threads in (%columns, %height, %c1)
      args(%in : memref<?x{k}xf32>, %hidden : memref<?x{h}xf32>)
    gpu.launch_func @k::@layer2 blocks in (%groups2, %down, %c1) threads in (%columns, %height, %c1)
      args(%hidden : memref<?x{h}xf32>, %out : memref<?x{m}xf32>)
    gpu.memcpy %y, %out : memref<?x{m}xf32>, memref<?x{m}xf32>
    gpu.dealloc %in : memref<?x{k}xf32>
    gpu.dealloc %hidden : memref<?x{h}xf32>
    gpu.dealloc %out : memref<?x{m}xf32>
    return
  }}
}}
"""
RESOURCES = "{{-#\n  dialect_resources: {{ builtin: {{\n{0}\n  }} }}\n#-}}\n"
PROJECT = """\
version: 1
targets: {cpu: {chip: %s}}
programs:
  tensors: {sources: [tensors.mlir], pipeline: linalg, product: shared}
  hand: {sources: [hand.mlir], product: shared}
"""
POSITIVE = "    %positive = arith.maximumf %sum, %zero : f32"
COLUMNS, HEIGHT = 32, 8  # of a workgroup by hand


class Matrix(ctypes.Structure):
    """How MLIR passes a memref<?xNxf32>."""

    _fields_ = (
        ("allocated", ctypes.c_void_p),
        ("aligned", ctypes.c_void_p),
        ("offset", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * 2),
        ("strides", ctypes.c_int64 * 2),
    )


def write_sources(folder: Path, inputs: int, hidden: int, outputs: int) -> dict[str, np.ndarray]:
    """Write the network on tensors and as kernels; return its weights."""
    generator = np.random.default_rng(1)
    scale = 1 / np.sqrt(np.float32(inputs))
    shapes = {"w1": (inputs, hidden), "b1": (hidden,), "w2": (hidden, outputs), "b2": (outputs,)}
    data = {
        name: (generator.random(shape, np.float32) - np.float32(0.5)) * scale
        for name, shape in shapes.items()
    }
    lines = [f'    {name}: "0x04000000{values.tobytes().hex()}"' for name, values in data.items()]
    weights = RESOURCES.format(",\n".join(lines))
    layers = (
        {"n": 1, "x": "x", "k": inputs, "m": hidden, "activation": POSITIVE, "result": "%positive"},
        {"n": 2, "x": "layer1", "k": hidden, "m": outputs, "activation": "", "result": "%sum"},
    )
    names = {"k": inputs, "h": hidden, "m": outputs}
    first, second = (LAYER.format(**layer) for layer in layers)
    (folder / "tensors.mlir").write_text(ON_TENSORS.format(first=first, second=second, **names) + weights)
    first, second = (KERNEL.format(**layer) for layer in layers)
    groups1, groups2 = -(-hidden // COLUMNS), -(-outputs // COLUMNS)
    sizes = {"columns": COLUMNS, "height": HEIGHT, "groups1": groups1, "groups2": groups2}
    by_hand = BY_HAND.format(first=first, second=second, **names, **sizes)
    (folder / "hand.mlir").write_text(by_hand + weights)
    return data


def least_times(
    folder: Path, shape: tuple[int, int, int, int], weights: dict[str, np.ndarray], rounds: int
) -> dict[str, float]:
    """Return the least seconds of CPU that a batch took, of each contender. Ends if results differ."""
    inputs, _, outputs, rows = shape
    x = np.random.default_rng(2).random((rows, inputs), np.float32)
    results = {name: np.zeros((rows, outputs), np.float32) for name in ("hand", "tensors", "numpy")}

    def described(array: np.ndarray) -> Matrix:
        sizes = array.shape
        return Matrix(array.ctypes.data, array.ctypes.data, 0, sizes, (sizes[1], 1))

    def ours(name: str) -> Callable[[], None]:
        function = ctypes.CDLL(str(folder / f"build/{name}/lib{name}.so"))._mlir_ciface_mlp
        given, result = described(x), described(results[name])
        return lambda: function(ctypes.byref(given), ctypes.byref(result))

    def numpy() -> None:
        hidden = np.maximum(x @ weights["w1"] + weights["b1"], 0)
        np.add(hidden @ weights["w2"], weights["b2"], out=results["numpy"])

    run = {"hand": ours("hand"), "tensors": ours("tensors"), "numpy": numpy}

    def batches(name: str, count: int) -> float:
        start = time.process_time()
        for _ in range(count):
            run[name]()
        return (time.process_time() - start) / count

    for name in run:
        batches(name, 1)
    count = max(1, int(0.05 / max(batches("hand", 1), 1e-6)))
    least = dict.fromkeys(results, float("inf"))
    for _ in range(rounds):
        for name in results:
            least[name] = min(least[name], batches(name, count))
    if not all(np.allclose(results["hand"], found, rtol=1e-4, atol=1e-5) for found in results.values()):
        sys.exit(f"{shape}: the results differ")
    return least


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--chip", default="x86-64-v2")
    options = parser.parse_args()
    os.environ |= {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "1"}
    print(f"# bench/tensors.py --chip {options.chip}\n\n{machine()}.", end=" ")
    print(f"Least CPU time of {options.rounds} rounds in turns.\n")
    print("| network | rows | by hand, µs | `pipeline: linalg`, µs | / by hand | at most | | / NumPy |")
    print("|---|---:|---:|---:|---:|---:|---|---:|")
    for shape in SHAPES:
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
            folder = Path(scratch)
            (folder / "targets.yaml").write_text(PROJECT % options.chip)
            weights = write_sources(folder, *shape[:3])
            subprocess.run([*gpubuild_command(), "build", "-q"], cwd=folder, check=True)
            least = least_times(folder, shape, weights, options.rounds)
        ratio = least["tensors"] / least["hand"]
        peer = least["tensors"] / least["numpy"]
        layers = "-".join(map(str, shape[:3]))
        times = f"{least['hand'] * 1e6:,.1f} | {least['tensors'] * 1e6:,.1f}"
        verdict = "pass" if ratio <= GOAL else "FAIL"
        print(
            f"| {layers} | {shape[3]} | {times} | {ratio:.2f} | {GOAL} | {verdict} | {peer:.1f} |", flush=True
        )


if __name__ == "__main__":
    main()
