"""Programs: entries of ``programs:``, checked against the targets that were declared."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from gpubuild.config.host import HostSection, read_host
from gpubuild.config.program_keys import VERSION_NUMBERS
from gpubuild.config.targets import MACRO, given_options, read_libraries, with_macros
from gpubuild.config.yaml_tree import (
    Member,
    Node,
    Place,
    Problems,
    Shape,
    existing,
    nearest_or_all,
    resolve,
)
from gpubuild.model.project import (
    CXX_SUFFIXES,
    NO_OPTIONS,
    Case,
    Generate,
    HostOptions,
    Install,
    ModuleOverride,
    Offload,
    Passes,
    Product,
    Program,
)
from gpubuild.settings import Settings, find_in_path
from gpubuild.support.patterns import is_pattern, matches
from gpubuild.targets import registry

Patterns: TypeAlias = dict[tuple[str, str], tuple[str, ...]]  # by folder and pattern


def read_programs(
    root: Path,
    members: Mapping[str, Member],
    declared: tuple[str, ...],
    host: HostSection,
    problems: Problems,
    *,
    defines: Mapping[str, str | None],
    added: tuple[str, ...],
    patterns: Patterns,
    generated: frozenset[str] = frozenset(),
) -> dict[str, Program]:
    """Return all programs, in file order.

    ``declared`` are the names of targets, in file order; ``host`` is what goes with all C and C++ sources.
    ``defines`` replace macros of all sources. Everything is also compiled for the targets ``added``.
    ``patterns`` collects the patterns of sources; ``generated`` are sources that commands make.
    """
    forced = HostOptions(define=tuple(defines.items()))
    reader = _Reader(root, declared, host, problems, forced, added, patterns, generated)
    return {name: reader.program(name, m.node) for name, m in members.items()}


class _Reader:
    def __init__(
        self,
        root: Path,
        declared: tuple[str, ...],
        host: HostSection,
        problems: Problems,
        forced: HostOptions,
        added: tuple[str, ...],
        patterns: Patterns,
        generated: frozenset[str],
    ) -> None:
        self._forced = forced
        self._patterns = patterns
        self._generated = generated
        self._added = added
        self._root = root
        self._declared = declared
        self._host = host
        self._problems = problems

    def program(self, name: str, node: Node) -> Program:
        targets = self._targets(node.child("targets")) or self._declared
        offload = Offload(str(node.child("offload").scalar or Offload.DISPATCH))
        product = Product(str(node.child("product").scalar or Product.EXECUTABLE))
        if offload is Offload.CLANG and product not in (Product.EXECUTABLE, Product.SHARED):
            self._problems.add(
                node.members["product"].place,
                f"'product: {product}' cannot have `offload: clang`, whose device code is linked together "
                "with the whole program: write `offload: dispatch`",
            )
        modules = {n: self._module(m) for n, m in node.child("modules").members.items()}
        sources = self._sources(node.child("sources"))
        host = self._host_section(node)
        options = self._forced.over(host.options.over(self._host.options))
        return Program(
            name=name,
            sources=sources,
            targets=targets,
            product=product,
            offload=offload,
            select=self._select(node, offload, targets, modules),
            modules=modules,
            device_libs=self._device_libs(node.child("device_libs")),
            passes=self._passes(node, options),
            constants=self._constants(node.child("constants")),
            host=options,
            source_hosts={
                source: own
                for source in sources
                if (own := self._forced.over(_own(source, host, self._host).over(options))) != options
            },
            link_libraries=node.child("link").child("libraries").texts,
            link_flags=node.child("link").child("flags").texts,
            tests=self._cases(node, product),
            install=self._install(node, product),
        )

    def _install(self, node: Node, product: Product) -> Install:
        member = node.members.get("install")
        if member is None:
            return Install()
        if product is Product.EXECUTABLE:
            self._problems.add(
                member.place, "'install' is for libraries and objects; an executable is copied to bin"
            )
        given = {key: one.node.raw for key, one in member.node.members.items()}
        version = member.node.child("version")
        if version and not re.fullmatch(VERSION_NUMBERS, version.raw):
            self._problems.add(version.place, f"expected a version, got {version.describe()}; write 1.2.0")
            del given["version"]
        return Install(**given)

    def _sources(self, node: Node) -> tuple[Path, ...]:
        found: dict[Path, Place] = {}
        named: set[Path] = set()
        for item in node.items:
            if item.scalar in self._generated:
                found.setdefault(self._root / str(item.scalar), item.place)
                continue
            paths = matching(self._root, item, self._problems, self._patterns)
            if paths is None:
                path = existing(self._root, item, self._problems, what="source")
                paths = (path,) if path else ()
                if path in named:
                    self._problems.add(item.place, f"{item.describe()} is listed twice", first=found[path])
                named.update(paths)
            elif not paths:
                self._problems.add(item.place, f"the pattern {item.describe()} matches no file")
            for path in paths:
                found.setdefault(path, item.place)
        return tuple(found)

    def _host_section(self, node: Node) -> HostSection:
        member = node.members.get("host")
        if member is None:
            return HostSection()
        sources = named_sources(self._root, node, self._problems, self._patterns)
        section = read_host(self._root, member.node, self._problems, sources=sources, owner="this program")
        if sources is not None:
            uses_macros = any(MACRO in m.node.raw for m in node.child("passes").members.values())
            self._refuse_idle(member, section.options, sources, uses_macros=uses_macros)
        return section

    def _refuse_idle(
        self, member: Member, options: HostOptions, sources: tuple[str, ...], *, uses_macros: bool
    ) -> None:
        """Report options that apply to no source of the program."""
        c = any(name.endswith(".c") for name in sources)
        cxx = any(name.endswith(CXX_SUFFIXES) for name in sources)
        if not c and not cxx and not uses_macros:
            self._problems.add(member.place, "'host' is for C and C++ sources, and this program has none")
        elif options.c_std and not c:
            self._problems.add(
                member.node.members["std"].place,
                f"'{options.c_std}' is for C; this program's sources are C++",
            )
        elif options.cxx_std and not cxx:
            self._problems.add(
                member.node.members["std"].place,
                f"'{options.cxx_std}' is for C++; this program's sources are C",
            )

    def _targets(self, node: Node) -> tuple[str, ...]:
        names = []
        for item in node.items:
            if item.scalar in self._declared:
                names.append(str(item.scalar))
            else:
                hint = nearest_or_all(str(item.scalar), self._declared, what="declared")
                self._problems.add(item.place, f"unknown target {item.describe()}{hint}")
        return tuple(dict.fromkeys((*names, *self._added))) if names else ()

    def _cases(self, node: Node, product: Product) -> tuple[Case, ...]:
        member = node.members.get("tests")
        if member is None:
            return ()
        if product is not Product.EXECUTABLE:
            self._problems.add(
                member.place, f"'tests' run an executable, and this program has `product: {product}`"
            )
        return tuple(self._case(n, m.node) for n, m in member.node.members.items())

    def _case(self, name: str, node: Node) -> Case:
        given = node.given(stdin=str.encode, stdout=str.encode, exit_code=int, sanitize=bool)
        for key in ("stdin_file", "stdout_file", "check"):
            path = node.child(key)
            given[key] = existing(self._root, path, self._problems, what="file") if path else None
            if path and (twin := node.members.get(key.removesuffix("_file"))) and twin.node is not path:
                self._problems.add(twin.place, f"give either this or '{key}'", first=node.members[key].place)
        files: dict[str, Path] = {}
        for item in node.child("files").items:
            path_of_file = existing(self._root, item, self._problems, what="file")
            text = str(item.scalar)
            if path_of_file:
                # A file beside the project has no place in the folder of the run but its own name.
                inside = not text.startswith("/") and ".." not in Path(text).parts
                copied = os.path.normpath(text) if inside else path_of_file.name
                if copied in files:
                    self._problems.add(item.place, f"two files would be copied to '{copied}'")
                files[copied] = path_of_file
        return Case(
            name=name,
            args=node.child("args").texts,
            files=files,
            devices=node.child("devices").texts,
            timeout_seconds=int(node.child("timeout").scalar or 60),
            **given,
        )

    def _passes(self, node: Node, options: HostOptions) -> Passes:
        members, pipeline = node.child("passes").members, node.members.get("pipeline")
        given = {key: with_macros(member.node, options, self._problems) for key, member in members.items()}
        if pipeline and "source" in given:
            self._problems.add(pipeline.place, "'pipeline' replaces `passes: {source: …}`: write one of them")
        source = str(pipeline.node.scalar) if pipeline else given.pop("source", "")
        return Passes(source=source, host=given.pop("host", ""), kinds=given)

    def _constants(self, node: Node) -> tuple[str, ...]:
        forced = {name: "1" if value is None else value for name, value in self._forced.define}
        return tuple(f"{name}={forced.get(name, m.node.raw)}" for name, m in node.members.items())

    def _module(self, member: Member) -> ModuleOverride:
        return ModuleOverride(
            targets=self._targets(member.node.child("targets")) or None,
            **given_options(member.node),
            device_libs=read_libraries(self._root, member.node.child("device_libs"), self._problems),
            written=self._problems.diagnostic(member.place, ""),
        )

    def _select(
        self, node: Node, offload: Offload, targets: tuple[str, ...], modules: Mapping[str, ModuleOverride]
    ) -> str | int | None:
        member = node.members.get("select")
        if member is None:
            return None
        if offload is not Offload.SELECT_OBJECT and not node.flawed:
            self._problems.add(member.place, "'select' needs `offload: select_object` beside it")
        value = member.node.scalar
        assert isinstance(value, int | str)  # noqa: S101 - the shape says so
        if isinstance(value, str) and value not in self._declared:
            hint = nearest_or_all(value, self._declared, what="declared")
            self._problems.add(member.node.place, f"unknown target {member.node.describe()}{hint}")
            return value
        if trouble := _cannot_select(value, targets):
            self._problems.add(member.node.place, f"this program {trouble}")
        for name, module in modules.items():
            if module.targets and (trouble := _cannot_select(value, module.targets)):
                self._problems.add(member.node.place, f"module '{name}' {trouble}")
        return value

    def _device_libs(self, node: Node) -> dict[str, tuple[Path, ...]]:
        if node.shape is Shape.LIST:
            libraries = read_libraries(self._root, node, self._problems)
            return dict.fromkeys(registry.kinds(), libraries) if libraries else {}
        return {
            kind: read_libraries(self._root, member.node, self._problems)
            for kind, member in node.members.items()
        }


def matching(root: Path, item: Node, problems: Problems, patterns: Patterns) -> tuple[Path, ...] | None:
    """Return the files that the pattern ``item`` matches; ``None`` if it is the name of a file."""
    text = str(item.scalar)
    if not is_pattern(text) or (path := resolve(root, item, problems)) is None or path.is_file():
        return None
    key = (str(problems.folder(item.place, root)), text)
    if key not in patterns:
        patterns[key] = tuple(matches(*key))
    return tuple(map(Path, patterns[key]))


def read_generate(root: Path, node: Node, problems: Problems, patterns: Patterns) -> tuple[Generate, ...]:
    """Return the commands that make sources."""
    found = []
    made: dict[str, Place] = {}
    for name, member in node.members.items():
        command, outputs = member.node.child("command"), member.node.child("outputs")
        earlier = frozenset(made)
        for item in outputs.items:
            if item.raw in made:
                problems.add(item.place, f"{item.describe()} is made twice", first=made[item.raw])
            elif (root / item.raw).exists():
                problems.add(item.place, f"{item.describe()} exists in the project; generate another name")
            made.setdefault(item.raw, item.place)
        inputs: dict[str, Path] = {}
        for item in member.node.child("inputs").items:
            if item.raw in earlier:
                inputs[item.raw] = root / item.raw
                continue
            paths = matching(root, item, problems, patterns)
            if paths is None:
                path = existing(root, item, problems, what="input")
                paths = (path,) if path else ()
            elif not paths:
                problems.add(item.place, f"the pattern {item.describe()} matches no file")
            folder = problems.folder(item.place, root)
            for path in paths:
                if not path.is_relative_to(folder):
                    problems.add(
                        item.place, f"the input {item.describe()} is outside the folder of this file"
                    )
                inputs[os.path.relpath(path, folder)] = path
        if not command or not outputs:
            continue  # reported already
        tool, searched = _tool(root, command.items[0], problems)
        if tool is not None:
            found.append(
                Generate(
                    name=name,
                    command=command.texts,
                    tool=tool,
                    inputs=inputs,
                    outputs=outputs.texts,
                    searched=searched,
                )
            )
    return tuple(found)


def _tool(root: Path, item: Node, problems: Problems) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the program of a command, and paths where another one would be found first."""
    name = str(item.scalar)
    if "/" in name:
        return existing(root, item, problems, what="program"), ()
    folders = Settings.from_environ().search_path
    tool = find_in_path(name, folders)
    if tool is None:
        problems.add(item.place, f"the program {item.describe()} is not in PATH")
        return None, ()
    return tool, tuple(folder / name for folder in folders[: folders.index(tool.parent)])


