"""Programs: entries of ``programs:``, checked against the targets that were declared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpubuild.config.host import HostSection, read_host
from gpubuild.config.keys import C_SUFFIXES, CXX_SUFFIXES
from gpubuild.config.targets import debug_level, read_libraries, scalar
from gpubuild.config.yaml_tree import Member, Node, Place, Problems, Shape, existing, nearest_or_all
from gpubuild.model.project import NO_OPTIONS, HostOptions, ModuleOverride, Offload, Passes, Program
from gpubuild.targets import registry


def read_programs(
    root: Path,
    members: Mapping[str, Member],
    declared: tuple[str, ...],
    host: HostSection,
    problems: Problems,
) -> dict[str, Program]:
    """All programs, in file order.

    ``declared`` are the names of targets, in file order; ``host`` is what goes with all C and C++ sources.
    """
    reader = _Reader(root, declared, host, problems)
    return {name: reader.program(name, m.node) for name, m in members.items()}


class _Reader:
    def __init__(self, root: Path, declared: tuple[str, ...], host: HostSection, problems: Problems) -> None:
        self._root = root
        self._declared = declared
        self._host = host
        self._problems = problems

    def program(self, name: str, node: Node) -> Program:
        targets = self._targets(_child(node, "targets")) or self._declared
        offload = Offload(str(scalar(node, "offload") or Offload.DISPATCH))
        modules_node = _child(node, "modules")
        modules = {n: self._module(m.node) for n, m in (modules_node.members if modules_node else {}).items()}
        link = _child(node, "link")
        sources = self._sources(_child(node, "sources"))
        host = self._host_section(node)
        options = host.options.over(self._host.options)
        return Program(
            name=name,
            sources=sources,
            targets=targets,
            offload=offload,
            select=self._select(node, offload, targets, modules),
            modules=modules,
            device_libs=self._device_libs(_child(node, "device_libs")),
            passes=self._passes(node),
            host=options,
            source_hosts={
                source: own
                for source in sources
                if (own := _own(source, host, self._host).over(options)) != options
            },
            link_libraries=_texts(_child(link, "libraries")),
            link_flags=_texts(_child(link, "flags")),
        )

    def _sources(self, node: Node | None) -> tuple[Path, ...]:
        found: dict[Path, Place] = {}
        for item in node.items if node else ():
            path = existing(self._root, item, self._problems, what="source")
            if path and path in found:
                self._problems.add(item.place, f"{item.describe()} is listed twice", first=found[path])
            elif path:
                found[path] = item.place
        return tuple(found)

    def _host_section(self, node: Node) -> HostSection:
        member = node.members.get("host")
        if member is None:
            return HostSection()
        sources = named_sources(node)
        section = read_host(self._root, member.node, self._problems, sources=sources, owner="this program")
        if sources is not None:
            self._refuse_idle(member, section.options, sources)
        return section

    def _refuse_idle(self, member: Member, options: HostOptions, sources: tuple[str, ...]) -> None:
        """Report options that apply to no source of the program."""
        c = any(name.endswith(C_SUFFIXES) for name in sources)
        cxx = any(name.endswith(CXX_SUFFIXES) for name in sources)
        if not c and not cxx:
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

    def _targets(self, node: Node | None) -> tuple[str, ...]:
        names = []
        for item in node.items if node else ():
            if item.scalar in self._declared:
                names.append(str(item.scalar))
            else:
                hint = nearest_or_all(str(item.scalar), self._declared, what="declared")
                self._problems.add(item.place, f"unknown target {item.describe()}{hint}")
        return tuple(names)

    def _module(self, node: Node) -> ModuleOverride:
        opt_level, fast_math, debug = (scalar(node, k) for k in ("opt_level", "fast_math", "debug"))
        return ModuleOverride(
            targets=self._targets(_child(node, "targets")) or None,
            opt_level=None if opt_level is None else int(opt_level),
            fast_math=None if fast_math is None else bool(fast_math),
            debug=None if debug is None else debug_level(debug),
            device_libs=read_libraries(self._root, _child(node, "device_libs"), self._problems),
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

    def _passes(self, node: Node) -> Passes:
        listed = _child(node, "passes")
        given = {key: str(member.node.scalar) for key, member in (listed.members if listed else {}).items()}
        pipeline = node.members.get("pipeline")
        if pipeline and "source" in given:
            self._problems.add(pipeline.place, "'pipeline' replaces `passes: {source: …}`: write one of them")
        source = str(pipeline.node.scalar) if pipeline else given.pop("source", "")
        return Passes(source=source, host=given.pop("host", ""), kinds=given)

    def _device_libs(self, node: Node | None) -> dict[str, tuple[Path, ...]]:
        if node is None:
            return {}
        if node.shape is Shape.LIST:
            libraries = read_libraries(self._root, node, self._problems)
            return dict.fromkeys(registry.kinds(), libraries) if libraries else {}
        return {
            kind: read_libraries(self._root, member.node, self._problems)
            for kind, member in node.members.items()
        }


def all_sources(programs: Mapping[str, Member]) -> tuple[str, ...] | None:
    """The sources of all programs, as :func:`named_sources`."""
    named = [named_sources(member.node) for member in programs.values()]
    return None if None in named else tuple(dict.fromkeys(name for names in named for name in names or ()))


def named_sources(program: Node) -> tuple[str, ...] | None:
    """Return them as written; ``None`` where a part of them may be missing because of an error."""
    sources = _child(program, "sources")
    return _texts(sources) if sources is not None and not program.flawed else None


def _own(source: Path, program: HostSection, project: HostSection) -> HostOptions:
    """Return the options of a single source."""
    return program.sources.get(source, NO_OPTIONS).over(project.sources.get(source, NO_OPTIONS))


def _cannot_select(value: int | str, targets: tuple[str, ...]) -> str:
    if isinstance(value, int):
        return "" if value < len(targets) else f"has {len(targets)} targets, so there is no index {value}"
    return "" if value in targets else f"is not compiled for target '{value}' ({', '.join(targets)})"


def _child(node: Node | None, key: str) -> Node | None:
    member = node.members.get(key) if node else None
    return member.node if member else None


def _texts(node: Node | None) -> tuple[str, ...]:
    return tuple(str(item.scalar) for item in node.items) if node else ()
