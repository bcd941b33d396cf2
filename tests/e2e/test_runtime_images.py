"""The runtime reads the chips of objects that the real tools make."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.runtime.conftest import built_runtime, runtime  # noqa: F401  (fixtures)
from unit.runtime.programs import Runtime

from gpubuild.engine.ir import llvm
from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain
from gpubuild.toolchain.run import run_tool

LIST = "mgpuModuleGetFunction(load(0), b'k')"


def tool(name: str) -> list[str | Path]:
    found = Toolchain(Settings.from_environ()).find(name)
    if found is None:
        pytest.skip(f"no {name}")
    return list(found.command)


@pytest.mark.parametrize(
    ("chip", "version", "told"),
    [
        ("sm_60", "7.8", "sm_60"),
        ("sm_75", "7.8", "sm_75"),
        ("sm_90", "8.0", "sm_90"),
        ("sm_90a", "8.0", "sm_90a"),
        ("sm_100", "8.6", "sm_100"),
        ("sm_100a", "8.6", "sm_100a"),
        ("sm_100f", "8.8", "sm_100"),  # a cubin does not say that it is for a family; it runs on one anyway
        ("sm_120", "8.7", "sm_120"),
    ],
)
def test_cubin(runtime: Runtime, tmp_path: Path, chip: str, version: str, told: str) -> None:  # noqa: F811
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(
        f".version {version}\n.target {chip}\n.address_size 64\n.visible .entry k() {{ ret; }}\n"
    )
    run_tool([*tool("ptxas"), f"-arch={chip}", source, "-o", cubin], cwd=tmp_path).check("assemble")
    done = runtime.run(LIST, cubin.read_bytes(), device="cuda")
    assert f"{told} (cubin, " in done.err
    done = runtime.run(LIST, source.read_bytes(), device="cuda")
    assert f"{chip} (ptx, " in done.err


@pytest.mark.parametrize(
    ("chip", "features", "told"),
    [
        ("gfx90a", "", "gfx90a"),
        ("gfx90a", "+sramecc,-xnack", "gfx90a:sramecc+:xnack-"),
        ("gfx1100", "", "gfx1100"),
    ],
)
def test_hsaco(runtime: Runtime, tmp_path: Path, chip: str, features: str, told: str) -> None:  # noqa: F811
    machine = llvm.target_machine("amdgcn-amd-amdhsa", chip, features, 2)
    text = 'target triple = "amdgcn-amd-amdhsa"\ndefine amdgpu_kernel void @k() { ret void }\n'
    module = llvm.parse_assembly(text, llvm.new_context("amdgcn"))
    llvm.set_target(module, machine)
    linked = tmp_path / "k.hsaco"
    (tmp_path / "k.o").write_bytes(llvm.emit_object(module, machine))
    run_tool([*tool("ld.lld"), "-shared", tmp_path / "k.o", "-o", linked], cwd=tmp_path).check("link")
    done = runtime.run(LIST, linked.read_bytes(), device="hip")
    assert f": {told} (hsaco, " in done.err
