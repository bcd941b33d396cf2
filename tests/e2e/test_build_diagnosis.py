"""Mistakes that a build finds: each error names the program, the module, the kernel, the place and the target."""

# ruff: noqa: E501  (programs inside strings)

from __future__ import annotations

import json

import pytest
from e2e.command import gpubuild

KERNEL = """\
gpu.module @kernels {
  gpu.func @scale(%a: memref<?xf32>) kernel {
    gpu.return
  }
}
"""
LAUNCH = "gpu.launch_func @kernels::@scale blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)"
ARGUMENT = " args(%m : memref<?xf32>)"


def host(launch: str, kernel: str = KERNEL) -> str:
    """A file whose line 11 is the launch."""
    return f"""module attributes {{gpu.container_module}} {{
{kernel}func.func @main(%n: index, %m: memref<?xf32>) {{
  %c1 = arith.constant 1 : index
  %c2000 = arith.constant 2000 : index
  // here
  {launch}
  return
}}
}}
"""


KNOWN = KERNEL.replace("kernel {", "kernel attributes {known_block_size = array<i32: SIZE, 1, 1>} {")
PART = """%t = gpu.thread_id x
    %c9 = arith.constant 9 : index
    %some = arith.cmpi ult, %t, %c9 : index
    scf.if %some { gpu.barrier }
    gpu.return"""
DIVERGENT = KNOWN.replace("SIZE", "64").replace("gpu.return", PART)
FOREIGN = KERNEL.replace("gpu.return", "%x = nvvm.read.ptx.sreg.tid.x : i32\n    gpu.return")
# The file, its line, and what an error says; everything else is the same for all.
MISTAKES = {
    "oversized": (host(LAUNCH.replace("threads in (%c1", "threads in (%c2000") + ARGUMENT), 11,
                  "a workgroup of 2000 x 1 x 1 has more than 1024 work-items"),
    "known": (KNOWN.replace("SIZE", "2048"), 2, "a workgroup of 2048 x 1 x 1 has more than 1024 work-items"),
    "mismatch": (host(LAUNCH + ARGUMENT, KNOWN.replace("SIZE", "64")), 11,
                 "known_block_size is 64 x 1 x 1, and this launch has 1 x 1 x 1"),
    "count": (host(LAUNCH), 11, "got 0 kernel operands but expected 1"),
    "type": (host(LAUNCH + " args(%n : index)"), 11, "type of function argument 0 does not match"),
    "kernel": (host(LAUNCH.replace("@scale", "@scala") + ARGUMENT), 11, "kernel function '@kernels::@scala' is undefined"),
    "module": (host(LAUNCH.replace("@kernels", "@kernel") + ARGUMENT), 11, "kernel container 'kernel' is undefined"),
    "barrier": (DIVERGENT, 6, "work-item (0, 0, 0) waits here at gpu.barrier, but work-item (9, 0, 0)"),
    "foreign": (FOREIGN, 3, "'nvvm.read.ptx.sreg.tid.x' is an instruction of NVIDIA GPUs"),
}  # fmt: skip


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("mistakes")
    for name, (text, _, _) in MISTAKES.items():
        (folder / f"{name}.mlir").write_text(text)
    programs = {f"app_{name}": {"sources": [f"{name}.mlir"]} for name in MISTAKES}
    programs["other_count"] = programs["app_count"]
    document = {"version": 1, "targets": {"mine": {"kind": "rocdl", "chip": "gfx90a"}}, "programs": programs}
    (folder / "targets.yaml").write_text(json.dumps(document))
    done = gpubuild("build", "-k", cwd=folder, seeded=True, code=1)
    return done.err


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_name_everything(errors: str, name: str) -> None:
    _, line, says = MISTAKES[name]
    (error,) = [text for text in errors.split("\nerror: ") if f"{name}.mlir:{line}:" in text]
    assert says in error
    users = "programs app_count, other_count" if name == "count" else f"program app_{name}"
    assert f"({users}, " in error
    assert "kernel" in error.replace("@kernels", "")
    assert ("@scala" if name == "kernel" else "@scale") in error
    assert ("@kernel" if name == "module" else "@kernels") in error
    if name == "foreign":  # the others are wrong for every target
        assert "module @kernels, kernel @scale, target mine, stage" in error
