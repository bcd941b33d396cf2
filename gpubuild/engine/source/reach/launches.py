"""Launches: with what workgroups, grid and arguments the host code of a file launches a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from gpubuild.engine.source import launch_checks
from gpubuild.engine.source.launch_checks import KNOWN_SIZES, MAX_WORK_ITEMS
from gpubuild.engine.source.reach.walk import Situation, Triple

_MOST = 6  # launches of a kernel that are looked at
_UNKNOWN: Triple = (0, 0, 0)  # a workgroup's size
_FUNCTIONS = frozenset({"func.func", "llvm.func"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """``situations``: launches whose workgroups have a known size of more than one work-item.

    ``others``: there are launches of which nothing is known, or that are right whatever the kernel does.
    """

    situations: tuple[Situation, ...]
    others: bool


class Launches:
    """The launches in ``module``, which are looked for when somebody asks."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._found: dict[str, list[Situation]] | None = None

    def known(self, name: str, kernel: ir.Operation) -> Launched:
        """Of launches of kernel ``name`` (``@module::@kernel``): what is known of them.

        One without a launch if only the kernel says how large its workgroups are.
        """
        if self._found is None:
            self._found = {}
            for top in self._module.body:
                if top.operation.name != "gpu.module":
                    _look(top.operation, self._found)
        written = next((kernel.attributes[key] for key in KNOWN_SIZES if key in kernel.attributes), None)
        size = _triple(list(written)) if isinstance(written, ir.DenseI32ArrayAttr) else _UNKNOWN
        found = [s if s.items else replace(s, block=size) for s in self._found.get(name, [])]
        if name not in self._found and size != _UNKNOWN:
            found = [Situation(block=size)]
        # Of several that differ in nothing but where they stand, one is enough.
        alike = {(s.block, s.grid, s.arguments, s.certain): s for s in reversed(found)}
        distinct = list(reversed(alike.values()))
        large = tuple(s for s in distinct if 1 < s.items <= MAX_WORK_ITEMS)
        return Launched(situations=large[:_MOST], others=len(large[:_MOST]) < len(distinct))


def _look(function: ir.Operation, into: dict[str, list[Situation]]) -> None:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.launch_func":
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    for launch in found:
        block, grid = launch_checks.block(launch), launch_checks.grid(launch)
        same = into.setdefault(str(launch.attributes["kernel"]), [])
        if 0 in block or 0 in grid:
            continue  # nothing runs
        situation = Situation(
            block=_triple(block) if all(block) else _UNKNOWN,
            grid=_triple(grid) if all(grid) else None,
            arguments=tuple(
                (place, n) for place, n in enumerate(launch_checks.arguments(launch)) if n is not None
            ),
            launch=launch,
            certain=_is_certain(launch),
        )
        same.append(situation)


def _is_certain(launch: ir.Operation) -> bool:
    """Whether ``launch`` happens whenever its function runs: no condition or loop is around it."""
    holder = launch.parent.operation
    return holder.name in _FUNCTIONS and launch.block == holder.regions[0].blocks[0]


def _triple(sizes: Sequence[int | None]) -> Triple:
    x, y, z = (size or 1 for size in [*sizes, 1, 1][:3])
    return x, y, z
