"""Clang link: clang-linker-wrapper in front of the compiler that links (``offload: clang``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpubuild.engine.io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.params import LinkParams
from gpubuild.toolchain.clang import CUDA, WRAPPER, hidden, wrapper_options
from gpubuild.toolchain.run import ToolRun, run_tool

_UNKNOWN_CHIP = re.compile(r"nvlink fatal +: Value '(sm_\w+)' is not defined for option 'arch'")
_DUPLICATES = re.compile(r"duplicate symbol: (.+)|Multiple definition of '(.+?)'")


def run_wrapper(params: LinkParams, io: StepIO, driver: str, arguments: Sequence[str | Path]) -> ToolRun:
    """Have the wrapper link device code and then run tool ``driver`` with ``arguments`` and the result.

    Raises ``StepError`` when the driver is not one program.
    """
    linker = io.tool(driver)
    if len(linker) != 1:
        raise StepError(
            f"offload: clang cannot link with {' '.join(linker)}: {WRAPPER} runs a command of one word only",
            hint="install gcc or clang with the C library's development files, or set GPUBUILD_CC",
        )
    cuda = [f"--cuda-path={io.tool(CUDA)[0]}"] if io.has_tool(CUDA) else []
    command = [
        *io.tool(WRAPPER),
        *wrapper_options(params.wrapper_triple),
        *cuda,
        f"--linker-path={linker[0]}",
        *(hidden(str(argument)) for argument in arguments),
    ]
    # Its intermediate files lie where the step's own do, and go with them.
    environment = {"TMPDIR": str(io.scratch), "SOURCE_DATE_EPOCH": "0"}
    return run_tool(command, cwd=io.scratch, environment=environment)


def explain(output: str) -> StepError | None:
    """What to tell about a failed link of device code; ``None`` where that is not what failed."""
    names = sorted({one or other for one, other in _DUPLICATES.findall(output)})
    if unknown := _UNKNOWN_CHIP.search(output):
        return StepError(
            f"cannot link: the nvlink found does not know {unknown[1]}",
            hint="set CUDA_PATH to a CUDA that has the chip, or leave the target out of this program",
        )
    if not names:
        return None
    return StepError(
        f"cannot link: {', '.join(names)} is defined more than once",
        hint="offload: clang links the kernels of all gpu.modules for a chip into one image, so their names "
        "must differ: rename one, or use offload: dispatch",
    )
