"""Kernels on an NVIDIA GPU: gpubuild's machine code beside nvcc's of the same kernels in CUDA C++.

    python bench/gpu_kernels.py compile FOLDER [--chip sm_90]   anywhere
    python FOLDER/gpu_kernels.py run FOLDER [--rounds N]        with a GPU, its driver, nvcc and NumPy

Both are loaded by the driver and launched with the same grids on the same memory, in turns; the device's
events take the time. Results are compared with NumPy's before. The table has the least time of all rounds,
of which each is the mean of some launches.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import sys
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parent / "kernels"
CUBIN, CUDA = "kernels.cubin", "kernels.cu"
LAUNCHES = 20  # of a round
Pointer = c_uint64


class Driver:
    """The functions of the CUDA driver, which end the benchmark when they fail."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.cuInit(0)
        device, context = c_int(), c_void_p()
        self.cuDeviceGet(byref(device), 0)
        self.cuDevicePrimaryCtxRetain(byref(context), device)
        self.cuCtxSetCurrent(context)
        name = ctypes.create_string_buffer(256)
        self.cuDeviceGetName(name, len(name), device)
        self.device = name.value.decode()

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._library, name)

        def call(*arguments: object) -> None:
            if code := function(*arguments):
                sys.exit(f"{name} failed with {code}")

        return call

    def kernel(self, file: Path, name: str) -> c_void_p:
        module, function = c_void_p(), c_void_p()
        self.cuModuleLoad(byref(module), str(file).encode())
        self.cuModuleGetFunction(byref(function), module, name.encode())
        return function


def compile_kernels(folder: Path, chip: str) -> None:
    """Make the folder that ``run`` needs on the other machine."""
    from timing import gpubuild_command

    folder.mkdir(parents=True, exist_ok=True)
    command = [*gpubuild_command(), "compile", str(SOURCES / "kernels.mlir"), "-t", chip, "--emit", "bin"]
    subprocess.run([*command, "-o", str(folder / CUBIN)], check=True)
    for file in (SOURCES / CUDA, Path(__file__), Path(__file__).with_name("cpu_problems.py")):
        shutil.copy(file, folder)
    (folder / "chip").write_text(chip)


def run(folder: Path, rounds: int) -> None:
    """Print the table."""
    from cpu_problems import PROBLEMS

    chip = (folder / "chip").read_text()
    theirs = folder / "nvcc.cubin"
    subprocess.run(["nvcc", "-O3", f"-arch={chip}", "-cubin", "-o", theirs, folder / CUDA], check=True)
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    release = version.split("release ")[1].split(",")[0]
    driver = Driver()
    print(f"# bench/gpu_kernels.py\n\n{driver.device}, {chip}; nvcc {release} -O3.")
    print(f"Least of {rounds} rounds in turns, each the mean of {LAUNCHES} launches.\n")
    print("| kernel | nvcc, µs | gpubuild, µs | gpubuild / nvcc |\n|---|---:|---:|---:|")
    for problem in PROBLEMS:
        nvcc, ours = measure(driver, problem, folder / CUBIN, theirs, rounds)
        print(f"| {problem.title} | {nvcc:,.1f} | {ours:,.1f} | {ours / nvcc:.2f} |", flush=True)


def measure(driver: Driver, problem: Any, ours: Path, theirs: Path, rounds: int) -> tuple[float, float]:
    """Microseconds of a launch, of nvcc's code and of ours. Ends the benchmark if a result is wrong."""
    import numpy as np

    arrays = problem.arrays()
    memory = [Pointer() for _ in arrays]
    for pointer, array in zip(memory, arrays, strict=True):
        driver.cuMemAlloc_v2(byref(pointer), c_size_t(array.nbytes))
        driver.cuMemcpyHtoD_v2(pointer, c_void_p(array.ctypes.data), c_size_t(array.nbytes))
    descriptors: list[Any] = []
    for pointer, array in zip(memory, arrays, strict=True):
        steps = [step // array.itemsize for step in array.strides]
        descriptors += [pointer, pointer, *(c_uint64(n) for n in (0, *array.shape, *steps))]
    peer = "all_reduce" if problem.kernel == "all_reduce" else problem.peer_kernel  # OpenCL C has none
    size = [c_uint64(problem.size)] if problem.sized else []
    contenders = [
        (driver.kernel(theirs, peer), [*memory, *size]),
        (driver.kernel(ours, problem.kernel), descriptors),
    ]
    grid, block = ((*sizes, 1, 1)[:3] for sizes in (problem.grid, problem.block))
    first, last = c_void_p(), c_void_p()
    driver.cuEventCreate(byref(first), c_uint(0))
    driver.cuEventCreate(byref(last), c_uint(0))

    def launch(kernel: c_void_p, arguments: list[Any]) -> None:
        pointers = (c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
        driver.cuLaunchKernel(kernel, *map(c_uint, (*grid, *block, 0)), None, pointers, None)

    out = arrays[-1]
    expected = problem.expected(arrays)
    for contender in contenders:
        driver.cuMemsetD8_v2(memory[-1], ctypes.c_ubyte(0), c_size_t(out.nbytes))
        launch(*contender)
        driver.cuMemcpyDtoH_v2(c_void_p(out.ctypes.data), memory[-1], c_size_t(out.nbytes))
        if not np.allclose(out, expected, rtol=10 * problem.tolerance, atol=10 * problem.tolerance):
            sys.exit(f"{problem.title}: wrong result")
    least = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for number, contender in enumerate(contenders):
            driver.cuEventRecord(first, None)
            for _ in range(LAUNCHES):
                launch(*contender)
            driver.cuEventRecord(last, None)
            driver.cuEventSynchronize(last)
            milliseconds = c_float()
            driver.cuEventElapsedTime(byref(milliseconds), first, last)
            least[number] = min(least[number], 1000 * milliseconds.value / LAUNCHES)
    for pointer in memory:
        driver.cuMemFree_v2(pointer)
    return least[0], least[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("compile", help="compile the kernels for a chip, into a folder")
    make.add_argument("folder", type=Path)
    make.add_argument("--chip", default="sm_90", help="default: sm_90")
    measured = commands.add_parser("run", help="measure them on the GPU of this machine")
    measured.add_argument("folder", type=Path)
    measured.add_argument("--rounds", type=int, default=10, help="default: 10")
    given = parser.parse_args()
    if given.command == "compile":
        compile_kernels(given.folder, given.chip)
    else:
        run(given.folder, given.rounds)


if __name__ == "__main__":
    main()
