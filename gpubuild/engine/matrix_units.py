"""Matrix units: which ``gpu.subgroup_mma_*`` code NVIDIA's tensor cores run, by shape, type and chip.

Upstream's lowering aborts, or makes code that LLVM aborts on, where a chip lacks what a module wants.
Such a module is compiled without its units as a whole, since who holds which element must not change
from one op to the next. Source of the numbers: "wmma" in the PTX ISA manual, sections of
wmma.load, wmma.store and wmma.mma ("Target ISA Notes").
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.chips import sm_number
from gpubuild.engine.exchange import last_word
from gpubuild.engine.matrix_tiles import MatrixType

_PREFIX = "gpu.subgroup_mma_"
_LARGE = ((16, 16, 16), (32, 8, 16), (8, 32, 16))  # rows, columns and depth
# By the elements of the factors and of the result.
_UNITS: dict[tuple[str, str], tuple[int, tuple[tuple[int, int, int], ...]]] = {
    ("f16", "f16"): (70, _LARGE),
    ("f16", "f32"): (70, _LARGE),
    ("si8", "i32"): (72, _LARGE),
    ("ui8", "i32"): (72, _LARGE),
    ("f32", "f32"): (80, ((16, 16, 8),)),  # as tf32
    ("f64", "f64"): (80, ((8, 8, 4),)),
}
_FUNCTIONS = frozenset({"addf", "mulf", "divf", "maxf", "minf", "subf", "negatef"})
_OPS = frozenset(_PREFIX + n for n in ("load_matrix", "store_matrix", "constant_matrix", "compute"))


def units_lack(module: ir.Operation, chip: str) -> str:
    """What in ``module`` the units of NVIDIA's ``chip`` cannot do; empty when they can do all."""
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(_PREFIX) and (reason := _lack(op, sm_number(chip))):
            found.append(f"'{op.name}' {reason}")
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return found[0] if found else ""


def _lack(op: ir.Operation, chip: int) -> str:
    if op.name == _PREFIX + "elementwise":
        function = last_word(op.attributes["opType"])
        if function not in _FUNCTIONS:
            return function
    elif op.name not in _OPS:
        return "of single elements"
    matrices = [m for v in (*op.operands, *op.results) if (m := MatrixType.of(v.type))]
    for matrix in matrices:
        since = _PARTS.get((matrix.role, matrix.element, matrix.rows, matrix.columns))
        if since is None or chip < since:
            return f"of {matrix.rows}x{matrix.columns} {matrix.element} elements"
    if op.name == _PREFIX + "compute":
        left, right, result = matrices[:3]
        _, shapes = _UNITS.get((left.element, result.element), (0, ()))
        if left.element != right.element or (left.rows, right.columns, left.columns) not in shapes:
            return (
                f"of {left.rows}x{left.columns} {left.element} and "
                f"{right.rows}x{right.columns} {right.element} factors to {result.element}"
            )
    return ""


def _parts() -> dict[tuple[str, str, int, int], int]:
    """Every matrix that some multiplication takes or gives, with the oldest chip that has it."""
    parts: dict[tuple[str, str, int, int], int] = {}
    for (factor, result), (since, shapes) in _UNITS.items():
        for rows, columns, depth in shapes:
            for part in (
                ("A", factor, rows, depth),
                ("B", factor, depth, columns),
                ("C", result, rows, columns),
            ):
                parts[part] = min(since, parts.get(part, since))
    return parts


_PARTS = _parts()
