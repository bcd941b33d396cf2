"""Run pass pipelines of the user, in which gpubuild takes the place of ``gpu-module-to-binary``.

MLIR expands named pipelines, such as ``gpu-lower-to-nvvm-pipeline``, when it prints them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.errors import StepError

_SERIALIZE = "gpu-module-to-binary"
# As MLIR prints it. The toolkit's folder is of no use to gpubuild, which finds its tools.
_WITHOUT_OPTIONS = re.compile(
    rf"{_SERIALIZE}{{format=(?:fatbin|fatbinary|bin|binary) +opts= section= toolkit=\S*}}"
)
# Formats that MLIR makes without tools and files of the machine, which would be in no key.
_BY_MLIR = re.compile(rf"{_SERIALIZE}{{format=(?:isa|assembly|llvm|offload) +opts= section=\S* toolkit=}}")
_SIZES = "intersperse-sizes-for-kernels"


def run(
    module: ir.Module, pipeline: str, *, source: SourceText, serializes: Callable[[ir.Module, bool], bool]
) -> None:
    """Run ``pipeline`` on ``module``; messages show lines of ``source``. Raises ``StepError``.

    ``gpu-module-to-binary`` is left out where the build ``serializes`` the gpu.modules of the module, given
    the module and whether MLIR can make the format without other tools.
    """
    expanded = str(contexts.parse_pipeline(pipeline))
    if f"{_SIZES}=true" in expanded:
        raise StepError(
            f"the pass pipeline has the option {_SIZES}: it appends sizes for the Vulkan runtime, and the "
            "runtime of gpubuild passes to kernels the arguments that they have",
            hint=f"leave out {_SIZES}",
        )
    if _SERIALIZE not in expanded:
        contexts.run_passes(module, pipeline, source=source, log=True)
        return
    anchor, _, passes = expanded.removesuffix(")").partition("(")
    pending: list[str] = []

    def run_pending() -> None:
        contexts.run_passes(module, f"{anchor}({','.join(pending)})", source=source, log=True)
        pending.clear()

    for one in _split(passes):
        if one.startswith(_SERIALIZE):
            run_pending()
            if serializes(module, _BY_MLIR.fullmatch(one) is not None):
                _check_serialization(one)
                continue
        pending.append(one)
    run_pending()


def _split(passes: str) -> Iterator[str]:
    """Yield the passes of a list, whose options and nested pipelines may contain commas."""
    depth = start = 0
    for at, letter in enumerate(passes):
        depth += (letter in "({") - (letter in ")}")
        if letter == "," and not depth:
            yield passes[start:at]
            start = at + 1
    yield passes[start:]


def _check_serialization(one: str) -> None:
    """Raise ``StepError`` for options of a ``gpu-module-to-binary`` that gpubuild carries out."""
    if not _WITHOUT_OPTIONS.fullmatch(one):
        raise StepError(
            f"gpubuild carries out {' '.join(one.split())}, without its options",
            hint="write them for targets in targets.yaml (`format:`, `device_libs:`, `ptxas_options:`), and "
            "leave them out of the pass pipeline",
        )
