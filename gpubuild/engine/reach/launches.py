"""Launches: with what workgroups, grid and arguments the host code of a file launches a kernel."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.launch_check import KNOWN_SIZES, MAX_WORK_ITEMS
from gpubuild.engine.reach import integers
from gpubuild.engine.reach.walk import Situation, Triple

_SEGMENTS = "operandSegmentSizes"
_GRID, _BLOCK, _ARGUMENTS = 1, 4, 11  # groups of operands of a launch
_MOST = 6  # launches of a kernel that are looked at


class Launches:
    """The launches in ``module``, which are looked for when somebody asks."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._found: dict[str, list[Situation]] | None = None

    def known(self, name: str, kernel: ir.Operation) -> list[Situation]:
        """Of launches of kernel ``name`` (``@module::@kernel``): those whose workgroups have a known size.

        One without a launch if only the kernel says how large they are.
        """
        if self._found is None:
            self._found = {}
            for top in self._module.body:
                if top.operation.name != "gpu.module":
                    _look(top.operation, self._found)
        found = self._found.get(name, [])
        written = next((kernel.attributes[key] for key in KNOWN_SIZES if key in kernel.attributes), None)
        if not found and isinstance(written, ir.DenseI32ArrayAttr):
            found = [Situation(block=_triple(list(written)))]
        return [s for s in dict.fromkeys(found) if 1 < s.items <= MAX_WORK_ITEMS][:_MOST]


def _look(function: ir.Operation, into: dict[str, list[Situation]]) -> None:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    for launch in found:
        operands, groups = list(launch.operands), list(launch.attributes[_SEGMENTS])
        starts = [sum(groups[:place]) for place in range(len(groups))]
        numbers = [integers.number(operand) for operand in operands]
        block = numbers[starts[_BLOCK] : starts[_BLOCK] + 3]
        grid = numbers[starts[_GRID] : starts[_GRID] + 3]
        given = numbers[starts[_ARGUMENTS] :][: groups[_ARGUMENTS]]
        if not all(block):
            continue
        situation = Situation(
            block=_triple(block),
            grid=_triple(grid) if all(grid) else None,
            arguments=tuple((place, n) for place, n in enumerate(given) if n is not None),
            launch=launch,
        )
        into.setdefault(str(launch.attributes["kernel"]), []).append(situation)


def _triple(sizes: Sequence[int | None]) -> Triple:
    x, y, z = (size or 1 for size in [*sizes, 1, 1][:3])
    return x, y, z
