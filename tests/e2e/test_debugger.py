"""Debugging kernels on the CPU: a breakpoint on a line of an .mlir file."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from e2e.command import gpubuild

SOURCE = """\
module attributes {gpu.container_module} {
  gpu.module @k {
    func.func private @square(%v: i32) -> i32 {
      %w = arith.muli %v, %v : i32
      return %w : i32
    }
    gpu.func @fill(%m: memref<8xi32>) kernel {
      %i = gpu.thread_id x
      %v = arith.index_cast %i : index to i32
      %w = func.call @square(%v) : (i32) -> i32
      memref.store %w, %m[%i] : memref<8xi32>
      gpu.return
    }
  }
  func.func @main() {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %m = memref.alloc() : memref<8xi32>
    gpu.launch_func @k::@fill blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1) args(%m : memref<8xi32>)
    memref.dealloc %m : memref<8xi32>
    return
  }
}
"""
STORE = 11  # the line of the kernel's memref.store


def test_a_breakpoint_on_a_kernels_line_stops_there(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    """The first stop may be in host code: before the kernels are loaded, gdb knows no nearer line."""
    gdb = shutil.which("gdb")
    if gdb is None:
        pytest.skip("no gdb")
    (tmp_path / "k.mlir").write_text(SOURCE)
    (tmp_path / "targets.yaml").write_text(
        "version: 1\ndefaults: {debug: true, opt_level: 0}\ntargets: {cpu: {}}\n"
        "programs: {app: {sources: [k.mlir]}}\n"
    )
    outcome = gpubuild("build", "-q", cwd=tmp_path, env=shared_cache)
    assert outcome.code == 0, outcome.err
    commands = ["set debuginfod enabled off", f"break k.mlir:{STORE}", "run", "continue", "backtrace", "kill"]
    gdb_process = subprocess.Popen(
        [gdb, "-nx", "-batch", *(part for text in commands for part in ("-ex", text)), "build/app/app"],
        cwd=tmp_path,
        env={**os.environ, "GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": "1", "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = gdb_process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(gdb_process.pid, signal.SIGKILL)
        raise
    if "ptrace: Operation not permitted" in said or "Could not trace the inferior" in said:
        pytest.skip("this machine does not let gdb trace programs")
    assert f"k.mlir:{STORE}\n{STORE}\t      memref.store %w, %m[%i] : memref<8xi32>" in said, said
    backtrace = said[said.index("#0") :]
    assert "fill" in backtrace, said
    assert "gb_cpu_launch" in backtrace, said
