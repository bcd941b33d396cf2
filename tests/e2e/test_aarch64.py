"""Whole programs for AArch64, run by qemu: kernels of every tier, the runtime, the host code."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import pytest
from e2e.command import ROOT, execute, gpubuild
from unit.engine.cc.archives import built_archive
from variants import few

TRIPLE = "aarch64-unknown-linux-gnu"
EMULATOR = next(filter(None, map(shutil.which, ("qemu-aarch64-static", "qemu-aarch64"))), None)
COMPILER = shutil.which("aarch64-linux-gnu-gcc")
LIBRARIES = "/usr/aarch64-linux-gnu"
RUNTIME = ROOT / "gpubuild" / "runtime"
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", f"-I{RUNTIME}")

pytestmark = [
    pytest.mark.skipif(
        platform.machine() == "aarch64", reason="this machine is one: every other test is this"
    ),
    pytest.mark.skipif(
        EMULATOR is None, reason="no qemu-aarch64 (Debian: qemu-user-static) to run AArch64 programs"
    ),
    pytest.mark.skipif(
        COMPILER is None,
        reason="no compiler for AArch64 (Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross)",
    ),
]

EXAMPLES = ("saxpy", "reduction", "softmax")
TARGETS = f"""\
version: 1
targets:
  arm: {{kind: cpu, chip: generic, triple: {TRIPLE}}}
programs:
  saxpy: {{sources: [saxpy/saxpy.mlir, saxpy/main.c]}}
  reduction: {{sources: [reduction/reduction.mlir]}}
  softmax: {{sources: [softmax/softmax.mlir, softmax/main.c]}}
  ring: {{sources: [ring.mlir]}}
