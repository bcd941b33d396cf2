"""Launched: what a `gpu.launch_func` has as sizes and arguments, where that is computed from constants."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.reach.integers import number

_SEGMENTS = "operandSegmentSizes"
_GRID, _BLOCK, _ARGUMENTS = 1, 4, 11  # groups of operands; tokens come first


def grid(launch: ir.Operation) -> list[int | None]:
    """Workgroups in x, y and z; ``None`` where only a run tells."""
    return _numbers(launch, _GRID, 3)


def block(launch: ir.Operation) -> list[int | None]:
    """Work-items of a workgroup in x, y and z; ``None`` where only a run tells."""
    return _numbers(launch, _BLOCK, 3)


def arguments(launch: ir.Operation) -> list[int | None]:
    """What the kernel is given, where that is a number; ``None`` for all else."""
    return _numbers(launch, _ARGUMENTS, 1)


def kernel_name(kernels: ir.Operation, function: ir.Operation) -> str:
    """``@module::@kernel``, as launches write it; empty for what is no function."""
    if "sym_name" not in function.attributes:
        return ""
    names = [kernels.attributes["sym_name"].value, function.attributes["sym_name"].value]
    return str(ir.SymbolRefAttr.get(names))


def shape(extents: Sequence[int | None]) -> str:
    """Extents as messages have them: ``64 x 1 x 1``, with ``?`` for what is not known."""
    return " x ".join("?" if extent is None else str(extent) for extent in extents)


def _numbers(launch: ir.Operation, group: int, groups: int) -> list[int | None]:
    sizes = list(launch.attributes[_SEGMENTS])
    first = sum(sizes[:group])
    return [
        number(value) for value in list(launch.operands)[first : first + sum(sizes[group : group + groups])]
    ]
