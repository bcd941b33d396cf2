"""f16 and bf16 on CPUs without instructions for them: our kernel against the same loop in C, in turns.

Usage: python bench/half_floats.py [--rounds 9] [--output bench/results/half_floats.md]

y = 1.5 x + y of 2²² elements on one thread, for chips of x86-64 that this machine can run. Results are
compared with NumPy's. `_Float16` and `__bf16` are C's names; gcc 12 has no arithmetic on the second.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from timing import ROOT, machine

import gpubuild

CHIPS = ("x86-64-v2", "x86-64-v3")
TYPES = {"f16": "_Float16", "bf16": "__bf16", "f32": "float"}
COMPILERS = {"gcc": ["gcc"], "clang": [sys.executable, "-m", "ziglang", "cc"]}
COUNT, BLOCK = 1 << 22, 256
Run = Callable[[np.ndarray, np.ndarray], None]
KERNEL = """
gpu.module @k {{
  gpu.func @axpy(%x: memref<?x{bits}>, %y: memref<?x{bits}>) kernel {{
    %i = gpu.global_id x
    %a = arith.constant 1.5 : {kind}
    %u = memref.load %x[%i] : memref<?x{bits}>
    %v = memref.load %y[%i] : memref<?x{bits}>
    %p = arith.bitcast %u : {bits} to {kind}
    %q = arith.bitcast %v : {bits} to {kind}
    %m = arith.mulf %p, %a : {kind}
    %s = arith.addf %m, %q : {kind}
    %r = arith.bitcast %s : {kind} to {bits}
    memref.store %r, %y[%i] : memref<?x{bits}>
    gpu.return
  }}
}}
"""
C = """
#include <stddef.h>
void axpy(const T *restrict x, T *restrict y, size_t n) {
    for (size_t i = 0; i < n; i++) {
        T m = (T)1.5f * x[i];
        y[i] = m + y[i];
    }
}
"""


def ours(kind: str, chip: str) -> Run:
    """Return our kernel."""
    bits = "i32" if kind == "f32" else "i16"
    module = gpubuild.load(text=KERNEL.format(kind=kind, bits=bits), targets={"cpu": {"chip": chip}})
    return module.k.axpy[COUNT // BLOCK, BLOCK]


def in_c(kind: str, chip: str, compiler: str, folder: Path) -> Run | None:
    """Return C's loop, or ``None`` if the compiler is missing or lacks the type."""
    library = folder / f"{kind}.{chip}.{compiler}.so"
    flags = ["-O3", "-shared", "-fPIC", "-ffp-contract=off", "-xc", "-"]
    march = f"-march={chip}" if compiler == "gcc" else f"-mcpu={chip.replace('-', '_')}"
    command = [*COMPILERS[compiler], f"-DT={TYPES[kind]}", march, *flags, "-o", str(library)]
    try:
        done = subprocess.run(command, input=C, text=True, capture_output=True, check=False)
    except FileNotFoundError:
        return None
    if done.returncode:
        return None
    try:
        function = ctypes.CDLL(str(library)).axpy
    except OSError:  # a function that the C library lacks
        return None
    return lambda x, y: function(*(ctypes.c_void_p(a.ctypes.data) for a in (x, y)), ctypes.c_size_t(COUNT))


def numbers(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, y and the right result, as integers of the type's bits: small numbers, which are exact."""
    x, y = np.arange(COUNT, dtype=np.float32) % 16, np.arange(COUNT, dtype=np.float32) % 7
    values = x, y, np.float32(1.5) * x + y
    if kind == "f16":
        return tuple(a.astype(np.float16).view(np.int16) for a in values)
    if kind == "bf16":
        return tuple((a.view(np.uint32) >> 16).astype(np.uint16).view(np.int16) for a in values)
    return tuple(a.view(np.int32) for a in values)


def milliseconds(run: Run, data: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the time of one run. Sums grow a little from run to run."""
    start = time.perf_counter()
    run(*data)
    return 1000 * (time.perf_counter() - start)


def verified(run: Run, kind: str) -> Run:
    """Return ``run`` after its result for one run was right."""
    x, y, expected = numbers(kind)
    run(x, y)
    np.testing.assert_array_equal(y, expected)
    return run


def main() -> None:
    """Write a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "half_floats.md")
    options = parser.parse_args()
    os.environ["GPUBUILD_CPU_THREADS"] = "1"
    lines = [
        "| type, chip | ours, ms | gcc, ms | clang, ms | ours / the faster |",
        "|---|---:|---:|---:|---:|",
    ]
    with tempfile.TemporaryDirectory() as scratch:
        for kind in TYPES:
            for chip in CHIPS:
                given = {"ours": ours(kind, chip)}
                given |= {compiler: in_c(kind, chip, compiler, Path(scratch)) for compiler in COMPILERS}
                runs = {name: verified(run, kind) for name, run in given.items() if run is not None}
                data = numbers(kind)[:2]
                times: dict[str, list[float]] = {name: [] for name in runs}
                for _ in range(options.rounds):
                    for name, run in runs.items():
                        times[name].append(milliseconds(run, data))
                found = {name: statistics.median(values) for name, values in times.items()}
                peers = [found[name] for name in COMPILERS if name in found]
                cells = [f"{found[name]:.2f}" if name in found else "-" for name in ("ours", *COMPILERS)]
                ratio = f"{found['ours'] / min(peers):.2f}" if peers else "-"
                lines.append(f"| {kind}, {chip} | {' | '.join(cells)} | {ratio} |")
                print(lines[-1], flush=True)
    said = f"y = 1.5 x + y of 2²² elements; {machine()}; medians of {options.rounds} rounds."
    options.output.write_text("\n".join(["# bench/half_floats.py", "", said, "", *lines, ""]))


if __name__ == "__main__":
    main()