"""

# Four rounds pass numbers around a ring of 70 work-items, by way of f16 and f64. The lanes of each of the
# three subgroups are counted by an instruction of NVIDIA's, which keeps a kernel to fibers.
RING = """
module attributes {gpu.container_module} {
  gpu.module @ring_kernels {
    gpu.func @ring(%rounds: memref<70xindex>, %out: memref<210xf32>)
        workgroup(%turn: memref<70xf16, #gpu.address_space<workgroup>>) kernel
        attributes {known_block_size = array<i32: 70, 1, 1>} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c70 = arith.constant 70 : index
      %half = arith.constant 0.5 : f64
      %t = gpu.thread_id x
      %i = gpu.global_id x
      %n = memref.load %rounds[%t] : memref<70xindex>
      %next = arith.addi %t, %c1 : index
      %from = arith.remui %next, %c70 : index
      %it = arith.index_cast %i : index to i64
      %first = arith.sitofp %it : i64 to f64
      %last = scf.for %k = %c0 to %n step %c1 iter_args(%v = %first) -> (f64) {
        %h = arith.truncf %v : f64 to f16
        memref.store %h, %turn[%t] : memref<70xf16, #gpu.address_space<workgroup>>
        gpu.barrier
        %o = memref.load %turn[%from] : memref<70xf16, #gpu.address_space<workgroup>>
        %w = arith.extf %o : f16 to f64
        gpu.barrier
        %m = math.fma %w, %half, %half : f64
        scf.yield %m : f64
      }
      %one = arith.constant 1 : i32
      %all = arith.constant -1 : i32
      %lanes = nvvm.redux.sync add %one, %all : i32 -> i32
      %there = arith.sitofp %lanes : i32 to f64
      %sum = arith.addf %last, %there : f64
      %r = arith.truncf %sum : f64 to f32
      memref.store %r, %out[%i] : memref<210xf32>
      gpu.return
    }
  }
  func.func private @printMemrefF32(memref<*xf32>)
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c70 = arith.constant 70 : index
    %rounds = gpu.alloc host_shared () : memref<70xindex>
    %out = gpu.alloc host_shared () : memref<210xf32>
    scf.for %k = %c0 to %c70 step %c1 {
      memref.store %c4, %rounds[%k] : memref<70xindex>
    }
    gpu.launch_func @ring_kernels::@ring blocks in (%c3, %c1, %c1) threads in (%c70, %c1, %c1)
      args(%rounds : memref<70xindex>, %out : memref<210xf32>)
    %u = memref.cast %out : memref<210xf32> to memref<*xf32>
    call @printMemrefF32(%u) : (memref<*xf32>) -> ()
    return
  }
}
"""


def ring_values() -> list[float]:
    """After four rounds and with the lanes of the subgroup, but for f16's rounding."""
    values = [float(i) for i in range(210)]
    for _ in range(4):
        values = [values[i // 70 * 70 + (i % 70 + 1) % 70] * 0.5 + 0.5 for i in range(210)]
    return [value + (32 if i % 70 < 64 else 6) for i, value in enumerate(values)]


def cross_compile(folder: Path, *arguments: object) -> None:
    execute(COMPILER, *FLAGS, *map(str, arguments), cwd=folder)


def emulate(program: Path, *arguments: str, cpu: str = "cortex-a57", **variables: str) -> str:
    command = [EMULATOR, "-L", LIBRARIES, "-cpu", cpu, program, *arguments]
    return execute(*command, cwd=program.parent, env=variables).out


@pytest.fixture(scope="module", params=few(["of wheels", "compiled here"]))
def runtime(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runtime")
    if request.param == "of wheels":
        return built_archive("aarch64")
    cross_compile(folder, "-c", *sorted([*RUNTIME.glob("*/*.c"), *RUNTIME.glob("*/*.S")]))
    execute("ar", "rcs", "libgpubuild_rt.a", *sorted(folder.glob("*.o")), cwd=folder)
    return folder / "libgpubuild_rt.a"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, folder / name)
    (folder / "ring.mlir").write_text(RING)
    (folder / "targets.yaml").write_text(TARGETS)
    gpubuild("build", cwd=folder, env=shared_cache, code=0)
    return folder


def link(built: Path, runtime: Path, name: str) -> Path:
    """The program with its host code compiled for AArch64, too."""
    from gpubuild.engine.host import gpu_binary, object_code
    from gpubuild.engine.ir import contexts, llvm

    machine = llvm.target_machine(TRIPLE, "generic", "", 2)
    text = (built / "build" / name / "host.ll").read_text()
    module = llvm.parse_assembly(object_code.rewrite(text), llvm.new_context(), name="host")
    llvm.set_target(module, machine)
    llvm.optimize(module, machine, 2)
    host = built / f"{name}.o"
    host.write_bytes(llvm.emit_object(module, machine))
    objects = [host]
    for binary in (built / "build" / name).glob("*.binary.mlir"):
        with contexts.context():
            ((kernels, op),) = gpu_binary.binaries(contexts.parse(binary.read_text())).items()
            objects.append(built / f"{name}.{kernels}.o")
            gpu_binary.write_images(objects[-1], kernels, gpu_binary.read_objects(op), TRIPLE)
    program = built / f"{name}.arm"
    cross_compile(built, *(built / name).glob("*.c"), *objects, runtime, "-o", program, "-ldl", "-lm")
    return program


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(built: Path, runtime: Path, name: str) -> None:
    program = link(built, runtime, name)
    expected = (built / name / "expected.txt").read_text()
    for threads in ("1", "3"):
        assert emulate(program, GPUBUILD_CPU_THREADS=threads) == expected


def test_kernels_use_vectors(built: Path) -> None:
    (assembly,) = (built / "build" / "reduction").glob("*.arm.s")
    assert re.search(r"\bf?add\tv\d+\.4s", assembly.read_text())


def test_fibers(built: Path, runtime: Path) -> None:
    (info,) = (built / "build" / "ring").glob("*.arm.json")
    assert '"tier": "fibers"' in info.read_text()
    out = emulate(link(built, runtime, "ring"), GPUBUILD_CPU_THREADS="2")
    found = [float(v) for v in out.partition("data =")[2].strip("\n []").split(",")]
    assert found == pytest.approx(ring_values(), rel=1e-3, abs=1e-3)


SUPPORTS = """
#include "cpu/cpu_device.h"
#include <stdio.h>
int main(int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2)
        putchar('0' + gb_cpu_supports(argv[i], argv[i + 1]));
}
"""


def test_the_processor_is_asked_what_it_has(tmp_path: Path, runtime: Path) -> None:
    """By the kernel's bits: code with instructions that it lacks must not be picked."""
    (tmp_path / "supports.c").write_text(SUPPORTS)
    cross_compile(tmp_path, "supports.c", runtime, "-o", "supports", "-ldl")
    asked = ("generic", "", "generic", "+sve", "generic", "+crc,+lse", "cortex-a57", "", "neoverse-n1", "")
    asked += ("olympus", "", "olympus", "+neon", "generic", "+unheard-of", "x86-64", "")
    assert emulate(tmp_path / "supports", *asked, cpu="cortex-a57") == "100100100"
    assert emulate(tmp_path / "supports", *asked, cpu="max") == "111110100"
