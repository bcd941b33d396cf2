"""Every row of the table as SPIR-V, run by Intel's OpenCL runtime for CPUs and compared with NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest
from devices import at_hand
from devices.cases import operation, wrong
from devices.pack import RUN, Pack, read_results
from kernels.operations.groups import GROUPS
from kernels.program import Program, module_text
from op_coverage.opencl import CHIP, CRASH, REFUSED, reason
from unit.engine.device_steps import ChildCrashedError, compile_module

from gpubuild.errors import StepError

PER_MODULE = 10  # rows: LLVM makes invalid modules of many kernels that use subgroups
PARTS = [
    pytest.param(programs[first : first + PER_MODULE], id=f"{group}.{first // PER_MODULE}")
    for group, every in GROUPS.items()
    if (programs := [program for program in every if not reason(program)])
    for first in range(0, len(programs), PER_MODULE)
]


def compiled(programs: Sequence[Program]) -> Iterator[tuple[Sequence[Program], bytes]]:
    """As few modules as possible: LLVM ends the process for some modules of many kernels."""
    try:
        image = compile_module(module_text(programs), CHIP).object
    except (StepError, ChildCrashedError):
        if len(programs) == 1:
            raise
        middle = len(programs) // 2
        yield from compiled(programs[:middle])
        yield from compiled(programs[middle:])
    else:
        yield programs, image


@pytest.mark.parametrize("programs", PARTS)
def test_is_right_on_opencl(tmp_path, programs):
    if (found := at_hand.opencl()) is None:
        pytest.skip("needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
    pack = Pack(tmp_path / "pack", CHIP)
    cases = []
    for number, (some, image) in enumerate(compiled(programs)):
        launches = [operation(program) for program in some if program.runs]
        pack.add(f"rows.{number}", image, [case.launch for case in launches])
        cases += launches
    command = [sys.executable, pack.folder / RUN, tmp_path / "results", "--device", "opencl"]
    subprocess.run(command, check=False, env={**os.environ, **found}, timeout=600)
    assert wrong(cases, read_results(tmp_path / "results")) == {}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_on_opencl(name):
    (program,) = (p for programs in GROUPS.values() for p in programs if p.name == name)
    expected = ChildCrashedError if REFUSED[name] == CRASH else StepError
    with pytest.raises(expected) as caught:
        compile_module(module_text([program]), CHIP)
    if REFUSED[name] == CRASH:
        return
    assert REFUSED[name] in str([str(caught.value), *(d.message for d in caught.value.diagnostics)])
