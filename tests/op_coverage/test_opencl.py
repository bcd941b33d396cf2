"""Every row of the table as SPIR-V, run by Intel's OpenCL runtime for CPUs and compared with NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from devices import at_hand
from devices.cases import operation, wrong
from devices.pack import RUN, Pack, read_results
from kernels.operations.groups import GROUPS
from kernels.program import Program, module_text
from op_coverage.opencl import CHIP, CRASH, REFUSED, reason
from unit.engine.device_steps import ChildCrashedError, compile_module

from gpubuild.errors import StepError

PER_MODULE = 40  # rows
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


def ran(folder: Path, modules: Iterable[tuple[Sequence[Program], bytes]]) -> dict[str, str]:
    """Launch all; what is wrong, by program."""
    pack = Pack(folder / "pack", CHIP)
    cases = []
    for number, (programs, image) in enumerate(modules):
        launches = [operation(program) for program in programs if program.runs]
        pack.add(f"rows.{number}", image, [case.launch for case in launches])
        cases += launches
    command = [sys.executable, pack.folder / RUN, folder / "results", "--device", "opencl"]
    environment = {**os.environ, **(at_hand.opencl() or {})}
    subprocess.run(command, check=False, env=environment, timeout=600)
    return wrong(cases, read_results(folder / "results"))


@pytest.mark.skipif(at_hand.opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
@pytest.mark.parametrize("programs", PARTS)
def test_is_right_on_opencl(tmp_path, programs):
    assert ran(tmp_path, compiled(programs)) == {}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_on_opencl(name):
    (program,) = (p for programs in GROUPS.values() for p in programs if p.name == name)
    expected = ChildCrashedError if REFUSED[name] == CRASH else StepError
    with pytest.raises(expected) as caught:
        compile_module(module_text([program]), CHIP)
    if REFUSED[name] == CRASH:
        return
    assert REFUSED[name] in str([str(caught.value), *(d.message for d in caught.value.diagnostics)])
