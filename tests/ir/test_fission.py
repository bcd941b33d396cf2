"""FileCheck tests of work-item fission: the workgroup function of each kernel in ``fission/``."""

import subprocess
import sys
from pathlib import Path

import pytest
from unit.engine.device_steps import in_child

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.cpu.passes import PASSES, start
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import run_passes, selected

FOLDER = Path(__file__).parent / "fission"


def cut(text: str) -> str:
    """The module after fission; ``no fission`` and why for kernels that are not cut."""
    with contexts.context():
        module = contexts.parse(text)
        lowering = start(target_params("cpu"), SourceText(text))
        run_passes(module, selected(PASSES, "expand-vector-type-casts", "fission"), lowering)
        contexts.verify(module.operation)
        return contexts.canonical_text(module)


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
