"""Host: read ``host:``, the options of C and C++ sources, of all sources and of single ones.

``flags:`` accepts options for code generation (``-f``, ``-m``, ``-O``) and warnings (``-W``). It refuses
options with keys of their own, and options that would make cached results wrong: those that choose
inputs or outputs, read or write files outside the key, depend on the machine, take the next argument
as their value, or change the form of messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path

from gpubuild.config.yaml_tree import (
    Node,
    Place,
    Problems,
    Shape,
    existing,
    nearest_or_all,
    resolve,
)
from gpubuild.model.project import CXX_SUFFIXES, HOST_SUFFIXES, NO_OPTIONS, HostOptions
from gpubuild.support.frozen import field, frozen

# The first that matches gives the reason. Compiled when needed: most projects have no flags.
_REFUSED = (
    (r"-I.*|-(isystem|iquote|idirafter).*|--include-directory.*", "folders go under `include:`"),
    (r"-D.*|--define-macro.*", "macros go under `define:`"),
    (r"--?std=.*|-ansi", "the standard goes under `std:`"),
    (r"-(include|imacros).*", "write the #include in the source"),
    (r"-[lL].*|-Wl,.*|-Xlinker.*|-fuse-ld.*|-s|-static.*|-shared.*|-rdynamic|-pie|-no-pie|-r",
     "it is for the linker: see `link:`"),
    (r"-W[ap],.*|-X.*|-mllvm.*|-B.*|-specs.*|-wrapper.*",
     "it passes options on that the build cannot check"),
    (r"-x.*|-ObjC.*", "the suffix of a source decides its language"),
    (r"-[cSEo].*|-fsyntax-only|-###|-M.*|-fpreprocessed|-fdirectives-only|-frewrite-.*|-d.*|-P|-C|-CC",
     "the build chooses the compiler's outputs"),
    (r"-g\d?|-ggdb\d?", "`defaults: {debug: true}` makes debug information"),
    (r"-gsplit-dwarf.*|-g(no-)?record.*|-frecord-.*",
     "it writes files beside the object, or the build's folders into it"),
    (r"-m\w+(-\w+)*=native|-mnative", "code would depend on the building machine; name the processor"),
    (r"-m(32|16|x32|64)", "programs are built for this machine's architecture"),
    (r"-f(no-)?(pic|PIC|pie|PIE)|-mno-pic.*|-mdynamic-no-pic",
     "objects are position-independent, for executables and libraries"),
    (r"-f(fat-)?lto.*|-fthinlto.*|-fwhole-program.*|-femit-llvm|-emit-llvm",
     "objects must be machine code for any linker"),
    (r"-f(no-)?(random-seed|(file|macro|debug|profile|coverage)-prefix-map).*",
     "the build sets it, so that objects are the same everywhere"),
    (r"-f(no-)?(diagnostics|color-diagnostics|message|show-|caret|absolute-diagnostics|ansi-escape).*",
     "the build reads the compiler's messages"),
    (r"-f(plugin|profile|auto-profile|branch-prob|test-cov|coverage|callgraph|stack-usage|opt-info"
     r"|save-opt|foptimization-record|optimization-record|dump|time-trace|module|implicit-module|prebuilt"
     r"|pch|crash|working-directory|build-session|memory-profile|xray|cs-profile|sanitize-[\w-]*list"
     r"|sanitize-[\w-]*=/|pass-plugin|overlay|vfs|ident=|report|mem-report|compare-debug).*|--coverage|-save-temps.*",
     "it reads or writes files unknown to the build"),
)  # fmt: skip
_TAKEN = (
    r"-W\w[\w+=,.-]*|-w|-pedantic(-errors)?|-f\w[\w+=,.:-]*|-m\w[\w+=,.:-]*|-O([0-3sgz]|fast)?"
    r"|-U[A-Za-z_]\w*|-pthread|-g\w[\w+=-]*|--param=\S+|-nostdinc(\+\+)?|-stdlib=\w[\w+-]*|-trigraphs|-undef"
)


def refusal(flag: str) -> str:
    """Return why ``flag`` is refused; empty when it is accepted."""
    if flag.startswith("@"):
        return "write options here, not in a file"
    for pattern, reason in _REFUSED:
        if re.fullmatch(pattern, flag):
            return reason
    if " " in flag.strip() and re.match(_TAKEN, flag):
        return "write each option as an item of its own"
    if re.fullmatch(_TAKEN, flag):
        return ""
    return (
        "the accepted options are -W…, -w, -pedantic, -f…, -m…, -O…, -U…, -g…, --param=…, -pthread, "
        "-nostdinc and -stdlib=…"
    )


@frozen
class HostSection:
    """One ``host:``: options of all sources, and further ones of single sources by their absolute paths."""

    options: HostOptions = NO_OPTIONS
    sources: Mapping[Path, HostOptions] = field(default_factory=dict)


def read_host(
    root: Path, node: Node, problems: Problems, *, sources: Collection[str] | None, owner: str
) -> HostSection:
    """Return the options, paths relative to ``root``, the project's folder.

    ``sources`` are the names of those that ``owner`` has (``None``: not known), for which there can be some.
    """
    return HostSection(
        options=_options(root, node, problems),
        sources=_single(root, node.child("sources"), problems, sources, owner),
    )


def _options(root: Path, node: Node, problems: Problems) -> HostOptions:
    c_std, cxx_std = _standards(node.child("std"), problems)
    c_flags, cxx_flags = _flags(node.child("flags"), problems)
    return HostOptions(
        include=_include(root, node.child("include"), problems),
        define=_define(node.child("define")),
        c_std=c_std,
        cxx_std=cxx_std,
        c_flags=c_flags,
        cxx_flags=cxx_flags,
    )


def _single(
    root: Path, node: Node, problems: Problems, sources: Collection[str] | None, owner: str
) -> dict[Path, HostOptions]:
    known = None if sources is None else {os.path.normpath(root / name): name for name in sources}
    found: dict[Path, HostOptions] = {}
    first: dict[Path, Place] = {}
    for name, member in node.members.items():
        named = Node(shape=Shape.TEXT, place=member.place, scalar=name, raw=name)
        if (path := resolve(root, named, problems)) is None:
            continue
        if path in first:
            problems.add(member.place, f"'{name}' is given twice", first=first[path])
        elif known is not None and str(path) not in known:
            possible = [n for n in known.values() if n.endswith(HOST_SUFFIXES)]
            hint = nearest_or_all(name, possible, what="sources")
            problems.add(member.place, f"'{name}' is no source of {owner}{hint}")
        first.setdefault(path, member.place)
        options = _options(root, member.node, problems)
        cxx = name.endswith(CXX_SUFFIXES)
        if std := options.c_std if cxx else options.cxx_std:
            language, other = ("C", "C++") if cxx else ("C++", "C")
            place = member.node.members["std"].place
            problems.add(place, f"'{std}' is for {language}; this source is {other}")
        found[path] = options
    return found


def _include(root: Path, node: Node, problems: Problems) -> tuple[str, ...]:
    found: dict[str, Place] = {}
    for item in node.items:
        path = existing(root, item, problems, what="include folder", folder=True)
        if path is None:
            continue
        folder = _argument(root, path, absolute=str(item.scalar).startswith("/"))
        if folder in found:
            problems.add(item.place, f"{item.describe()} is listed twice", first=found[folder])
        else:
            found[folder] = item.place
    return tuple(found)


def _argument(root: Path, path: Path, *, absolute: bool) -> str:
    """Return a folder as the compiler gets it: equal in every checkout unless written as absolute."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    return str(path) if absolute else os.path.relpath(path, root)


