"""All contenders of bench/cpu_kernels.py with one number of threads, in one process and on the same arrays.

    python cpu_worker.py [--only-ours] FOLDER [SITE_PACKAGES]

Where the pages of an array lie decides up to a third of the time of kernels that only wait for memory, and
is another matter in each process. Reads one command per line and answers each with one line of JSON:
``open NUMBER`` makes the data of that problem, runs each variant once and compares its result;
``run VARIANT`` times one run, in seconds; ``loop VARIANT COUNT START`` one of COUNT in a row, from the moment
START on, which is the same for all processes; ``close`` frees the data. Threads come from the environment
(GPUBUILD_CPU_THREADS, POCL_MAX_PTHREAD_COUNT, DPCPP_CPU_NUM_CUS); C has one, or the halves of what can be
cut in two. Our SPIR-V runs where FOLDER has the image; the environment then names Intel's OpenCL runtime.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from cpu_problems import PROBLEMS, Arrays, Problem, check

HERE = Path(__file__).parent
SPIRV = "spirv.container"
Run = Callable[[], None]
SHORT_SECONDS = 0.1  # such a run pays for what ran before it elsewhere; the one after it is timed


def ours(folder: Path) -> Callable[[Problem, Arrays], dict[str, Run]]:
    """Through the runtime's own launch, with the objects that the benchmark compiled."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from e2e.cpu_harness import Device

    module = Device(folder / "libgpubuild_rt.so").load(folder / "k" / "job" / "out", "bench")

    def prepare(problem: Problem, arrays: Arrays) -> dict[str, Run]:
        return {"ours": lambda: module.launch(problem.kernel, problem.grid, problem.block, *arrays)}

    return prepare


def c(folder: Path) -> Callable[[Problem, Arrays], dict[str, Run]]:
    """Every lib*.so of the folder, on as many threads as the others where a problem can be cut."""
    parts = int(os.environ["GPUBUILD_CPU_THREADS"])
    pool = ThreadPoolExecutor(parts)
    libraries = {p.stem.removeprefix("lib"): ctypes.CDLL(str(p)) for p in sorted(folder.glob("libc_*.so"))}

    def prepare(problem: Problem, arrays: Arrays) -> dict[str, Run]:
        found: dict[str, Run] = {}
        if parts > 1 and not problem.flat:
            return found
        pieces = [
            [ctypes.c_void_p(a.ctypes.data + a.nbytes // parts * i) for a in arrays] for i in range(parts)
        ]
        size = ctypes.c_size_t(problem.size // parts)

        def run(function: Callable[..., None]) -> None:
            for done in [pool.submit(function, *piece, size) for piece in pieces[1:]]:
                function(*pieces[0], size)
                done.result()
            if parts == 1:
                function(*pieces[0], size)

        for name, library in libraries.items():
            for form in ("plain", "items") if problem.items else ("plain",):
                function = getattr(library, f"{form}_{problem.peer_kernel.removesuffix('_')}")
                found[f"{name} {form}".removeprefix("c_")] = partial(run, function)
        return found

    return prepare


def spirv(folder: Path) -> Callable[[Problem, Arrays], dict[str, Run]]:
    """Our SPIR-V image through the runtime's own launch; its kernels access the host's arrays."""
    from devices import runner

    runtime = runner.open_library(folder / "libgpubuild_rt.so")
    image = (folder / SPIRV).read_bytes()
    module = runtime.mgpuModuleLoad(image, len(image))

    def prepare(problem: Problem, arrays: Arrays) -> dict[str, Run]:
        kernel = runtime.mgpuModuleGetFunction(module, problem.kernel.encode())
        for array in arrays:
            runtime.mgpuMemHostRegister(array.ctypes.data, array.nbytes)
        values = [value for array in arrays for value in runner.descriptor(array.ctypes.data, array)]
        pointers = (ctypes.c_void_p * len(values))(*(value.ctypes.data for value in values))
        sizes = [(*shape, 1, 1)[:3] for shape in (problem.grid, problem.block)]

        def run(_keep: object = (values, image)) -> None:  # the runtime reads them later
            runtime.mgpuLaunchKernel(kernel, *sizes[0], *sizes[1], 0, None, pointers, None, len(values))
            runtime.mgpuStreamSynchronize(None)

        return {"SPIR-V": run}

    return prepare


def pocl() -> Callable[[Problem, Arrays], dict[str, Run]]:
    """The same kernels in OpenCL C on buffers that share the host's memory."""
    import numpy as np
    import pyopencl as cl  # type: ignore[import-not-found,unused-ignore]

    platforms = [p for p in cl.get_platforms() if "Portable" in p.name]
    device: Any = platforms[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, (HERE / "kernels" / "kernels.cl").read_text()).build()
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR

    def prepare(problem: Problem, arrays: Arrays) -> dict[str, Run]:
        buffers = [cl.Buffer(context, flags, hostbuf=a) for a in arrays]
        kernel = cl.Kernel(program, problem.peer_kernel)
        size = [np.uint64(problem.size)] if problem.sized else []
        kernel.set_args(*buffers, *size)
        items = [g * b for g, b in zip(problem.grid, problem.block, strict=True)]

        def run(_keep: object = buffers) -> None:  # a kernel does not keep its arguments alive
            cl.enqueue_nd_range_kernel(queue, kernel, items, problem.block)
            queue.finish()

        return {"PoCL": run}

    return prepare


def timed(run: Run) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def looped(run: Run, count: int, start: float) -> float:
    """Seconds of one of ``count`` runs; the first begins when ``time.perf_counter()`` is ``start``."""
    while time.perf_counter() < start:
        pass
    begin = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - begin) / count


def main() -> None:
    only_ours, *arguments = sys.argv[1:] if sys.argv[1] == "--only-ours" else ["", *sys.argv[1:]]
    folder = Path(arguments[0])
    prepares = [ours(folder), *([] if only_ours else [c(folder)])]
    if not only_ours and (folder / SPIRV).exists():
        prepares.append(spirv(folder))
    if len(arguments) > 1:
        sys.path.append(arguments[1])  # behind our own: NumPy is ours
        with contextlib.suppress(ImportError):
            prepares.append(pocl())
    runs: dict[str, Run] = {}
    arrays: Arrays = []
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        answer: Any = None
        if command == "open":
            problem = PROBLEMS[int(argument)]
            arrays = problem.arrays()
            runs = {name: run for prepare in prepares for name, run in prepare(problem, arrays).items()}
            for run in runs.values():
                arrays[-1][...] = 0
                run()
                check(problem, arrays)
            answer = list(runs)
        elif command == "run":
            answer = timed(runs[argument])
            if answer < SHORT_SECONDS:
                answer = timed(runs[argument])
        elif command == "loop":
            variant, count, start = argument.split()
            answer = looped(runs[variant], int(count), float(start))
        elif command == "close":
            runs, arrays = {}, []
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
