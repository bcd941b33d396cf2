"""Products in tiles, split reductions, control flow: NumPy's results, equal bits on all devices."""

import os
import sys
from pathlib import Path

import pytest
from devices import at_hand
from e2e.command import execute, gpubuild, project_file
from simulators.cuda_driver import standin
from variants import VARIANTS

TENSORS = Path(__file__).parent / "tensors"
# No device here runs the code for AMD.
TARGETS = "sm_60: {}, spirv: {}, cpu: {}" + ", gfx90a: {}" * VARIANTS


@pytest.fixture(scope="module", params=["products", "reductions", "flow"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a library, whose program is `check_NAME.py`."""
    name = request.param
    folder = tmp_path_factory.mktemp(name)
    source = os.path.relpath(TENSORS / f"{name}.mlir", folder)
    program = f"{name}: {{sources: [{source}], pipeline: linalg, product: shared}}"
    yaml = project_file(program, targets=TARGETS)
    (folder / "targets.yaml").write_text(yaml)
    outcome = gpubuild("build", cwd=folder, seeded=True, code=0)
    assert "stays on the host" not in outcome.out + outcome.err
    return folder / "build" / name


def bits(folder: Path, **environment: str) -> str:
    variables = os.environ | {"PYTHONPATH": str(folder)} | environment
    return execute(sys.executable, TENSORS / f"check_{folder.name}.py", env=variables).out


@pytest.fixture(scope="module")
def on_the_cpu(folder: Path) -> str:
    found = bits(folder, GPUBUILD_DEVICE="cpu", GPUBUILD_CPU_THREADS="2")
    assert bits(folder, GPUBUILD_DEVICE="cpu", GPUBUILD_CPU_THREADS="1") == found
    return found


def test_with_memory_apart(folder: Path, on_the_cpu: str, tmp_path: Path) -> None:
    standin.translate(list(folder.glob("*.sm_60.ptx")), "7.0", tmp_path)
    assert bits(folder, **standin.environment("7.0", modules=tmp_path)) == on_the_cpu


@at_hand.NEEDS_OPENCL
def test_on_opencl(folder: Path, on_the_cpu: str) -> None:
    assert bits(folder, **{**(at_hand.opencl() or {}), "GPUBUILD_DEVICE": "opencl"}) == on_the_cpu
