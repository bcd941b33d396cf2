"""Read the run times of kernels: the JSON of GPUBUILD_PROFILE (docs/reference/runtime.md)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from gpubuild.errors import UsageError
from gpubuild.report.page import Section, code, table
from gpubuild.support.frozen import fields, frozen
from gpubuild.support.plain_data import typed

SCHEMA = 1


@frozen
class Cost:
    """The launches of a kernel on a device. ``bytes`` is ``None`` if unknown."""

    module: str
    kernel: str
    device: str
    launches: int
    total_ns: int
    min_ns: int
    max_ns: int
    bytes: int | None


def read_profile(path: Path) -> list[Cost]:
    """Return the kernels of a profile, the slowest first. Raises ``UsageError`` if it is none."""
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise UsageError(f"{path} has schema {document['schema']!r}, only {SCHEMA} is known")
        found = [_cost(entry) for entry in document["kernels"]]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a profile", hint="run a built program with GPUBUILD_PROFILE=FILE"
        ) from error
    found.sort(key=lambda cost: (-cost.total_ns, cost.module, cost.kernel))
    return found


def profile_section(name: str, costs: Sequence[Cost]) -> Section:
    """Return a section of the report with a table of kernels."""
    whole = sum(cost.total_ns for cost in costs) or 1
    rows = [
        (
            f"{code('@' + cost.module)} {code(cost.kernel)}",
            code(cost.device),
            str(cost.launches),
            f"{cost.total_ns / 1e6:.3f}",
            f"{cost.total_ns / whole:.0%}",
            f"{cost.min_ns / 1e3:.1f}",
            f"{cost.total_ns / cost.launches / 1e3:.1f}" if cost.launches else "-",
            f"{cost.max_ns / 1e3:.1f}",
            f"{cost.bytes / cost.total_ns:.2f}" if cost.bytes is not None and cost.total_ns else "-",
        )
        for cost in costs
    ]
    heads = ("kernel", "device", "launches", "total ms", "", "min µs", "mean µs", "max µs", "GB/s")
    note = (
        '<p class="dim">GB/s counts the memory that the arguments point into, once a launch: a kernel may '
        "touch less of it, or the same more than once.</p>"
    )
    text = table(heads, rows, numeric=range(2, 9)) + note if rows else '<p class="dim">No launches.</p>'
    return Section(title=f"Run time: {name}", html=text)


def _cost(entry: dict[str, Any]) -> Cost:
    cost = cast(Cost, typed(Cost, {f.name: entry[f.name] for f in fields(Cost)}))
    numbers = (cost.launches, cost.total_ns, cost.min_ns, cost.max_ns, cost.bytes or 0)
    if not all(0 <= number < 1 << 64 for number in numbers):
        raise ValueError(numbers)
    return cost
