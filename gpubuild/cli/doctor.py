"""``gpubuild doctor``: list the tools, where they were found, and what each target of a project needs."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gpubuild import __version__
from gpubuild.cli.console import Console, paint
from gpubuild.cli.json_document import dump
from gpubuild.cli.quick import find_project
from gpubuild.errors import EXIT_USAGE
from gpubuild.model.project import CacheConfig, Project
from gpubuild.settings import Settings
from gpubuild.support.text import shown_path
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target
from gpubuild.toolchain.find import ToolRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """The tools of a target. It cannot compile without ``missing``; some kernels need ``wanted``."""

    name: str
    kind: str
    chip: str
    tools: tuple[str, ...]
    missing: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Return whether all required tools were found."""
        return not self.missing


def load(file: Path | None, console: Console) -> Project | None:
    """Return the project in ``file``, by default in targets.yaml if that exists and is valid.

    Raises ``ConfigError`` for a named file.
    """
    from gpubuild.config.load import load_project
    from gpubuild.errors import GpubuildError

    if file is not None:
        return load_project(file)
    found = Path(find_project())
    if not found.is_file():
        return None
    try:
        return load_project(found)
    except GpubuildError:
        console.warning(f"{found} has errors (see `gpubuild build`); its targets are not listed")
        return None


def _row(target: Target, tools: Mapping[str, ToolRow]) -> TargetRow:
    from gpubuild.plan.planner import format_tools, tools_of

    needed = dict.fromkeys((*tools_of(target.kind), *format_tools(target)))
    required = tuple(name for name in needed if name in tools)
    optional = vendor(target.kind).optional_tools
    return TargetRow(
        name=target.name,
        kind=str(target.kind),
        chip=target.chip,
        tools=(*required, *optional),
        missing=tuple(name for name in required if not tools[name].found),
        wanted=tuple(name for name in optional if not tools[name].found),
    )


def _cache(settings: Settings, project: Project | None) -> tuple[Path, str]:
    """Return the folder of the cache, and why it is not that of all of the user's projects."""
    from gpubuild.cache.open_store import locate, user_cache

    named = settings.cache_dir or (project.cache.directory if project else None)
    root = project.root if project else Path.cwd()
    config = CacheConfig(directory=named)
    return locate(config, settings, root)[0], "" if named else user_cache(settings)[1]


def _show_tool(row: ToolRow, width: int, console: Console) -> None:
    word, style = ("ok", "green") if row.found else ("missing", "red" if row.required else "yellow")
    mark = paint(f"{word:7}", style, on=console.color_out)
    console.print(f"{mark}  {row.name:{width}}  {row.version or '-':12}  {row.source or row.needed_by}")
    indent = " " * (11 + width)
    if row.path and console.verbose:
        console.print(f"{indent}{row.path}\n{indent}sha256 {row.fingerprint}")
    for text in (row.problem, row.fix):
        if text:
            console.print(indent + text)
    if not row.found:
        console.print(f"{indent}needed by: {row.needed_by}")


def execute(options: argparse.Namespace) -> int:
    """Run the command; the exit code is 0 if all required tools were found, also on the cluster."""
    from gpubuild.cli import doctor_remote
    from gpubuild.toolchain import runtime_library
    from gpubuild.toolchain.find import Toolchain

    console: Console = options.console
    project = load(options.file, console)
    toolchain = Toolchain(options.settings)
    rows = toolchain.describe_all()
    tools = {row.name: row for row in rows}
    targets = [_row(target, tools) for target in project.targets.values()] if project else []
    healthy = all(row.found for row in rows if row.required)
    cache, problem = _cache(options.settings, project)
    remote = doctor_remote.look(options, project) if options.remote else None
    code = 0 if healthy and (remote is None or remote.ok) else EXIT_USAGE
    if options.json:
        document: dict[str, object] = {
            "schema": 1,
            "gpubuild": __version__,
            "python": platform.python_version(),
            "platform": f"{sys.platform} {platform.machine()}",
            "ok": healthy,
            "tools": [{**asdict(row), "found": row.found} for row in rows],
            "targets": [{**asdict(row), "found": row.found} for row in targets],
            "cache": {"directory": str(cache), "problem": problem},
        }
        if remote is not None:
            document["remote"] = remote.document()
        console.print(dump(document))
        return code
    console.print(
        f"gpubuild {__version__} on Python {platform.python_version()}, {sys.platform} {platform.machine()}"
    )
    width = max(len(row.name) for row in rows)
    for row in rows:
        _show_tool(row, width, console)
    console.print(f"cache {cache}" + f": {problem}" * bool(problem))
    if options.settings.cc is None and "archive" not in toolchain.runtime_files():
        console.print(
            f"no archive of the runtime library: builds compile it; {runtime_library.MAKE} makes one"
        )
    if project and targets:
        console.print(f"targets of {shown_path(project.file)}")
    for target in targets:
        console.print(_line(target, width, color=console.color_out))
    if remote is not None:
        doctor_remote.show(remote, console)
    if healthy:
        console.print("all required tools found")
    else:
        console.print("a required tool is missing: see above")
    return code


def _line(target: TargetRow, width: int, *, color: bool) -> str:
    word, style = ("ok", "green") if target.found else ("missing", "red")
    if target.found and target.wanted:
        word, style = "partly", "yellow"
    mark = paint(f"{word:7}", style, on=color)
    return f"{mark}  {target.name:{width}}  {target.kind:5} {target.chip:12}  {_needs(target)}"


def _needs(target: TargetRow) -> str:
    """Return the tools of a target, or the missing ones; their rows say how to get them."""
    if target.missing:
        return f"needs {', '.join(target.missing)}"
    if target.wanted:
        return f"without {', '.join(target.wanted)}: kernels that call its functions cannot compile"
    return ", ".join(target.tools)
