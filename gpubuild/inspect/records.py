"""Inspection: what was found in a file, as records and as the JSON document that scripts read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from importlib import import_module
from typing import Any

from gpubuild.inspect.elf import MAGIC, Elf, reading
from gpubuild.support.frozen import field, frozen, replace
from gpubuild.targets.registry import of_triple, vendor, vendors
from gpubuild.targets.vendor import WORKGROUP, Occupancy

SCHEMA = 1


@frozen
class Kernel:
    """One kernel and its resources; ``None`` where the format has no value.

    ``registers`` are per work-item (vector registers on AMD), ``shared_bytes`` static workgroup
    memory. ``tier`` is how a CPU runs its work-items, ``tier_reason`` why no simpler one would do, as the
    build noted it. ``code_bytes`` is the size of its instructions. ``parameters`` are types as the image has
    them; ``workgroup_size`` and ``subgroup_size`` what a launch of the kernel must have. ``table`` is
    the kernel's entry in a ``#gpu.kernel_table``: ``function_type``, ``arg_attrs`` and ``metadata``.
    """

    name: str
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None
    tier: str | None = None
    tier_reason: str | None = None
    code_bytes: int | None = None
    parameters: tuple[str, ...] | None = None
    workgroup_size: tuple[int, ...] | None = None
    subgroup_size: int | None = None
    table: dict[str, Any] | None = None


@frozen
class Entry:
    """One image of a fat binary; ``size_bytes`` is what it takes there, compressed or not."""

    format: str
    chip: str
    size_bytes: int


@frozen
class Object:
    """One target's image. ``target`` is the user's name for it, known only in what gpubuild wrote.

    ``chip`` of an AMD image may be a target id such as ``gfx90a:sramecc+:xnack-``. ``format`` is
    ``bin`` (machine code), ``assembly`` (PTX), ``fatbin``, which has ``entries``, or ``offload`` (LLVM
    IR). ``module`` is known where the image has its name, ``sanitize`` is what the kernels of a CPU image
    are checked for. A vendor's reader leaves ``kind`` and ``data`` open, and ``triple`` where all of its
    images have the same.
    """

    target: str | None = None
    kind: str | None = None
    triple: str | None = None
    chip: str | None = None
    format: str
    module: str | None = None
    kernels: tuple[Kernel, ...] = ()
    sanitize: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    data: bytes = field(default=b"", repr=False)


@frozen
class Module:
    """The objects of one gpu.module; ``handler`` is known where there is still a gpu.binary."""

    name: str | None = None
    handler: str | None = None
    objects: tuple[Object, ...] = ()


@frozen
class Inspection:
    """All modules of ``file``, in file order."""

    file: str
    modules: tuple[Module, ...]


def select(
    inspection: Inspection, targets: Collection[str] = (), modules: Collection[str] = ()
) -> Inspection:
    """Return the inspection with these targets (or chips) and modules only; empty collections: all."""
    kept = []
    for module in inspection.modules:
        if modules and module.name not in modules:
            continue
        objects = tuple(o for o in module.objects if not targets or {o.target, o.chip} & set(targets))
        if objects:
            kept.append(replace(module, objects=objects))
    return replace(inspection, modules=tuple(kept))


def to_json(inspection: Inspection, workgroup: int = WORKGROUP) -> dict[str, Any]:
    """Return the document of ``gpubuild inspect --json``; occupancy is for workgroups of that size."""
    return {
        "schema": SCHEMA,
        "file": inspection.file,
        "modules": [
            {"name": m.name, "handler": m.handler, "objects": [_object(o, workgroup) for o in m.objects]}
            for m in inspection.modules
        ],
    }


def kind_of_triple(triple: str | None) -> str | None:
    """Return the kind of target that a triple belongs to."""
    found = of_triple(triple)
    return found.kind if found else None


def occupancy(item: Object, kernel: Kernel, workgroup: int) -> Occupancy | None:
    """Return the estimate for one kernel; ``None`` if limits of the chip or its registers are unknown."""
    if not (item.kind and item.chip and kernel.registers) or workgroup < 1:
        return None
    return vendor(item.kind).occupancy(item.chip, kernel.registers, kernel.shared_bytes or 0, workgroup)


def why_no_occupancy(item: Object) -> str:
    """Return why there is no estimate for the chip of a GPU; empty if there is one, and for CPUs."""
    return vendor(item.kind).why_no_occupancy(item.chip) if item.kind and item.chip else ""


def _occupancy(item: Object, kernel: Kernel, workgroup: int) -> dict[str, Any] | None:
    found = occupancy(item, kernel, workgroup)
    return {"workgroup": workgroup, "percent": found.percent, "limit": found.limit or None} if found else None


def _object(item: Object, workgroup: int) -> dict[str, Any]:
    return {
        "target": item.target,
        "kind": item.kind,
        "triple": item.triple,
        "chip": item.chip,
        "format": item.format,
        "size_bytes": len(item.data),
        **({"sanitize": list(item.sanitize)} if item.sanitize else {}),
        **({"entries": [asdict(entry) for entry in item.entries]} if item.entries else {}),
        "kernels": [_kernel(item, k, workgroup) for k in item.kernels],
    }


def _kernel(item: Object, kernel: Kernel, workgroup: int) -> dict[str, Any]:
    found = asdict(kernel)
    table = found.pop("table") or {}
    return {**found, "occupancy": _occupancy(item, kernel, workgroup), **table}


_BITCODE = b"BC\xc0\xde"


def describe_image(data: bytes) -> Object | None:
    """Return an image, recognised by its content; ``None`` if unknown. Raises ``DamagedError``."""
    if data.startswith(_BITCODE):
        return Object(format="offload", data=data)
    with reading("ELF image"):
        elf = Elf(data) if data.startswith(MAGIC) else None
        for vendor in vendors():
            found: Object | None = import_module(vendor.image_reader).describe(data, elf)
            if found is not None:
                return replace(
                    found, kind=vendor.kind, triple=found.triple or vendor.triple or None, data=data
                )
    return None
