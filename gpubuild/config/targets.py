"""Targets: entries of ``targets:`` with kind, chip, triple and defaults settled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpubuild.config.files import existing_file
from gpubuild.config.yaml_tree import Member, Node, Problems
from gpubuild.targets.target import (
    NVVM_TRIPLE,
    ROCDL_TRIPLE,
    Kind,
    Sanitize,
    Target,
    cpu_triple,
    kind_of_chip,
)

NATIVE = "native"  # the CPU that the build runs on; settled later, where its features are known

_DEFAULT_CPU_CHIP = {"x86_64": "x86-64-v2"}
_TRIPLE_STARTS = {Kind.NVVM: ("nvptx",), Kind.ROCDL: ("amdgcn", "amdgpu")}
_MAKER = {Kind.NVVM: "an NVIDIA chip", Kind.ROCDL: "an AMD chip", Kind.CPU: "a CPU"}


class Options(NamedTuple):
    """What ``defaults:`` says, or a target where it says otherwise."""

    opt_level: int = 3
    fast_math: bool = False
    debug: bool = False


def scalar(node: Node | None, key: str) -> bool | int | str | None:
    """The value of ``key`` in a checked record, or ``None``."""
    member = node.members.get(key) if node else None
    return member.node.scalar if member else None


def read_options(node: Node | None, base: Options) -> Options:
    """``base`` with what the record ``node`` says."""
    opt_level, fast_math, debug = (scalar(node, key) for key in Options._fields)
    return Options(
        opt_level=base.opt_level if opt_level is None else int(opt_level),
        fast_math=base.fast_math if fast_math is None else bool(fast_math),
        debug=base.debug if debug is None else bool(debug),
    )


def read_libraries(root: Path, node: Node | None, problems: Problems) -> tuple[Path, ...]:
    """The device libraries that the checked list ``node`` names."""
    items = node.items if node else ()
    found = (existing_file(root, item, problems, what="device library") for item in items)
    return tuple(path for path in found if path)


def read_targets(
    root: Path, members: Mapping[str, Member], defaults: Options, problems: Problems, machine: str = ""
) -> dict[str, Target]:
    """All targets whose kind can be told, in file order. ``machine``: what ``uname -m`` says."""
    machine = machine or os.uname().machine
    targets: dict[str, Target] = {}
    for name, member in members.items():
        libraries = member.node.members.get("device_libs")
        device_libs = read_libraries(root, libraries.node if libraries else None, problems)
        kind = _kind(name, member, problems)
        if kind is None:
            continue
        chip = _chip(name, member, kind, machine, problems)
        options = read_options(member.node, defaults)
        targets[name] = Target(
            name=name,
            kind=kind,
            chip=chip,
            triple=_triple(member, kind, chip, machine, problems),
            features=_features(member.node),
            opt_level=options.opt_level,
            fast_math=options.fast_math,
            debug=options.debug,
            device_libs=device_libs,
            passes=str(scalar(member.node, "passes") or ""),
            sanitize=_sanitize(name, member, kind, problems),
        )
    return targets


def _implied(chip: str) -> Kind | None:
    return Kind.CPU if chip == NATIVE else kind_of_chip(chip)


def _kind(name: str, member: Member, problems: Problems) -> Kind | None:
    said, chip = scalar(member.node, "kind"), scalar(member.node, "chip")
    by_chip = _implied(str(chip)) if chip else None
    by_name = kind_of_chip(name)
    if said:
        kind = Kind(str(said))
    elif by_chip or by_name:
        kind = by_chip or by_name or Kind.CPU
    elif not member.node.flawed:
        subject = f"chip '{chip}'" if chip else f"name '{name}'"
        problems.add(
            member.node.members["chip"].node.place if chip else member.place,
            f"cannot tell the kind of target '{name}' from its {subject}; "
            "add `kind: nvvm`, `rocdl` or `cpu`, or name a chip such as sm_90, gfx90a or x86-64-v3",
        )
        return None
    else:
        return None
    if by_chip and by_chip is not kind:
        place = member.node.members["chip"].node.place
        problems.add(place, f"'{chip}' is {_MAKER[by_chip]}, but target '{name}' is of kind {kind}")
    elif by_name and by_name is not kind:
        problems.add(
            member.place, f"'{name}' is the name of {_MAKER[by_name]}, but this target is of kind {kind}"
        )
    return kind


def _chip(name: str, member: Member, kind: Kind, machine: str, problems: Problems) -> str:
    if chip := scalar(member.node, "chip"):
        return str(chip)
    if kind is Kind.CPU:
        return name if name != "cpu" and kind_of_chip(name) else _DEFAULT_CPU_CHIP.get(machine, "generic")
    if kind_of_chip(name) is None:
        example = "sm_90" if kind is Kind.NVVM else "gfx90a"
        problems.add(member.place, f"target '{name}' needs a chip, such as `chip: {example}`")
    return name


def _triple(member: Member, kind: Kind, chip: str, machine: str, problems: Problems) -> str:
    triple = scalar(member.node, "triple")
    if triple is None:
        match kind:
            case Kind.NVVM:
                return NVVM_TRIPLE
            case Kind.ROCDL:
                return ROCDL_TRIPLE
            case Kind.CPU:
                return cpu_triple("x86_64" if chip.startswith("x86-64") else machine)
    text = str(triple)
    of_gpu = next((k for k, starts in _TRIPLE_STARTS.items() if text.startswith(starts)), Kind.CPU)
    if of_gpu is not kind:
        place = member.node.members["triple"].node.place
        problems.add(place, f"triple '{text}' does not belong to a target of kind {kind}")
    return text


def _sanitize(name: str, member: Member, kind: Kind, problems: Problems) -> tuple[Sanitize, ...]:
    found = member.node.members.get("sanitize")
    if found is None:
        return ()
    if kind is not Kind.CPU:
        problems.add(
            found.place,
            f"'sanitize' is for targets of kind cpu; '{name}' is of kind {kind}; "
            "add a checked CPU target beside it",
        )
    elif "passes" in member.node.members and found.node.items:
        problems.add(
            found.place, f"target '{name}' has passes of its own, which 'sanitize' cannot be added to"
        )
    words = {str(item.scalar) for item in found.node.items}
    return tuple(kind for kind in Sanitize if kind.value in words)


def _features(node: Node) -> str:
    member = node.members.get("features")
    if member is None:
        return ""
    items = member.node.items
    return ",".join(str(i.scalar) for i in items) if items else str(member.node.scalar or "")
