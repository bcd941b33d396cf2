"""Constants are folded with the C library of the machine: where it rounds differently, keys differ."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from e2e.command import gpubuild, run_python, seed

VARIANTS = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX,-FMA4,-AVX512F"}  # as on an older CPU
OTHER_COPIES = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-ERMS"}  # which compute the same
YAML = """\
version: 1
targets: {sm_60: {}, cpu: {}}
programs:
  app: {sources: [app.mlir]}
"""
KERNEL = """\
module attributes {gpu.container_module} {
  gpu.module @constants {
    gpu.func @fill(%out: memref<?xf64>) kernel {
      %i = gpu.thread_id x
      %x = arith.constant ARGUMENT : f64
      %y = math.exp %x : f64
      memref.store %y, %out[%i] : memref<?xf64>
      gpu.return
    }
  }
  func.func @main() -> i32 {
    %x = arith.constant ARGUMENT : f64
    %y = math.exp %x : f64
    %r = arith.fptosi %y : f64 to i32
    return %r : i32
  }
}
"""
EXPONENTIALS = (
    "import math, struct\n"
    "from gpubuild.toolchain.host_math import HARD\n"
    "for (x,) in struct.iter_unpack('>d', bytes.fromhex(HARD['exp'])): print(x.hex(), math.exp(x).hex())\n"
)


def exponentials(environment: dict[str, str]) -> dict[str, str]:
    environment = {**os.environ, "GLIBC_TUNABLES": "", **environment}
    done = run_python(EXPONENTIALS, env=environment)
    return dict(line.split() for line in done.out.splitlines())


@pytest.fixture
def argument() -> float:
    """A number whose exponential differs between two CPUs."""
    here, there = exponentials({}), exponentials(VARIANTS)
    for x, result in here.items():
        if there[x] != result:
            return float.fromhex(x)
    pytest.skip("the C library of this machine has no variants that round exp in another way")


def project(folder: Path, argument: float) -> Path:
    folder.mkdir()
    (folder / "targets.yaml").write_text(YAML)
    (folder / "app.mlir").write_text(KERNEL.replace("ARGUMENT", f"{argument!r}"))
    seed(folder)
    return folder


def code(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((folder / "build/app").iterdir()) if p.is_file()}


def test_two_machines_that_round_differently_share_no_folded_constant(
    tmp_path: Path, argument: float
) -> None:
    cache = {"GPUBUILD_CACHE_DIR": str(tmp_path / "here/cache")}
    here = project(tmp_path / "here", argument)
    gpubuild("build", cwd=here, env=cache, code=0)
    there = project(tmp_path / "there", argument)
    built = gpubuild("build", "--json", cwd=there, env=cache | VARIANTS, code=0)
    alone = project(tmp_path / "alone", argument)
    gpubuild("build", cwd=alone, env=VARIANTS, code=0)
    assert code(there) == code(alone)
    assert code(there) != code(here)
    ran = {step for step, status in built.statuses().items() if status == "ran"}
    assert {"app/compile/constants/cpu", "app/compile/constants/sm_60", "app/host"} <= ran


def test_machines_that_round_alike_share_keys_and_the_reason_of_a_difference_is_told(
    tmp_path: Path, argument: float
) -> None:
    here = project(tmp_path / "here", argument)
    gpubuild("build", cwd=here, code=0)
    alike = gpubuild("build", "--json", cwd=here, env=OTHER_COPIES)
    assert set(alike.statuses().values()) == {"up-to-date"}
    told = gpubuild("build", "--explain", cwd=here, env=VARIANTS).out
    lines = {line.split()[1]: line for line in told.splitlines()}
    for step in ("outline/app.mlir", "app/compile/constants/cpu", "app/host"):
        assert "host-math changed (still glibc" in lines[step]
    assert "tool host-math" in gpubuild("explain", "constants/cpu", "--all", cwd=here).out
    tools = {row["name"]: row for row in gpubuild("doctor", "--json", cwd=here).document["tools"]}
    assert tools["host-math"]["found"]
    assert tools["host-math"]["version"].startswith("glibc ")
