"""Printed: what a program prints, as the lines in which FileCheck looks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class AnyOrder:
    """Lines that work-items print, none of which waits for another."""

    lines: Sequence[str]


Printed: TypeAlias = Sequence[np.ndarray | str | AnyOrder]  # arrays as ``printMemref…`` prints them


def check_lines(printed: Printed) -> list[str]:
    """The comments at the end of a program."""
    lines: list[str] = []
    for item in printed:
        if isinstance(item, AnyOrder):
            lines += [f"// CHECK-DAG: {line}" for line in item.lines]
        else:
            first, *rest = [item] if isinstance(item, str) else _memref(item)
            lines += [f"// CHECK: {first}", *(f"// CHECK-NEXT: {line}" for line in rest)]
    return lines


def _memref(array: np.ndarray) -> Iterator[str]:
    sizes = ", ".join(map(str, array.shape))
    strides = ", ".join(str(int(np.prod(array.shape[n + 1 :]))) for n in range(array.ndim))
    yield (
        f"Unranked Memref base@ = {{{{.*}}}} rank = {array.ndim} offset = 0 "
        f"sizes = [{sizes}] strides = [{strides}] data ="
    )
    rows = array.reshape(-1, array.shape[-1])
    for number, row in enumerate(rows):
        # Two brackets would begin a variable of FileCheck's.
        opened = r"{{\[\[}}" if array.ndim == 2 and number == 0 else "["
        closed = "]" if array.ndim == 1 else "]]" if number == len(rows) - 1 else "],"
        yield opened + ", ".join(map(_number, row)) + closed


def _number(value: np.generic) -> str:
    """As C prints it: floats with six digits; a NaN's sign differs from device to device."""
    if isinstance(value, np.floating):
        return "{{-?}}nan" if np.isnan(value) else f"{value:g}"
    return str(int(value))