def all_sources(
    root: Path, programs: Mapping[str, Member], problems: Problems, patterns: Patterns
) -> tuple[str, ...] | None:
    """Return the sources of all programs, as :func:`named_sources`."""
    named = [named_sources(root, member.node, problems, patterns) for member in programs.values()]
    return None if None in named else tuple(dict.fromkeys(name for names in named for name in names or ()))


def named_sources(
    root: Path, program: Node, problems: Problems, patterns: Patterns
) -> tuple[str, ...] | None:
    """Return them relative to ``root``; ``None`` where a part may be missing because of an error."""
    sources = program.child("sources")
    if not sources or program.flawed:
        return None
    found: list[str] = []
    for item in sources.items:
        paths = matching(root, item, problems, patterns)
        if paths is None:
            paths = (problems.folder(item.place, root) / str(item.scalar),)
        found += (os.path.relpath(path, root) for path in paths)
    return tuple(found)


def _own(source: Path, program: HostSection, project: HostSection) -> HostOptions:
    """Return the options of a single source."""
    return program.sources.get(source, NO_OPTIONS).over(project.sources.get(source, NO_OPTIONS))


def _cannot_select(value: int | str, targets: tuple[str, ...]) -> str:
    if isinstance(value, int):
        return "" if value < len(targets) else f"has {len(targets)} targets, so there is no index {value}"
    return "" if value in targets else f"is not compiled for target '{value}' ({', '.join(targets)})"
