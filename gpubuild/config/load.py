"""Load: targets.yaml to a :class:`Project`, or all its errors at once."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from gpubuild import environment
from gpubuild.config.host import read_host
from gpubuild.config.keys import document, workspace
from gpubuild.config.merge import Configuration
from gpubuild.config.programs import Patterns, all_sources, read_generate, read_programs
from gpubuild.config.spec import check
from gpubuild.config.targets import Options, read_options, read_targets
from gpubuild.config.yaml_tree import ABSENT, Node, Problems, decode, parse, resolve
from gpubuild.errors import ConfigError, Diagnostic, GpubuildError, Location, WorkspaceError
from gpubuild.model.project import (
    CacheConfig,
    Execute,
    HostOptions,
    Project,
    RemoteCache,
    RemoteMode,
    Variant,
)
from gpubuild.support.frozen import replace
from gpubuild.support.text import nearest, shown_path, size_of

_PLAIN = Variant()


def load_project(path: Path, variant: Variant = _PLAIN) -> Project:
    """Read the project file at ``path``.

    Raises ``ConfigError`` with all errors and their locations, also for a file that cannot be read or is
    not UTF-8, and ``UsageError`` for options in ``variant`` that cannot be applied.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        where = "it is a folder" if path.is_dir() else str(error.strerror)
        hint = "go to the project's folder, name the file with -f, or start one with `gpubuild init`"
        raise ConfigError(
            [Diagnostic(message=f"cannot read the project file: {where}", location=Location(file=str(path)))],
            hint="" if isinstance(error, PermissionError) else _nearby(path) or hint,
        ) from error
    return loads(data, path, variant=variant)


def find_value(file: Path, keys: Sequence[str], value: str, message: str) -> Diagnostic | None:
    """Return a note where ``file`` has ``value`` under nested ``keys``; ``None`` if it does not."""
    try:
        text = decode(file.read_bytes(), shown_path(file))
    except (OSError, ConfigError):
        return None
    problems = Problems(shown_path(file), text)
    node = parse(text, problems) or ABSENT
    for key in keys:
        node = node.child(key)
    if not node:
        return None
    # A pipeline may have macros.
    pattern = ".*".join(map(re.escape, re.split(r"\$\{[^}]*\}", str(node.scalar))))
    if not re.fullmatch(pattern, value, re.DOTALL):
        return None
    return problems.diagnostic(node.place, message, severity="note")


def _nearby(path: Path) -> str:
    """Return the hint for a project file in a folder above, or with a similar name."""
    if path.exists():
        return ""
    import shlex  # not for a file that is there

    absolute = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute() keeps `..`
    try:
        names = [p.name for p in absolute.parent.iterdir() if p.suffix in (".yaml", ".yml")]
        above = next((p for p in absolute.parents[1:] if (p / path.name).is_file()), None)
    except OSError:
        return ""
    if near := nearest(path.name, names):
        return f"did you mean {near[0]}? Rename it, or name it with -f"
    if above is not None:
        there = os.path.relpath(above / path.name)
        return f"there is one in a folder above: go there, or use -f {shlex.quote(there)}"
    return ""


def loads(
    text: str | bytes,
    path: Path,
    *,
    machine: str = "",
    variant: Variant = _PLAIN,
    read: Callable[[Path], bytes] = Path.read_bytes,
) -> Project:
    """Like :func:`load_project`, for the ``text`` of a file that is, or would be, at ``path``.

    ``machine`` stands in for ``platform.machine()`` when CPU targets are settled. ``read`` is called for
    each included file.
    """
    name = shown_path(path)
    text = decode(text, name) if isinstance(text, bytes) else text
    problems = Problems(name, text)
    file = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute() keeps `..`
    configuration = Configuration(file, problems, read)
    try:
        tree = configuration.load(text, variant)
    except ConfigError as error:
        if parse(text, Problems(name)) is None:
            _check_targets_above(text, error.problems[0], file, problems, machine)
        raise problems.error() from error
    if "workspace" in tree.members:
        raise _workspace(tree, file, problems)
    checked = check(tree, document(), problems)
    if checked is None:
        raise problems.error()
    project = _project(checked, file, problems, machine, configuration)
    if problems:
        raise problems.error()
    return replace(project, variant=variant, included=tuple(configuration.included))


