"""FileCheck tests of work-item fission: the workgroup function of each kernel in ``fission/``."""

import subprocess
import sys
from pathlib import Path

import pytest
from unit.engine.device_steps import in_child

from gpubuild.engine.backends.cpu.lowering import PASSES, new_lowering
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.passes import run_passes, selected
from gpubuild.model.step import CompileParams
from gpubuild.targets.target import Kind

FOLDER = Path(__file__).parent / "fission"


def cut(text: str) -> str:
    """The module after fission; ``no fission`` and why for kernels that are not cut."""
    with contexts.context():
        module = contexts.parse(text)
        params = CompileParams(module="k", kind=Kind.CPU, triple="", chip="", target="cpu")
        run_passes(module, selected(PASSES, "expand-matrices", "fission"), new_lowering(module, text, params))
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
