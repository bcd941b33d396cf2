"""Targets: entries of ``targets:`` with kind, chip, triple and defaults settled."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpubuild.config.yaml_tree import Member, Node, Problems, existing, nearest_or_all
from gpubuild.model.project import HostOptions
from gpubuild.support.text import any_of, nearest
from gpubuild.targets import registry
from gpubuild.targets.target import Sanitize, Target
from gpubuild.targets.vendor import Vendor, split_features


class Options(NamedTuple):
    """The options of ``defaults:``, or those of a target that overrides them."""

    opt_level: int = 3
    fast_math: bool = False
    debug: bool | str = False


MACRO = "${"
_MACRO = re.compile(r"\$\{([^}]*)\}")


def with_macros(pipeline: Node, options: HostOptions, problems: Problems) -> str:
    """Return the text of a pass pipeline with the values of macros for ``${NAME}``."""
    macros = dict(options.define)

    def value(found: re.Match[str]) -> str:
        name = found[1]
        if name not in macros:
            hint = nearest_or_all(name, macros, what="macros")
            problems.add(
                pipeline.place, f"the pass pipeline needs the macro {name!r}: define it with -D{hint}"
            )
        text = macros.get(name, "")
        return "1" if text is None else text

    return _MACRO.sub(value, str(pipeline.scalar))


def given_options(node: Node) -> dict[str, Any]:
    """Return those of the fields of ``Options`` that the record ``node`` has."""
    return node.given(opt_level=int, fast_math=bool, debug=lambda v: v if isinstance(v, str) else bool(v))


def read_options(node: Node, base: Options) -> Options:
    """Return ``base`` with the values of the record ``node``."""
    return base._replace(**given_options(node))


def read_libraries(root: Path, node: Node, problems: Problems) -> tuple[Path, ...]:
    """Return the device libraries that the checked list ``node`` names."""
    found = (existing(root, item, problems, what="device library") for item in node.items)
    return tuple(path for path in found if path)


def read_targets(
    root: Path,
    members: Mapping[str, Member],
    defaults: Options,
    macros: HostOptions,
    problems: Problems,
    machine: str = "",
) -> dict[str, Target]:
    """Return all targets of a known kind, in file order. ``machine``: what ``uname -m`` says."""
    machine = machine or os.uname().machine
    targets: dict[str, Target] = {}
    for name, member in members.items():
        device_libs = read_libraries(root, member.node.child("device_libs"), problems)
        vendor = _vendor(name, member, problems)
        if vendor is None:
            continue
        chip = _chip(name, member, vendor, machine, problems)
        triple = _triple(member, vendor, chip, machine, problems)
        if _of_chip(chip) in (None, vendor):  # else that is reported
            _check(member, vendor, chip, triple, problems)
        options = read_options(member.node, defaults)
        passes = member.node.child("passes")
        attribute = _attribute(name, member, vendor, chip, problems)
        targets[name] = Target(
            name=name,
            kind=vendor.kind,
            chip=chip,
            triple=triple,
            features=",".join(str(item.scalar) for item in _features(member)),
            opt_level=options.opt_level,
            fast_math=options.fast_math,
            flags=vendor.with_fast_flags(attribute.flags, fast_math=options.fast_math),
            abi=attribute.abi,
            assembler_options=attribute.assembler_options,
            format=attribute.format,
            debug=options.debug,
            device_libs=device_libs,
            passes=with_macros(passes, macros, problems) if passes else "",
            sanitize=_sanitize(name, member, vendor, problems),
        )
    return targets


class _Attribute(NamedTuple):
    """The values of a target that only the target attribute of its vendor has."""

    flags: tuple[str, ...]
    abi: str
    assembler_options: tuple[str, ...]
    format: str


def _attribute(name: str, member: Member, vendor: Vendor, chip: str, problems: Problems) -> _Attribute:
    members = member.node.members
    for key in sorted({v.assembler_key for v in registry.vendors()} - {"", vendor.assembler_key}):
        if key in members:
            text = f"'{key}' is not for targets of kind {vendor.kind}, as '{name}' is"
            problems.add(members[key].place, text)
    flags = member.node.child("flags").texts
    options = member.node.child(vendor.assembler_key).texts
    abi = str(member.node.child("abi").scalar or "")
    given = str(member.node.child("format").scalar or "")
    found = (
        ("format", vendor.format_flaw(given) if given else None),
        ("flags", vendor.flags_flaw(flags, chip, ",".join(str(f.scalar) for f in _features(member)))),
        ("abi", vendor.abi_flaw(abi, chip) if abi else None),
        (vendor.assembler_key, vendor.assembler_flaw(options)),
    )
    for key, flaw in found:
        if flaw is not None:
            problems.add(members[key].node.place, f"{flaw.message} ({flaw.hint})")
    return _Attribute(flags, abi if abi not in vendor.abis[:1] else "", options, given)


def _vendor(name: str, member: Member, problems: Problems) -> Vendor | None:
    kind, chip = (member.node.child(key).scalar for key in ("kind", "chip"))
    by_chip = _of_chip(str(chip)) if chip else None
    by_name = registry.of_name(name)
    vendor = registry.vendor(str(kind)) if kind else by_chip or by_name
    if vendor is None:
        if not member.node.flawed:
            word = str(chip or name)
            product = next(filter(None, (v.chip_of_product(word) for v in registry.vendors())), "")
            known = frozenset[str]().union(*(v.chips(v.triple) for v in registry.vendors()))
            close = nearest(word.lower(), known, cutoff=0.8)
            subject = f"chip '{chip}'" if chip else f"name '{name}'"
            kinds = any_of([f"`{kind}`" for kind in registry.kinds()])
            chips = any_of([v.example for v in registry.vendors()])
            problems.add(
                member.node.child("chip").place if chip else member.place,
                f"the {subject} does not imply the kind of target '{name}'; "
                + (
                    f"the chip of {word} is {product}: write that"
                    if product
                    else f"did you mean {close[0]}?"
                    if close
                    else f"add `kind: {kinds[1:]}, or name a chip such as {chips}"
                ),
            )
        return None
    if by_chip and by_chip is not vendor:
        place = member.node.child("chip").place
        problems.add(place, f"'{chip}' is {by_chip.noun}, but target '{name}' is of kind {vendor.kind}")
    elif by_name and by_name is not vendor:
        problems.add(
            member.place, f"'{name}' is the name of {by_name.noun}, but this target is of kind {vendor.kind}"
        )
    return vendor


def _of_chip(chip: str) -> Vendor | None:
    """Return the vendor that the chip of a target implies."""
    native = (v for v in registry.vendors() if chip and chip == v.native_chip)
    return next(native, None) or registry.of_name(chip)


def _chip(name: str, member: Member, vendor: Vendor, machine: str, problems: Problems) -> str:
    if chip := member.node.child("chip").scalar:
        return str(chip)
    chip = vendor.default_chip(name, machine)
    if not chip and registry.of_name(name) is None:
        problems.add(member.place, f"target '{name}' needs a chip, such as `chip: {vendor.example}`")
    return chip


def _triple(member: Member, vendor: Vendor, chip: str, machine: str, problems: Problems) -> str:
    given = member.node.child("triple")
    if not given:
        return vendor.default_triple(chip, machine)
    triple = str(given.scalar)
    if not vendor.owns(triple):
        text = f"triple '{triple}' does not belong to a target of kind {vendor.kind}"
        problems.add(given.place, text)
    return triple


def _check(member: Member, vendor: Vendor, chip: str, triple: str, problems: Problems) -> None:
    """Report every chip and feature that the compiler does not know."""
    found = []
    if chip:
        node = member.node.child("chip")
        found.append((node.place if node else member.place, vendor.chip_flaw(chip, triple)))
    for item in _features(member):
        for feature in split_features(str(item.scalar)):
            found.append((item.place, vendor.feature_flaw(feature, chip, triple)))
    for place, flaw in found:
        if flaw is not None:
            problems.add(place, f"{flaw.message} ({flaw.hint})")


def _sanitize(name: str, member: Member, vendor: Vendor, problems: Problems) -> tuple[Sanitize, ...]:
    found = member.node.members.get("sanitize")
    if found is None:
        return ()
    if not vendor.sanitizes:
        checked = [v.kind for v in registry.vendors() if v.sanitizes]
        problems.add(
            found.place,
            f"'sanitize' is for targets of kind {any_of(checked)}; '{name}' is of kind {vendor.kind}; "
            "add a checked CPU target beside it",
        )
    elif "passes" in member.node.members and found.node.items:
        problems.add(
            found.place, f"target '{name}' has passes of its own, which 'sanitize' cannot be added to"
        )
    return tuple(kind for kind in Sanitize if kind.value in found.node.texts)


def _features(member: Member) -> tuple[Node, ...]:
    """Return the features; an item of the list may have several, joined by commas."""
    found = member.node.child("features")
    return found.items or ((found,) if found.scalar else ())
