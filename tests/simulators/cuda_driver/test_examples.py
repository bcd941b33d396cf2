"""Every example, whole, through the real CUDA layer of the runtime, on the stand-in of the driver."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from e2e.built_examples import built_examples
from e2e.command import ROOT
from simulators.cuda_driver import standin

from gpubuild.config.load import load_project

EXAMPLES = ROOT / "examples"
PROJECT = load_project(ROOT / "targets.yaml")
NVIDIA = [name for name, p in PROJECT.programs.items() if {"sm_60", "sm_90"} & set(p.targets)]
ORDERS = ({}, {"EMU_CUDA_BACKWARDS": "1"}, {"EMU_CUDA_ORDER": "early"})


def device_of(name: str) -> tuple[str, str]:
    """A chip that the example has PTX for, and a device that is newer, for which there is no machine code."""
    return ("sm_60", "7.0") if "sm_60" in PROJECT.programs[name].targets else ("sm_90", "10.0")


@pytest.fixture(scope="module")
def build_dir() -> Path:
    return built_examples() / "build"


@pytest.fixture(scope="module")
def modules(build_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    for chip, device in {device_of(name) for name in NVIDIA}:
        files = [f for n in NVIDIA if device_of(n)[0] == chip for f in (build_dir / n).glob(f"*.{chip}.ptx")]
        standin.translate(files, device, folder)
    return folder


def run(
    build_dir: Path, modules: Path, name: str, device: str, *arguments: str | Path, **more: str
) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], **standin.environment(device, modules=modules), **more}
    return subprocess.run(
        [build_dir / name / name, *arguments],
        check=False, capture_output=True, text=True, timeout=120, cwd=build_dir, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize("name", NVIDIA)
def test_prints_what_it_prints_elsewhere(build_dir: Path, modules: Path, name: str) -> None:
    for order in ORDERS:
        done = run(build_dir, modules, name, device_of(name)[1], **order)
        expected = (EXAMPLES / name / "expected.txt").read_text()
        assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0), order


def test_the_trace_names_the_stand_in_and_the_ptx(build_dir: Path, modules: Path) -> None:
    err = run(build_dir, modules, "saxpy", "7.0", GPUBUILD_TRACE="1").stderr
    assert f"device cuda:0 ({standin.NAME}, sm_70)" in err
    assert "image sm_60 of target sm_60 (ptx, " in err


def test_machine_code_is_refused_and_so_is_a_device_without_an_image(build_dir: Path, modules: Path) -> None:
    done = run(build_dir, modules, "saxpy", "9.0")
    assert done.returncode == 1
    assert "cuModuleLoadData failed with CUDA_ERROR_NO_BINARY_FOR_GPU (209)" in done.stderr
    assert "machine code of GPUs cannot be run here, only PTX" in done.stderr
    assert "  target: sm_90 (cubin)\n" in done.stderr
    older = run(build_dir, modules, "saxpy", "5.2")
    assert (older.returncode, "PTX for a newer chip" in older.stderr) == (1, True)


def test_the_ptx_beside_a_cubin_is_run_in_its_place(build_dir: Path, modules: Path) -> None:
    """Such as for chips with a suffix, whose PTX is not in the executable."""
    done = run(build_dir, modules, "saxpy", "9.0", EMU_CUDA_BUILD=f"/nowhere:{build_dir / 'saxpy'}")
    expected = (EXAMPLES / "saxpy" / "expected.txt").read_text()
    assert (done.stdout, done.stderr, done.returncode) == (expected, "", 0)
