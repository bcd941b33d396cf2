"""Every operation of the table as SPIR-V: valid, run by Intel's OpenCL runtime, compared with NumPy."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from devices import at_hand
from devices.cases import operation, wrong
from devices.pack import Pack
from kernels.operations.groups import GROUPS
from kernels.program import Program, module_text
from once import once
from op_coverage.compiling import each_operation, in_sample
from op_coverage.opencl import CHIP, REFUSED, reason
from unit.engine.device_steps import compile_module

from gpubuild.errors import StepError
from gpubuild.model.digest import digest_bytes

VALIDATOR = shutil.which("spirv-val")
ALLOWED = {group: [p for p in every if not reason(p)] for group, every in GROUPS.items()}
# A third of the operations: Intel's compiler takes most of the time.
RUN = {
    group: rows
    for group, every in ALLOWED.items()
    if (rows := [p for p in each_operation(every) if in_sample(p, 3)])
}


def built(programs: Sequence[Program]) -> Path:
    """The SPIR-V module of ``programs``, which is compiled once in a run."""
    text = module_text(programs)

    def make(folder: Path) -> None:
        (folder / "k.spv").write_bytes(compile_module(text, CHIP).object)

    return once(f"opencl-{digest_bytes(text.encode())[:32]}", make) / "k.spv"


@pytest.mark.skipif(VALIDATOR is None, reason="needs spirv-val (Debian: spirv-tools)")
@pytest.mark.parametrize("programs", [pytest.param(rows, id=group) for group, rows in RUN.items()])
def test_is_valid(programs):
    command = [VALIDATOR, "--target-env", "spv1.3", built(programs)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(at_hand.opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
@pytest.mark.parametrize("group", RUN)
def test_is_right_on_opencl(tmp_path, group):
    pack = Pack(tmp_path / "pack", CHIP)
    cases = [operation(program) for program in RUN[group] if program.runs]
    pack.add("rows", built(RUN[group]).read_bytes(), [case.launch for case in cases])
    assert wrong(cases, pack.run(at_hand.OPENCL)) == {}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_on_opencl(name):
    (program,) = (p for programs in GROUPS.values() for p in programs if p.name == name)
    with pytest.raises(StepError) as caught:
        compile_module(module_text([program]), CHIP)
    assert REFUSED[name] in str([str(caught.value), *(d.message for d in caught.value.diagnostics)])
