"""FileCheck tests of work-item fission: the workgroup function of each kernel in ``fission/``."""

import subprocess
import sys
from pathlib import Path

import pytest
from unit.engine.device_steps import in_child

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.cpu import compile as cpu
from gpubuild.engine.backends.cpu import passes
from gpubuild.engine.backends.cpu.fission.fission import fission_kernels
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import run_passes

FOLDER = Path(__file__).parent / "fission"


def cut(text: str) -> str:
    """The module after fission; ``no fission`` and why for kernels that are not cut."""
    with contexts.context():
        module = contexts.parse(text)
        run_passes(module, passes.LEGALIZE, passes.start(target_params("cpu"), SourceText()))
        contexts.run_passes(module, cpu.LOOP_PASSES)
        fissions = fission_kernels(contexts.gpu_modules(module)[0])
        contexts.verify(module.operation)
        refused = "".join(f"no fission of @{name}: {why}\n" for name, why in fissions.refused.items())
        return contexts.canonical_text(module) + refused


@pytest.mark.parametrize("name", sorted(file.name for file in FOLDER.glob("*.mlir")))
def test_file(name: str) -> None:
    check = subprocess.run(
        [sys.executable, "-m", "filecheck", FOLDER / name],
        input=in_child(cut, (FOLDER / name).read_text()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr
