"""Profile: what kernels cost when a program ran, from the JSON of GPUBUILD_PROFILE (docs/runtime.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpubuild.errors import UsageError
from gpubuild.report.page import Section, code, table

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """All launches of a kernel on a device; times in nanoseconds, ``bytes`` may be unknown."""

    module: str
    kernel: str
    device: str
    launches: int
    total_ns: int
    min_ns: int
    max_ns: int
    bytes: int | None
    flops: int | None = None
    traffic: int | None = None  # bytes of global memory that were loaded and stored, caches or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the processor that a program ran on can do at most, measured when the program ended."""

    threads: int
    bytes_per_second: int  # 0: not known
    flops_per_second: int  # of f32; 0: not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one run cost; the dearest kernel first."""

    costs: tuple[Cost, ...]
    machine: Machine | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a kernel is below the roofline."""

    intensity: float | None  # flops per byte; ``None``: the flops are not known, or there are none
    bound: str  # "memory" or "arithmetic"
    share: float  # of what that bound allows; above 1 where caches held it from launch to launch


def place_on_roofline(cost: Cost, machine: Machine | None) -> Position | None:
    """``None`` where the kernel's work or the machine's peaks are not known, as on GPUs.

    What comes from memory is taken to be what the kernel loads and stores, but each byte that its arguments
    point into once a launch at most, as with a cache that holds all of it.
    """
    if machine is None or not machine.bytes_per_second or cost.traffic is None or not cost.total_ns:
        return None
    seconds = cost.total_ns / 1e9
    moved = min(cost.traffic, cost.bytes or cost.traffic)
    memory_seconds = moved / machine.bytes_per_second
    known = cost.flops is not None and machine.flops_per_second > 0
    arithmetic_seconds = (cost.flops or 0) / machine.flops_per_second if known else 0.0
    if not memory_seconds and not arithmetic_seconds:
        return None
    return Position(
        intensity=cost.flops / moved if cost.flops and moved else None,
        bound="memory" if memory_seconds >= arithmetic_seconds else "arithmetic",
        share=max(memory_seconds, arithmetic_seconds) / seconds,
    )


def read_profile(path: Path) -> Profile:
    """Read what a program wrote. Raises ``UsageError`` for anything else."""
    try:
        document = json.loads(path.read_bytes())
        if document["schema"] != SCHEMA:
            raise UsageError(f"{path} has schema {document['schema']!r}, only {SCHEMA} is known")
        found = [_cost(entry) for entry in document["kernels"]]
        machine = _machine(document.get("machine"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(
            f"{path} is not a profile", hint="run a built program with GPUBUILD_PROFILE=FILE"
        ) from error
    found.sort(key=lambda cost: (-cost.total_ns, cost.module, cost.kernel))
    return Profile(costs=tuple(found), machine=machine)


def profile_section(name: str, profile: Profile) -> Section:
    """A table for the report. Bandwidth is of the memory that arguments point into."""
    costs, machine = profile.costs, profile.machine
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
            *_roofline_cells(cost, machine),
        )
        for cost in costs
    ]
    heads = (
        "kernel", "device", "launches", "total ms", "", "min µs", "mean µs", "max µs", "GB/s",
        "GFLOP/s", "flop/byte", "of roofline",
    )  # fmt: skip
    note = (
        '<p class="dim">GB/s counts the memory that the arguments point into, once a launch: a kernel may '
        "touch less of it, or the same more than once. "
        f"{_roofline_note(machine)}</p>"
    )
    text = table(heads, rows, numeric=range(2, 12)) + note if rows else '<p class="dim">No launches.</p>'
    return Section(title=f"Run time: {name}", html=text)


def _roofline_cells(cost: Cost, machine: Machine | None) -> tuple[str, str, str]:
    position = place_on_roofline(cost, machine)
    rate = f"{cost.flops / cost.total_ns:.2f}" if cost.flops is not None and cost.total_ns else "-"
    if position is None:
        return rate, "-", "-"
    intensity = "-" if position.intensity is None else f"{position.intensity:.2f}"
    return rate, intensity, f"{position.share:.0%} ({position.bound})"


def _roofline_note(machine: Machine | None) -> str:
    if machine is None:
        return "Of roofline: the peaks of the machine or the work of the kernels are not known."
    memory, arithmetic = machine.bytes_per_second / 1e9, machine.flops_per_second / 1e9
    return (
        "Of roofline: the time that the kernel's loads and stores, or its operations on floats, take at "
        f"least, of the time it took. Measured at the end of the run with {machine.threads} threads: "
        f"{memory:.1f} GB/s of memory, {arithmetic:.1f} GFLOP/s of f32. "
        "Work is counted in the kernel's code; each byte that its arguments point into comes from memory "
        "once a launch at most. Above 100% caches held it from launch to launch."
    )


def _number(entry: dict[str, Any], field: str) -> int:
    value = entry[field]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(field)
    return value


def _machine(entry: dict[str, Any] | None) -> Machine | None:
    if entry is None:
        return None
    return Machine(
        threads=_number(entry, "threads"),
        bytes_per_second=_number(entry, "bytes_per_second"),
        flops_per_second=_number(entry, "flops_per_second"),
    )


def _cost(entry: dict[str, Any]) -> Cost:
    def number(field: str) -> int:
        return _number(entry, field)

    def maybe(field: str) -> int | None:
        return None if entry.get(field) is None else number(field)

    return Cost(
        module=str(entry["module"]),
        kernel=str(entry["kernel"]),
        device=str(entry["device"]),
        launches=number("launches"),
        total_ns=number("total_ns"),
        min_ns=number("min_ns"),
        max_ns=number("max_ns"),
        bytes=None if entry["bytes"] is None else number("bytes"),
        flops=maybe("flops"),
        traffic=maybe("traffic"),
    )
