"""Table: all programs by dialect, and docs/reference/coverage.md made of them."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from devices import record
from kernels.operations import vendor_survey
from kernels.operations.groups import GROUPS
from kernels.program import CPU, NVIDIA_CHIPS, TARGETS, Program
from op_coverage import host_ops, opencl
from simulators.amd_code import record as code_record
from simulators.device_ir.rows import form_for

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "coverage.md"
_INTRODUCTION = """# What compiles and runs where

Made by `python tests/op_coverage/table.py` from the programs in `tests/kernels/operations`; do not edit.
Each row is one kernel; [operations](operations.md) has whole programs.

- **yes** under a GPU: compiled and assembled for that chip, or for the one in brackets.
- **PTX right**: also, the shipped PTX was executed on the host, after the PTX ISA, and the results
  equal NumPy's. This does not test ptxas and the chip ([how](../design/simulators.md)).
- **IR right**: the same for the LLVM IR that the chip's code generator receives. This does not test
  the code generator, the assembler and the chip.
- **code right**: the same for the shipped machine code, in a third party's emulator of AMD's
  instructions ([how](../how-to/gpu-tests.md#machine-code-without-a-gpu)).
- **right** under the CPU: run in the kernel's tier and with fibers, compared with NumPy.
- **right** under OpenCL: run as SPIR-V by Intel's OpenCL runtime for CPUs, compared with NumPy.
- ± is the allowed error, in units in the last place.
- The last column lists [runs on GPUs](../how-to/gpu-tests.md).
- A number refers to the reason below the table; a test compares it with the error message.
"""


def opencl_counts() -> str:
    """How many kernels of the table OpenCL devices run; a test runs each, so none is wrong."""
    every = [program for programs in GROUPS.values() for program in programs]
    refused = sum(bool(opencl.reason(program)) for program in every)
    run = sum(program.runs and not opencl.reason(program) for program in every)
    return (
        f"Of {len(every)} rows, OpenCL executes {run}; {refused} are refused with a reason;\n"
        f"{len(every) - run - refused} only compile; no result is wrong.\n"
    )


def render() -> str:
    """The document."""
    reasons: dict[str, int] = {}
    parts = [_INTRODUCTION, opencl_counts()]
    for group, programs in GROUPS.items():
        parts.append(f"## {group}\n")
        parts.append("| op | " + " | ".join(TARGETS) + " | OpenCL | ran on a GPU |")
        parts.append("|---|" + "---|" * (len(TARGETS) + 2))
        for program in programs:
            cells = [_cell(program, target, reasons) for target in TARGETS]
            cells += [_opencl(program, reasons), record.answer(program.name)]
            parts.append(f"| {program.op.replace('|', chr(92) + '|')} | {' | '.join(cells)} |")
        parts.append("")
    parts.append(host_ops.render())
    parts.append(vendor_survey.render())
    parts.append("## Reasons\n")
    parts += [f"{number}. {reason}" for reason, number in reasons.items()]
    return "\n".join(parts) + "\n"


def _cell(program: Program, target: str, reasons: dict[str, int]) -> str:
    run = form_for(program, target)
    if target in program.refused and run is None:
        return f"no ({reasons.setdefault(program.refused[target], len(reasons) + 1)})"
    if target != CPU:
        chip = program.chips.get(target)
        executed = code_record.is_right(program, chip or target)
        ran = "PTX" if target in NVIDIA_CHIPS else "code" if executed else "IR"
        answer = f"{ran} {_right(run)}" if run is not None else "yes"
        return f"{answer} ({chip})" if chip else answer
    return _right(program) if program.runs else "compiles"


def _opencl(program: Program, reasons: dict[str, int]) -> str:
    if reason := opencl.reason(program):
        return f"no ({reasons.setdefault(reason, len(reasons) + 1)})"
    return _right(program) if program.runs else "compiles"


def _right(program: Program) -> str:
    return f"right ± {program.tolerance_ulp:g}" if program.tolerance_ulp else "right"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