def _define(node: Node) -> tuple[tuple[str, str | None], ...]:
    macros = ((name, member.node) for name, member in node.members.items())
    return tuple((name, None if value.shape is Shape.NULL else value.raw) for name, value in macros)


def _standards(node: Node, problems: Problems) -> tuple[str, str]:
    """Return the standards of C and of C++; empty for the compiler's default."""
    found: dict[bool, Node] = {}
    for item in node.items or ((node,) if node else ()):
        cxx = "++" in item.raw
        if cxx in found:
            language = "C++" if cxx else "C"
            problems.add(item.place, f"this is a second standard for {language}", first=found[cxx].place)
        found.setdefault(cxx, item)
    return tuple(found[cxx].raw if cxx in found else "" for cxx in (False, True))  # type: ignore[return-value]


def _flags(node: Node, problems: Problems) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags of C and of C++ sources."""
    if node.shape is Shape.LIST:
        both = _checked(node, problems)
        return both, both
    return _checked(node.child("c"), problems), _checked(node.child("c++"), problems)


def _checked(node: Node, problems: Problems) -> tuple[str, ...]:
    for item in node.items:
        if reason := refusal(item.raw):
            problems.add(item.place, f"{item.describe()} cannot be given here: {reason}")
    return tuple(item.raw for item in node.items)
