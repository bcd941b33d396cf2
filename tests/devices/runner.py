"""Runner: launch the kernels of a pack on a device, where nothing but Python and NumPy is installed.

``python run.py RESULTS --device cuda`` in the folder of a pack (``devices.pack``). A launch that ends
the process, as the runtime does on each error, is noted, and the next one gets a new process.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from ctypes import c_char_p, c_int32, c_size_t, c_ssize_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

import numpy as np

LIBRARY, LAUNCHES, ARRAYS, RESULTS = "libgpubuild_rt.so", "launches.jsonl", "arrays", "results.jsonl"
EXECUTABLES, LIST = "executables", "list.jsonl"
_SECONDS = 120  # for an executable
_SIZES = (c_ssize_t,) * 3
_SIGNATURES = {
    "mgpuModuleLoad": (c_void_p, c_void_p, c_size_t),
    "mgpuModuleGetFunction": (c_void_p, c_void_p, c_char_p),
    "mgpuLaunchKernel": (
        None, c_void_p, *_SIZES, *_SIZES, c_int32, c_void_p, c_void_p, c_void_p, c_size_t,
    ),
    "mgpuLaunchClusterKernel": (
        None, c_void_p, *_SIZES, *_SIZES, *_SIZES, c_int32, c_void_p, c_void_p, c_void_p,
    ),
    "mgpuStreamCreate": (c_void_p,),
    "mgpuStreamSynchronize": (None, c_void_p),
    "mgpuMemAlloc": (c_void_p, c_uint64, c_void_p, c_uint32),
    "mgpuMemFree": (None, c_void_p, c_void_p),
    "mgpuMemcpy": (None, c_void_p, c_void_p, c_size_t, c_void_p),
    "mgpuMemHostRegister": (None, c_void_p, c_uint64),
}  # fmt: skip


def run(pack: Path, results: Path, device: str) -> int:
    """Launch all; how many did not come to their end."""
    results.mkdir(parents=True, exist_ok=True)
    launches = (pack / LAUNCHES).read_text().splitlines()
    (results / RESULTS).write_text("")
    (results / ARRAYS).write_bytes(b"")
    (results / f"{EXECUTABLES}.jsonl").unlink(missing_ok=True)
    failed = 0
    while (done := len((results / RESULTS).read_text().splitlines())) < len(launches):
        command = [sys.executable, __file__, str(results), "--pack", str(pack), "--device", device]
        child = subprocess.run([*command, "--from", str(done)], stderr=subprocess.PIPE, check=False)
        done = len((results / RESULTS).read_text().splitlines())
        if done < len(launches):
            failed += 1
            said = child.stderr.decode(errors="replace").strip() or f"exit status {child.returncode}"
            _note(results, {"launch": done, "failed": said[-2000:]})
    return failed


def run_executables(pack: Path, results: Path, device: str) -> int:
    """Run the executables; return how many did not end with code 0."""
    file = pack / EXECUTABLES / LIST
    failed = 0
    for line in file.read_text().splitlines() if file.exists() else []:
        one = json.loads(line)
        executable = (pack / EXECUTABLES / one["name"]).resolve()
        executable.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("GPUBUILD_")}
        variables = {"GPUBUILD_DEVICE": device, "GPUBUILD_TRACE": str(int(one["traced"]))}
        did = {"name": one["name"], "code": -1, "out": "", "err": f"has not ended after {_SECONDS} s"}
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                [executable], env=kept | variables, capture_output=True, check=False, timeout=_SECONDS
            )
            said = {"out": done.stdout.decode(errors="replace"), "err": done.stderr.decode(errors="replace")}
            did |= {"code": done.returncode, **said}
        failed += did["code"] != 0
        with (results / f"{EXECUTABLES}.jsonl").open("a") as stream:
            stream.write(json.dumps(did) + "\n")
    return failed


def _note(results: Path, what: dict) -> None:
    with (results / RESULTS).open("a") as stream:
        stream.write(json.dumps(what) + "\n")


def _launch_from(pack: Path, results: Path, device: str, first: int) -> None:
    os.environ["GPUBUILD_DEVICE"] = device
    launches = (pack / LAUNCHES).read_text().splitlines()
    with tempfile.TemporaryFile() as printed, (pack / ARRAYS).open("rb") as arrays:
        os.dup2(printed.fileno(), 1)
        runtime = open_library(pack / LIBRARY)
        modules: dict[str, tuple[int, bytes]] = {}
        for number, line in enumerate(launches[first:], first):
            one = json.loads(line)
            if one["image"] not in modules:
                data = (pack / one["image"]).read_bytes()
                modules[one["image"]] = (runtime.mgpuModuleLoad(data, len(data)), data)
            printed.seek(0)
            printed.truncate()
            given = {}
            for offset in one["args"]:
                arrays.seek(offset)
                given[offset] = np.load(arrays, allow_pickle=False)
            _launch(runtime, modules[one["image"]][0], one, given)
            ctypes.CDLL(None).fflush(None)
            printed.seek(0)
            with (results / ARRAYS).open("ab") as stream:
                offsets = []
                for offset in one["args"]:
                    offsets.append(stream.tell())
                    np.save(stream, given[offset], allow_pickle=False)
            said = printed.read().decode(errors="replace")
            _note(results, {"launch": number, "args": offsets, "printed": said})


def open_library(path: Path) -> ctypes.CDLL:
    """The runtime library, whose functions know their parameters."""
    runtime = ctypes.CDLL(str(path.resolve()))
    for name, (result, *parameters) in _SIGNATURES.items():
        function = getattr(runtime, name)
        function.restype, function.argtypes = result, parameters
    return runtime


def _launch(runtime: ctypes.CDLL, module: int, one: dict, given: dict[int, np.ndarray]) -> None:
    """``given`` holds the arguments by what ``one`` calls them; arrays hold the results afterwards."""
    stream = runtime.mgpuStreamCreate()
    memory: dict[int, int] = {}
    for name, array in given.items():
        if array.ndim:
            memory[name] = runtime.mgpuMemAlloc(max(1, array.nbytes), stream, 0)
            runtime.mgpuMemcpy(memory[name], array.ctypes.data, array.nbytes, stream)
    values: list[np.ndarray] = []
    for name in one["args"]:
        values += descriptor(memory[name], given[name]) if name in memory else [given[name]]
    pointers = (c_void_p * max(1, len(values)))(*(v.ctypes.data for v in values))
    kernel = runtime.mgpuModuleGetFunction(module, one["kernel"].encode())
    sizes = (*one["grid"], *one["block"], one["dynamic_bytes"], stream, pointers, None)
    if one["cluster"] == [1, 1, 1]:
        runtime.mgpuLaunchKernel(kernel, *sizes, len(values))
    else:
        runtime.mgpuLaunchClusterKernel(kernel, *one["cluster"], *sizes)
    for name, address in memory.items():
        runtime.mgpuMemcpy(given[name].ctypes.data, address, given[name].nbytes, stream)
    runtime.mgpuStreamSynchronize(stream)
    for address in memory.values():
        runtime.mgpuMemFree(address, stream)


def descriptor(address: int, array: np.ndarray) -> list[np.ndarray]:
    """The parameters of a kernel that make a memref like ``array`` at ``address``."""
    strides = [s // array.itemsize for s in array.strides]
    return [np.array(v, np.int64) for v in (address, address, 0, *array.shape, *strides)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Launch the kernels of a pack on a device.")
    parser.add_argument("results", type=Path, help="folder to write the results to")
    parser.add_argument("--device", default="cuda", help="as GPUBUILD_DEVICE takes it (default: cuda)")
    parser.add_argument("--pack", type=Path, default=Path(__file__).parent, help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="first", type=int, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.first is not None:
        _launch_from(given.pack, given.results, given.device, given.first)
        return 0
    failed = run(given.pack, given.results, given.device)
    count = len((given.results / RESULTS).read_text().splitlines())
    print(f"{count} launches, {failed} did not come to their end", flush=True)
    ended = run_executables(given.pack, given.results, given.device)
    print(f"executables: {ended} failed")
    return int(failed + ended > 0)


if __name__ == "__main__":
    sys.exit(main())
