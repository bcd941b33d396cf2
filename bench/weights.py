"""Time and memory of builds with large weights, beside the time to copy the data and to link it alone.

python bench/weights.py [--megabytes 500] [FORM...]

Each form is one place of the weights: a global variable in a source of its own, of the host, or of a
gpu.module, with its data as `dense_resource` or as `dense`, in text or in bytecode.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from timing import ROOT

if TYPE_CHECKING:
    import numpy as np

FORMS = ("own-bytecode", "host-resource", "host-dense", "host-bytecode", "kernel-resource", "kernel-dense")
SETTLE_SECONDS = 2.5  # files that were written less than 2 s ago are hashed more often
MEGABYTE = 1_000_000
CHUNK = 1_000  # elements
GLOBAL = '  memref.global "private" constant @weights : memref<{count}xf32> = {value}\n'
DECLARED = "  memref.global constant @weights : memref<{count}xf32>\n"
DEFINED = "memref.global constant @weights : memref<{count}xf32> = dense_resource<w>"
KERNEL = """\
module attributes {{gpu.container_module}} {{
{host}  gpu.module @k {{
{kernel}    gpu.func @add(%out: memref<?xf32>, %from: memref<{count}xf32>) kernel {{
      %i = gpu.global_id x
      {get}
      %w = memref.load %all[%i] : memref<{count}xf32>
      %c = arith.constant {added} : f32
      %sum = arith.addf %w, %c : f32
      memref.store %sum, %out[%i] : memref<?xf32>
      gpu.return
    }}
  }}
  func.func @main() -> i32 {{
    %one = arith.constant 1 : index
    %n = arith.constant 64 : index
    %out = memref.alloc(%n) : memref<?xf32>
    {give}
    gpu.launch_func @k::@add blocks in (%one, %one, %one) threads in (%n, %one, %one)
      args(%out : memref<?xf32>, %from : memref<{count}xf32>)
    %i = arith.constant 7 : index
    %v = memref.load %out[%i] : memref<?xf32>
    vector.print %v : f32
    %z = arith.constant 0 : i32
    return %z : i32
  }}
}}
"""
PROJECT = "version: 1\ntargets: {{cpu: {{}}}}\nprograms: {{app: {{sources: [{name}]}}}}\n"


def write_project(folder: Path, form: str, count: int, added: float) -> None:
    """Write the project in a process of its own: measured ones begin with the memory of their parent."""
    process = multiprocessing.Process(target=write_source, args=(folder, form, count, added))
    process.start()
    process.join()
    if process.exitcode:
        sys.exit("the project could not be written")


def write_source(folder: Path, form: str, count: int, added: float) -> None:
    """Write the project, whose weights are 0, 1, 2, … 999 again and again."""
    import numpy as np

    place, kind = form.split("-")
    is_apart = place == "own"
    path = folder / ("k.mlirbc" if kind == "bytecode" and not is_apart else "k.mlir")
    names = "k.mlir, w.mlirbc" if is_apart else path.name
    (folder / "targets.yaml").write_text(PROJECT.format(name=names))
    resource = kind != "dense"
    variable = GLOBAL.format(count=count, value="dense_resource<w>" if resource else 'dense<"0x@">')
    get = f"memref.get_global @weights : memref<{count}xf32>"
    text = KERNEL.format(
        host=DECLARED.format(count=count) if is_apart else variable * (place == "host"),
        kernel=variable * (place == "kernel"),
        get=f"%all = {get}"
        if place == "kernel"
        else f"%all = memref.cast %from : memref<{count}xf32> to memref<{count}xf32>",
        give=f"%from = {get}" if place != "kernel" else f"%from = ub.poison : memref<{count}xf32>",
        count=count,
        added=added,
    )
    weights = np.tile(np.arange(CHUNK, dtype=np.float32), count // CHUNK) if kind == "bytecode" else None
    if is_apart:
        path.write_text(text)
        data = folder / "w.mlirbc"
        if not data.exists() or data.stat().st_size < weights.nbytes:
            write_bytecode(data, DEFINED.format(count=count), weights)
        return
    if kind == "bytecode":
        write_bytecode(path, text, weights)
        return
    before, _, after = text.partition('@"' if not resource else "\0")
    digits = np.arange(CHUNK, dtype=np.float32).tobytes().hex()
    with path.open("w") as stream:
        stream.write(before)
        if resource:
            stream.write('{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x04000000')
        for _ in range(count // CHUNK):
            stream.write(digits)
        stream.write('"\n    }\n  }\n#-}\n' if resource else '"' + after)


def write_bytecode(path: Path, text: str, weights: np.ndarray) -> None:
    """Write a module as bytecode, with data for its resource."""
    from mlir import ir

    with ir.Context() as context, path.open("wb") as stream:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)

        def give(op: ir.Operation) -> ir.WalkResult:
            if op.name == "memref.global":
                kind = op.attributes["initial_value"].type
                given = ir.DenseResourceElementsAttr.get_from_buffer(weights, "w", kind, 64)
                op.attributes["initial_value"] = given
            return ir.WalkResult.ADVANCE

        module.operation.walk(give)
        module.operation.write_bytecode(stream)


def measured(command: list[str | Path], folder: Path) -> tuple[float, float, float]:
    """Return seconds, seconds of CPU, and the memory of the largest process in megabytes."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} failed")
    return (
        time.perf_counter() - start,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024 / MEGABYTE,
    )


def rows(form: str, megabytes: int, folder: Path) -> list[str]:
    """Build the program of one form three times and copy its data."""
    count = megabytes * MEGABYTE // 4 // CHUNK * CHUNK
    build = [sys.executable, "-m", "gpubuild", "build", "-q", "--cache-dir", folder / "cache"]
    write_project(folder, form, CHUNK, 0.5)
    measured(build, folder)  # compiles the runtime library
    lines = []
    for label, added in (
        ("clean build", 0.5),
        ("edit of the kernel", 1.5),
        ("next edit", 2.5),
        ("null build", None),
    ):
        if added is not None:
            write_project(folder, form, count, added)
            time.sleep(SETTLE_SECONDS)
        seconds, cpu, memory = measured(build, folder)
        lines.append(f"| {form} | {label} | {seconds:.1f} | {cpu:.1f} | {memory:.0f} |")
    shown = subprocess.run([folder / "build/app/app"], capture_output=True, text=True, check=True).stdout
    if float(shown) != 9.5:
        sys.exit(f"{form}: the program printed {shown}")
    data = folder / "data"
    with data.open("wb") as stream:
        stream.truncate(count * 4)
    seconds, cpu, memory = measured(["cp", "--sparse=never", data, folder / "copy"], folder)
    lines.append(f"| {form} | `cp` of the data | {seconds:.1f} | {cpu:.1f} | {memory:.0f} |")
    with_data = max((folder / "build/app").glob("*.o"), key=lambda path: path.stat().st_size)
    if with_data.stat().st_size > count * 4:
        seconds, cpu, memory = measured(["cc", "-r", "-o", folder / "linked.o", with_data], folder)
        lines.append(f"| {form} | `cc -r` of its object alone | {seconds:.1f} | {cpu:.1f} | {memory:.0f} |")
    return lines


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forms", nargs="*", default=FORMS, metavar="FORM", help=", ".join(FORMS))
    parser.add_argument("--megabytes", type=int, default=500)
    options = parser.parse_args()
    print("| weights | action | s | CPU s | largest process, MB |\n|---|---|---:|---:|---:|")
    for form in options.forms:
        with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
            print("\n".join(rows(form, options.megabytes, Path(scratch))), flush=True)


if __name__ == "__main__":
    main()