def _check_targets_above(text: str, error: Diagnostic, file: Path, problems: Problems, machine: str) -> None:
    """Report errors of the targets that stand complete above a syntax error."""
    lines = text.split("\n")
    for found in (error, *error.notes):  # a note says where what is not closed begins
        number = found.location.line if found.location else 1
        above = parse("\n".join(lines[: number - 1]), Problems(""))
        if above is None or "targets" not in above.members or "include" in above.members:
            continue
        targets = above.members["targets"]
        declared = dict(targets.node.members)
        column = len(lines[number - 1]) - len(lines[number - 1].lstrip()) + 1
        if declared and [*above.members][-1] == "targets":
            name, last = [*declared.items()][-1]
            if last.place.column < column:  # the error is in this entry
                del declared[name]
        for name, member in declared.items():  # pipelines may have macros that are defined below
            kept = {key: value for key, value in member.node.members.items() if key != "passes"}
            declared[name] = replace(member, node=replace(member.node, members=kept))
        if declared:
            node = replace(targets.node, members=declared)
            checked = check(node, document().keys["targets"].spec, problems)
            known = checked.members if checked else {}
            read_targets(file.parent, known, Options(), HostOptions(), problems, machine)
        return


def _workspace(tree: Node, file: Path, problems: Problems) -> GpubuildError:
    """Return the error with the projects of a workspace, or its mistakes."""
    checked = check(tree, workspace(), problems)
    listed = checked.child("workspace").items if checked else ()
    files = []
    for item in listed:
        path = resolve(file.parent, item, problems)
        if path is not None and path.is_dir():
            path /= file.name
        if path is None or not path.is_file():
            problems.add(item.place, f"there is no project {item.describe()}")
        else:
            files.append(path)
    if problems:
        return problems.error()
    return WorkspaceError(
        f"{shown_path(file)} is a workspace of {', '.join(item.raw for item in listed)}",
        hint=f"go to one of its projects: gpubuild -C {listed[0].raw} …",
        files=files,
    )


def _project(
    document: Node, file: Path, problems: Problems, machine: str, configuration: Configuration
) -> Project:
    root = file.parent
    defaults = read_options(document.child("defaults"), Options())
    target_members = document.child("targets").members
    program_members = document.child("programs").members
    patterns: Patterns = {}
    generate = read_generate(root, document.child("generate"), problems, patterns)
    sources = all_sources(root, program_members, problems, patterns)
    host = read_host(root, document.child("host"), problems, sources=sources, owner="any program")
    return Project(
        root=root,
        file=file,
        targets=read_targets(root, target_members, defaults, host.options, problems, machine),
        # Names count as declared even where their options are wrong: that is reported already.
        programs=read_programs(
            root,
            program_members,
            tuple(target_members),
            host,
            problems,
            defines=configuration.defines,
            added=tuple(configuration.added_targets),
            patterns=patterns,
            generated=frozenset(name for entry in generate for name in entry.outputs),
        ),
        generate=generate,
        cache=_cache(root, document.child("cache"), problems),
        execute=_execute(root, document.child("execute"), problems),
        opt_level=defaults.opt_level,
        debug=bool(defaults.debug),
        patterns=tuple((folder, pattern, found) for (folder, pattern), found in patterns.items()),
    )


def _cache(root: Path, node: Node, problems: Problems) -> CacheConfig:
    directory = remote = None
    if folder := node.child("dir"):
        directory = _in_home(folder, problems) or resolve(root, folder, problems)
    if url := node.child("remote").child("url"):
        mode = node.child("remote").given(mode=RemoteMode)
        remote = RemoteCache(url=str(url.scalar).rstrip("/"), **mode)
    size = node.child("max_size").scalar
    if size is not None and directory is None:
        directory = root / "cache"  # the limit of one project must not shrink the cache of all
    return CacheConfig(
        directory=directory,
        max_size_bytes=size_of(size) if isinstance(size, str) else int(size or 0),
        remote=remote,
    )


def _execute(root: Path, node: Node, problems: Problems) -> Execute | None:
    if not node:
        return None
    file = node.child("scheduler_file")
    if not node.flawed and bool(node.child("dask")) == bool(file):
        problems.add(node.place, "'execute' needs one of 'dask' and 'scheduler_file'")
    verify = str(node.child("verify").scalar or 0)
    if not environment.is_part(verify):
        problems.add(node.child("verify").place, f"expected a number from 0 to 1, got {verify}")
        verify = "0"
    timeouts = node.child("timeouts").given(connect=float, no_worker=float, step=float)
    return Execute(
        scheduler_file=resolve(root, file, problems) if file else None,
        verify=float(verify),
        **node.given(dask=str, jobs=int, only=bool, fallback=bool, retries=int),
        **{f"{name}_seconds": seconds for name, seconds in timeouts.items()},
    )


def _in_home(node: Node, problems: Problems) -> Path | None:
    """Return the path of ``~/…``, which YAML does not expand; ``None`` for any other path."""
    text = str(node.raw)
    if not text.startswith("~/"):
        return None
    home = environment.whole().get("HOME", "")
    if not home.startswith("/"):
        problems.add(node.place, f"{text!r} is below your home folder, but HOME is not set")
    return Path(home or "/") / text[2:]
