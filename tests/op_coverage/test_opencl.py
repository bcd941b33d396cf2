"""Every row of the table as SPIR-V: valid, run by Intel's OpenCL runtime for CPUs and compared with NumPy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from devices import at_hand
from devices.cases import operation, wrong
from devices.pack import RUN, Pack, read_results
from kernels.operations.groups import GROUPS
from kernels.program import Program, module_text
from once import once
from op_coverage.opencl import CHIP, REFUSED, reason
from unit.engine.device_steps import compile_module

from gpubuild.errors import StepError
from gpubuild.model.digest import digest_bytes

PER_MODULE = 40
PARTS = [
    pytest.param(programs[first : first + PER_MODULE], id=f"{group}.{first // PER_MODULE}")
    for group, every in GROUPS.items()
    if (programs := [program for program in every if not reason(program)])
    for first in range(0, len(programs), PER_MODULE)
]
VALIDATOR = shutil.which("spirv-val")


def built(programs: Sequence[Program]) -> Path:
    """The SPIR-V module of ``programs``, which is compiled once in a run."""
    text = module_text(programs)

    def make(folder: Path) -> None:
        (folder / "k.spv").write_bytes(compile_module(text, CHIP).object)

    return once(f"opencl-{digest_bytes(text.encode())[:32]}", make) / "k.spv"


@pytest.mark.skipif(VALIDATOR is None, reason="needs spirv-val (Debian: spirv-tools)")
@pytest.mark.parametrize("programs", PARTS)
def test_is_valid(programs):
    command = [VALIDATOR, "--target-env", "spv1.3", built(programs)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(at_hand.opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
@pytest.mark.parametrize("programs", PARTS)
def test_is_right_on_opencl(tmp_path, programs):
    pack = Pack(tmp_path / "pack", CHIP)
    cases = [operation(program) for program in programs if program.runs]
    pack.add("rows", built(programs).read_bytes(), [case.launch for case in cases])
    command = [sys.executable, pack.folder / RUN, tmp_path / "results", "--device", "opencl"]
    subprocess.run(command, check=False, env={**os.environ, **(at_hand.opencl() or {})}, timeout=600)
    assert wrong(cases, read_results(tmp_path / "results")) == {}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_on_opencl(name):
    (program,) = (p for programs in GROUPS.values() for p in programs if p.name == name)
    with pytest.raises(StepError) as caught:
        compile_module(module_text([program]), CHIP)
    assert REFUSED[name] in str([str(caught.value), *(d.message for d in caught.value.diagnostics)])
