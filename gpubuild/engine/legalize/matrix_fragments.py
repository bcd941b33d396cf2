"""Matrix tiles: which part of a ``!gpu.mma_matrix`` each work-item of a subgroup holds.

The dialect leaves this open. Here the result of a multiplication is cut into equal tiles, one for each
lane, and a lane also holds what it needs to compute its tile: the rows of A and the columns of B
that meet in it. So no lane ever needs a value of another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir import ir

_TYPE = re.compile(r'!gpu\.mma_matrix<(\d+)x(\d+)x(\w+), "(\w)Op">')


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixType:
    """A ``!gpu.mma_matrix``: ``role`` is A, B or C, ``element`` is text such as ``si8``."""

    rows: int
    columns: int
    element: str
    role: str

    @classmethod
    def of(cls, kind: ir.Type) -> MatrixType | None:
        """What ``kind`` says; ``None`` when it is no matrix."""
        match = _TYPE.fullmatch(str(kind))
        if match is None:
            return None
        return cls(rows=int(match[1]), columns=int(match[2]), element=match[3], role=match[4])

    @property
    def scalar(self) -> ir.Type:
        """The element type as arithmetic has it, without a sign."""
        return ir.Type.parse(self.element.lstrip("su"))

    @property
    def unsigned(self) -> bool:
        """Whether elements count from nought up."""
        return self.element.startswith("u")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """A matrix cut into ``down`` x ``across`` tiles of ``rows`` x ``columns`` elements."""

    down: int
    across: int
    rows: int
    columns: int

    @classmethod
    def cut(cls, rows: int, columns: int, lanes: int) -> Tiles:
        """As small as they can be with one for each of at most ``lanes`` lanes; wide rather than high."""
        choices = [
            (height * width, height, width)
            for height in _divisors(rows)
            for width in _divisors(columns)
            if (rows // height) * (columns // width) <= lanes
        ]
        _, height, width = min(choices)
        return cls(down=rows // height, across=columns // width, rows=height, columns=width)

    @property
    def count(self) -> int:
        """How many lanes hold a tile of their own."""
        return self.down * self.across


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """What a lane holds of a matrix: ``rows`` x ``columns`` elements, a vector of rows.

    It begins at row ``rows * tile row`` unless ``all_rows``, and likewise for columns.
    """

    tiles: Tiles
    rows: int
    columns: int
    all_rows: bool
    all_columns: bool
    matrix: MatrixType

    @classmethod
    def of(cls, matrix: MatrixType, tiles: Tiles) -> Fragment:
        """The part of ``matrix`` that a lane needs for its tile of the result."""
        all_rows, all_columns = matrix.role == "B", matrix.role == "A"
        return cls(
            tiles=tiles,
            rows=matrix.rows if all_rows else tiles.rows,
            columns=matrix.columns if all_columns else tiles.columns,
            all_rows=all_rows,
            all_columns=all_columns,
            matrix=matrix,
        )

    @property
    def vector(self) -> ir.VectorType:
        """The type of the value that a lane has in place of the matrix."""
        return ir.VectorType.get([self.rows, self.columns], self.matrix.scalar)


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]
