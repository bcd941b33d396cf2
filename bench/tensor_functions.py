"""Single functions on tensors (`pipeline: linalg`) on the CPU beside NumPy, called from Python.

python bench/tensor_functions.py [--rounds N] [--chip CHIP]...

Both have arrays for their results and one CPU thread. They run in turns in one process; the least time of all
rounds counts. NumPy uses the instructions of this machine, whatever ``--chip`` is.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

os.environ |= {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
import numpy as np
from timing import machine

import gpubuild

MAPS = """
#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#left = affine_map<(i, j, k) -> (i, k)>
#transposed = affine_map<(i, j, k) -> (j, k)>
#product = affine_map<(i, j, k) -> (i, j)>
"""
HEAD = """
func.func @{name}({arguments}) -> {result} attributes {{llvm.emit_c_interface}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %{columns[0]}, %{columns[1]} : tensor<?x?xf32>
"""
TABLE, NUMBERS = "tensor<?x?xf32>", "tensor<?xf32>"
EMPTY = f"  %empty = tensor.empty(%m, %n) : {TABLE}\n"
ZEROS = EMPTY + f"  %zeros = linalg.fill ins(%zero : f32) outs(%empty : {TABLE}) -> {TABLE}\n"
NONE = f"  %none = tensor.empty(%m) : {NUMBERS}\n"
SUM = (
    NONE
    + f"""  %nothing = linalg.fill ins(%zero : f32) outs(%none : {NUMBERS}) -> {NUMBERS}
  %{{}} = linalg.reduce {{{{arith.addf}}}} ins(%x : {TABLE}) outs(%nothing : {NUMBERS}) dimensions = [1]
"""
)
SQUARES = f"""  %squares = linalg.generic {{indexing_maps = [#all, #row],
      iterator_types = ["parallel", "reduction"]}}
      ins(%x : {TABLE}) outs(%nothing : {NUMBERS}) {{
  ^bb0(%a: f32, %so_far: f32):
    %square = arith.mulf %a, %a : f32
    %next = arith.addf %so_far, %square : f32
    linalg.yield %next : f32
  }} -> {NUMBERS}
"""
NORMALIZED = f"""  %count = arith.index_cast %n : index to i32
  %columns = arith.sitofp %count : i32 to f32
  %small = arith.constant 1.0e-5 : f32
  %r = linalg.generic {{indexing_maps = [#all, #row, #row, #all], iterator_types = ["parallel", "parallel"]}}
      ins(%x, %sums, %squares : {TABLE}, {NUMBERS}, {NUMBERS}) outs(%empty : {TABLE}) {{
  ^bb0(%a: f32, %sum: f32, %of_squares: f32, %unused: f32):
    %mean = arith.divf %sum, %columns : f32
    %both = arith.divf %of_squares, %columns : f32
    %square = arith.mulf %mean, %mean : f32
    %variance = arith.subf %both, %square : f32
    %positive = arith.addf %variance, %small : f32
    %scale = math.rsqrt %positive : f32
    %moved = arith.subf %a, %mean : f32
    %y = arith.mulf %moved, %scale : f32
    linalg.yield %y : f32
  }} -> {TABLE}
"""
PRODUCT = f"  %r = linalg.matmul ins(%x, %y : {TABLE}, {TABLE}) outs(%zeros : {TABLE}) -> {TABLE}\n"
TRANSPOSED = f"""  %r = linalg.generic {{indexing_maps = [#left, #transposed, #product],
      iterator_types = ["parallel", "parallel", "reduction"]}}
      ins(%x, %y : {TABLE}, {TABLE}) outs(%zeros : {TABLE}) {{
  ^bb0(%a: f32, %b: f32, %so_far: f32):
    %term = arith.mulf %a, %b : f32
    %next = arith.addf %so_far, %term : f32
    linalg.yield %next : f32
  }} -> {TABLE}
"""


def _one(operation: str) -> str:
    return EMPTY + f"  %r = {operation} ins(%x : {TABLE}) outs(%empty : {TABLE})"


def _layer_norm(x: np.ndarray, out: np.ndarray) -> None:
    mean = x.mean(1, keepdims=True)
    np.multiply(x - mean, 1 / np.sqrt(x.var(1, keepdims=True) + np.float32(1e-5)), out=out)


def _softmax(x: np.ndarray, out: np.ndarray) -> None:
    np.exp(x - x.max(1, keepdims=True), out=out)
    out /= out.sum(1, keepdims=True)


# Names, MLIR, where the columns of the result are from, the same in NumPy, and shapes of the arguments.
Case = tuple[str, str, tuple[str, str], Callable[..., object], tuple[tuple[int, int], ...]]
SMALL, LARGE = (300, 300), (3000, 3000)
CASES: tuple[Case, ...] = (
    *(
        (
            "add",
            f"{EMPTY}  %r = linalg.add ins(%x, %y : {TABLE}, {TABLE}) outs(%empty : {TABLE}) -> {TABLE}\n",
            ("x", "c1"), lambda x, y, out: np.add(x, y, out=out), (shape, shape),
        )
        for shape in (SMALL, LARGE)
    ),
    (
        "exp", _one("linalg.exp") + f" -> {TABLE}\n", ("x", "c1"),
        lambda x, out: np.exp(x, out=out), ((1000, 1000),),
    ),
    (
        "transpose", _one("linalg.transpose") + " permutation = [1, 0]\n", ("x", "c1"),
        lambda x, out: np.copyto(out, x.T), ((1000, 1000),),
    ),
    ("row_sums", SUM.format("r"), ("x", "c1"), lambda x, out: x.sum(1, out=out), ((1000, 1000),)),
    (
        "column_sums", SUM.format("r").replace("(%m)", "(%n)").replace("[1]", "[0]"), ("x", "c1"),
        lambda x, out: x.sum(0, out=out), ((1000, 1000),),
    ),
    (
        "softmax",
        f"{EMPTY}  %r = linalg.softmax dimension(1) ins(%x : {TABLE}) outs(%empty : {TABLE}) -> {TABLE}\n",
        ("x", "c1"), _softmax, ((1000, 1000),),
    ),
    (
        "layer_norm", EMPTY + SUM.format("sums") + SQUARES + NORMALIZED, ("x", "c1"),
        _layer_norm, ((1000, 1000),),
    ),
    *(
        ("product", ZEROS + PRODUCT, ("y", "c1"), lambda x, y, out: np.matmul(x, y, out=out), shapes)
        for shapes in (
            ((1, 784), (784, 512)), ((256, 512), (512, 10)), ((500, 500),) * 2, ((1024, 1024),) * 2,
        )
    ),
    *(
        (
            "product_transposed", ZEROS + TRANSPOSED, ("y", "c0"),
            lambda x, y, out: np.matmul(x, y.T, out=out), shapes,
        )
        for shapes in (((1, 784), (512, 784)), ((500, 500),) * 2)
    ),
)  # fmt: skip


def text_of(case: Case) -> str:
    """Return the MLIR of a function."""
    name, body, columns, _, shapes = case
    arguments = ", ".join(f"%{argument}: {TABLE}" for argument in "xy"[: len(shapes)])
    result = NUMBERS if name.endswith("sums") else TABLE
    head = HEAD.format(name=name, arguments=arguments, result=result, columns=columns)
    if name == "transpose":  # its result has the other shape
        body = body.replace("(%m, %n)", "(%n, %m)")
    return f"{head}{body}  return %r : {result}\n}}\n"


def least(run: Callable[[], object], rounds: int) -> Callable[[], float]:
    """Return a function that runs ``run`` several times and returns the least seconds so far."""
    run()
    start = time.perf_counter()
    run()
    count = max(1, int(0.01 / max(time.perf_counter() - start, 1e-6)))
    best = [float("inf")]

    def measure() -> float:
        for _ in range(rounds):
            start = time.perf_counter()
            for _ in range(count):
                run()
            best[0] = min(best[0], (time.perf_counter() - start) / count)
        return best[0]

    return measure


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--chip", action="append", help="default: x86-64-v2 and native")
    options = parser.parse_args()
    chips = options.chip or ["x86-64-v2", "native"]
    text = MAPS + "".join({case[0]: text_of(case) for case in CASES}.values())
    modules = [
        gpubuild.load(text=text, pipeline="linalg", targets={"cpu": {"kind": "cpu", "chip": chip}})
        for chip in chips
    ]
    print(f"# bench/tensor_functions.py\n\n{machine()}. Least time of {options.rounds} rounds in turns.\n")
    print(f"| function | shapes | NumPy, µs | {' | '.join(f'{chip} / NumPy' for chip in chips)} |")
    print(f"|---|---|---:|{'---:|' * len(chips)}")
    numbers = np.random.default_rng(1)
    for case in CASES:
        name, _, _, peer, shapes = case
        inputs = [numbers.random(shape, np.float32) for shape in shapes]
        rows = shapes[0][0]
        columns = {"product": shapes[-1][1], "product_transposed": shapes[-1][0]}.get(name, shapes[0][1])
        sizes = {"row_sums": (rows,), "column_sums": (columns,)}.get(name, (rows, columns))
        out = np.empty(sizes, np.float32)
        peer(*inputs, out)
        wanted, runs = out.copy(), [lambda: peer(*inputs, out)]  # noqa: B023 - called in this iteration
        for module in modules:
            function = getattr(module, name)
            out[:] = 0
            function(*inputs, out)
            if not np.allclose(out, wanted, rtol=1e-3, atol=1e-4):
                sys.exit(f"{name}: the results differ")
            runs.append(lambda function=function: function(*inputs, out))  # type: ignore[misc]  # noqa: B023
        measures = [least(run, 1) for run in runs]
        for _ in range(options.rounds):
            times = [measure() for measure in measures]
        arguments = ", ".join(f"{shape[0]:,} x {shape[1]:,}" for shape in shapes)
        ratios = " | ".join(f"{each / times[0]:.2f}" for each in times[1:])
        print(f"| {name} | {arguments} | {times[0] * 1e6:,.0f} | {ratios} |", flush=True)


if __name__ == "__main__":
    main()
