"""Reports of kernels that crash on the CPU device: by the program, and by ``gpubuild run``."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest
from e2e.command import Outcome, build_project, gpubuild
from variants import few

KERNELS = """module attributes {gpu.container_module} {
  gpu.module @mod {
    gpu.func @loop(%a: memref<?xf32>, %far: index) kernel {
      %i = gpu.thread_id x
      %v = memref.load %a[%far] : memref<?xf32>
      memref.store %v, %a[%i] : memref<?xf32>
      gpu.return
    }
    gpu.func @fibers(%a: memref<?xf32>, %far: index) kernel {
      %i = gpu.thread_id x
      %count = nvvm.read.ptx.sreg.nwarpid : i32
      %seven = arith.constant 7 : index
      %is = arith.cmpi eq, %i, %seven : index
      scf.if %is {
        %v = memref.load %a[%far] : memref<?xf32>
        memref.store %v, %a[%i] : memref<?xf32>
      }
      nvvm.barrier0
      gpu.return
    }
    gpu.func @recursion(%a: memref<?xf32>, %far: index) kernel {
      func.call @deeper(%a, %far) : (memref<?xf32>, index) -> ()
      gpu.return
    }
    func.func @deeper(%a: memref<?xf32>, %far: index) {
      %size = arith.constant 65536 : index
      %zero = arith.constant 0 : index
      %m = memref.alloca(%size) : memref<?xf32>
      %v = memref.load %a[%zero] : memref<?xf32>
      memref.store %v, %m[%zero] : memref<?xf32>
      func.call @deeper(%m, %far) : (memref<?xf32>, index) -> ()
      %w = memref.load %m[%zero] : memref<?xf32>
      memref.store %w, %a[%zero] : memref<?xf32>
      return
    }
  }
"""
HOST = """  func.func @KERNEL(%far: index) attributes {llvm.emit_c_interface} {
    %one = arith.constant 1 : index
    %n = arith.constant 16 : index
    %a = gpu.alloc (%n) : memref<?xf32>
    gpu.launch_func @mod::@KERNEL blocks in (%n, %one, %one) threads in (%n, %one, %one)
      args(%a : memref<?xf32>, %far : index)
    return
  }
"""
MAIN = """#include <stdint.h>
#include <string.h>
#include <signal.h>
void _mlir_ciface_loop(int64_t), _mlir_ciface_fibers(int64_t), _mlir_ciface_recursion(int64_t);
static void mine(int number) { (void)number; _Exit(42); }
#include <stdlib.h>
int main(int argc, char **argv) {
  int64_t far = (int64_t)1 << 38;
  if (!strcmp(argv[1], "own handler")) signal(SIGSEGV, mine);
  if (!strcmp(argv[1], "host")) { _mlir_ciface_loop(0); *(volatile int *)8 = 1; }
  if (!strcmp(argv[1], "fibers")) _mlir_ciface_fibers(far);
  if (!strcmp(argv[1], "recursion")) _mlir_ciface_recursion(0);
  _mlir_ciface_loop(far);
  return argc;
}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("crashing")
    hosts = "".join(HOST.replace("KERNEL", name) for name in ("loop", "fibers", "recursion"))
    build_project(
        folder,
        "version: 1\ntargets: {plain: {kind: cpu, chip: x86-64-v2}}\n"
        "programs: {app: {sources: [k.mlir, main.c]}}\n",
        {"k.mlir": f"{KERNELS}{hosts}}}\n", "main.c": MAIN},
        env=shared_cache,
    )
    assert "fibers" in gpubuild("inspect", "build/app/app", cwd=folder).out
    return folder


def run(project: Path, environment: dict[str, str], what: str, threads: int) -> Outcome:
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))
    try:
        given = environment | {"GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": str(threads)}
        return gpubuild("run", "-q", "app", "--", what, cwd=project, env=given)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)


@pytest.mark.parametrize("threads", few([4, 1]))
@pytest.mark.parametrize("kernel", ["loop", "fibers", "recursion"])
def test_a_crash_is_reported_with_its_kernel(
    project: Path, shared_cache: dict[str, str], kernel: str, threads: int
) -> None:
    outcome = run(project, shared_cache, kernel, threads)
    assert outcome.code == 128 + signal.SIGSEGV
    first, *facts = outcome.err.splitlines()
    assert first.startswith("gpubuild: the kernel crashed: SIGSEGV at address 0x")
    assert ("), work-item (7, 0, 0)" in first) == (kernel == "fibers")
    assert facts == [
        "  program: app",
        "  module: mod",
        f"  kernel: {kernel}",
        "  target: plain (x86-64-v2, shared object)",
        "  hint: to find the access, add a target {kind: cpu, sanitize: [bounds]} and run the program with "
        "GPUBUILD_CHECK=1",
    ]


def test_crashes_of_host_code_and_handlers_of_the_program_stay(
    project: Path, shared_cache: dict[str, str]
) -> None:
    assert run(project, shared_cache, "host", 2).code == -signal.SIGSEGV
    outcome = run(project, shared_cache, "own handler", 2)
    assert (outcome.code, outcome.err) == (42, "")
