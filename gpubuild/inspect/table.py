"""Table: an inspection as aligned text for people."""

from __future__ import annotations

from collections.abc import Iterator

from gpubuild.inspect.records import Inspection, Kernel, Module, Object, occupancy, why_no_occupancy
from gpubuild.support.text import aligned, one_line
from gpubuild.targets.vendor import WORKGROUP

_HEAD = (
    "module",
    "target",
    "chip",
    "format",
    "size",
    "kernel",
    "code",
    "regs",
    "shared",
    "spills",
    "occ",
    "tier",
)
_RIGHT = {"size", "code", "regs", "shared", "spills", "occ"}
_UNKNOWN = "-"
_NOT_KNOWN = ((1 << 32) - 1, [-1, -1, -1])  # upstream's, in a kernel table of AMD
_SLOW = "fibers"  # the tier that people want to know the reason of


def render_table(inspection: Inspection, workgroup: int = WORKGROUP) -> str:
    """Return a table with a line for each kernel; repeated cells are blank. Sizes are in bytes.

    Below it are the reasons why kernels run as fibers, parameters, and the contents of kernel tables.

    ``occ`` is the occupancy that registers and memory allow to workgroups of that size.
    """
    lines = aligned(table_rows(inspection, workgroup), [head in _RIGHT for head in _HEAD])
    items = [item for module in inspection.modules for item in module.objects]
    measured = [item for item in items if any(kernel.registers for kernel in item.kernels)]
    reasons = dict.fromkeys(why_no_occupancy(item) for item in measured)
    lines += [f"no occ: {reason}" for reason in reasons if reason]
    slow = (
        f"@{module.name} {kernel.name}: {kernel.tier} because of {kernel.tier_reason}"
        for module, _, kernel in _kernels(inspection)
        if kernel.tier == _SLOW and kernel.tier_reason
    )
    lines += dict.fromkeys(map(one_line, slow))
    lines += dict.fromkeys(map(one_line, _signatures(inspection)))
    lines += dict.fromkeys(map(one_line, _kernel_tables(inspection)))
    return "\n".join(lines)


def table_rows(inspection: Inspection, workgroup: int = WORKGROUP) -> list[tuple[str, ...]]:
    """Return the head of the table and a row for each kernel."""
    rows: list[tuple[str, ...]] = [_HEAD]
    for module in inspection.modules:
        name = f"@{module.name}" if module.name else _UNKNOWN
        for item in module.objects:
            for number, kernel in enumerate(item.kernels or (None,)):
                left = _object_cells(item) if number == 0 else ("",) * 4
                rows.append((name, *left, *_kernel_cells(item, kernel, workgroup)))
                name = ""
    return [tuple(map(one_line, row)) for row in rows]


def _kernels(inspection: Inspection) -> Iterator[tuple[Module, Object, Kernel]]:
    for module in inspection.modules:
        for item in module.objects:
            for kernel in item.kernels:
                yield module, item, kernel


def _signatures(inspection: Inspection) -> Iterator[str]:
    """Yield the parameters of each kernel whose image lists them, and what it requires of a launch."""
    for module, item, kernel in _kernels(inspection):
        if kernel.parameters is None:
            continue
        required = []
        if kernel.workgroup_size:
            required.append(f"workgroups of {'x'.join(map(str, kernel.workgroup_size))}")
        if kernel.subgroup_size:
            required.append(f"subgroups of {kernel.subgroup_size}")
        yield (
            f"@{module.name or _UNKNOWN} {kernel.name}, {item.target or item.chip or _UNKNOWN}: "
            f"({', '.join(kernel.parameters)})" + (f" in {', '.join(required)}" if required else "")
        )


def _kernel_tables(inspection: Inspection) -> Iterator[str]:
    """Yield the type and the metadata of each kernel."""
    for module, item, kernel in _kernels(inspection):
        if kernel.table is None:
            continue
        name = f"@{module.name} {kernel.name}"
        yield f"{name}: {kernel.table['function_type']}"
        metadata = kernel.table["metadata"].items()
        known = ", ".join(f"{key} {value}" for key, value in metadata if value not in _NOT_KNOWN)
        if known:
            yield f"{name}, {item.target or item.chip or _UNKNOWN}: {known}"


def _object_cells(item: Object) -> tuple[str, ...]:
    entries = ", ".join(f"{entry.format} {entry.chip}" for entry in item.entries)
    found = f"{item.format} ({entries})" if entries else item.format
    return (item.target or _UNKNOWN, item.chip or _UNKNOWN, found, str(len(item.data)))


def _kernel_cells(item: Object, kernel: Kernel | None, workgroup: int) -> tuple[str, ...]:
    if kernel is None:
        return (_UNKNOWN,) * 7
    numbers = (kernel.code_bytes, kernel.registers, kernel.shared_bytes, kernel.spill_bytes)
    estimate = occupancy(item, kernel, workgroup)
    return (
        kernel.name,
        *(_UNKNOWN if number is None else str(number) for number in numbers),
        f"{estimate.percent}%" if estimate else _UNKNOWN,
        (kernel.tier or _UNKNOWN) + (f" (checked: {', '.join(item.sanitize)})" if item.sanitize else ""),
    )
