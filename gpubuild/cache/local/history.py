"""History: how well the cache served the last builds of each project, and which results they used.

One small file a project in the cache folder, so that it travels with the cache to fresh checkouts
on CI. Losing it costs a remark in the summary, nothing else.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from gpubuild.cache.local.locking import locked
from gpubuild.cache.protocol import Notes
from gpubuild.model.digest import Digest, digest_bytes, encode, is_digest
from gpubuild.model.result import CacheUse, Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.support.frozen import fields, frozen
from gpubuild.support.text import counted

SCHEMA = "gpubuild.history/1"
MAX_BUILDS = 20
MAX_BUILDS_WITH_KEYS = 3
MAX_PROJECTS = 64
MAX_HISTORY_BYTES = 64 << 20
_FOLDER = "history"
_SOURCES = "the sources changed"
_SERVED = frozenset({Status.HIT_LOCAL, Status.HIT_REMOTE, Status.UP_TO_DATE})


@frozen
class Group:
    """How many steps of one kind and target ended how."""

    kind: str
    target: str
    up_to_date: int = 0
    hit_local: int = 0
    hit_remote: int = 0
    ran: int = 0

    @property
    def served(self) -> int:
        """Steps that did not have to run."""
        return self.up_to_date + self.hit_local + self.hit_remote


_GROUP_FIELDS = tuple(field.name for field in fields(Group))


@frozen
class BuildEntry:
    """One build. ``when`` is Unix time; ``tools`` and ``options`` (by target) are fingerprints.

    ``keys`` are those of all its steps; older entries have none.
    """

    when: int
    groups: tuple[Group, ...]
    tools: Mapping[str, str]
    options: Mapping[str, str]
    keys: tuple[Digest, ...] = ()

    @property
    def rate(self) -> float:
        """The part of the steps that did not have to run, 0 to 1."""
        steps = sum(group.served + group.ran for group in self.groups)
        return sum(group.served for group in self.groups) / steps if steps else 1.0


class Keyed(Protocol):
    """What a build remembers of a step; ``parts`` is what its key was made of."""

    @property
    def parts(self) -> Mapping[str, str]:
        """By the names that explanations use."""
        ...


def record_build(
    cache: Path | None,
    programs: Iterable[str],
    steps: Mapping[str, Step],
    reports: Iterable[StepReport],
    record_of: Callable[[str], Keyed | None],
    notes: Notes | None = None,
) -> CacheUse | None:
    """Add a build to the history in the folder ``cache`` and compare it with the one before.

    ``programs`` are all those of the project, by which it is known wherever it is checked out;
    ``record_of`` tells what a step's key was made of. A machine without a history of the project
    takes the one in ``notes`` and continues it there. ``None`` when nothing had to be looked up.
    """
    if cache is None:
        return None
    reports = [report for report in reports if report.id in steps]
    if not any(report.status in (Status.RAN, Status.HIT_LOCAL, Status.HIT_REMOTE) for report in reports):
        return None
    entry = _entry(reports, record_of)
    project = project_id(programs)
    is_new = notes is not None and not read_history(cache, project)
    shared = _read_shared(notes, project) if notes is not None and is_new else []
    before = shared[-1] if shared else None
    with suppress(OSError):
        folder = cache / _FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        with locked(folder / "lock", wait_seconds=0.2) as alone:
            past = read_history(cache, project) or shared
            before = past[-1] if past else None
            if alone:
                write_history(cache, project, [*past, entry])
    if notes is not None and is_new:
        notes.send_note(_shared_name(project), encode_history([*shared, entry]))
    missed = {r.key for r in reports if r.status is Status.RAN and r.key}
    served = sum(group.served for group in entry.groups)
    return CacheUse(
        served=served,
        steps=served + sum(group.ran for group in entry.groups),
        previous_rate=before.rate if before else None,
        cause=(cause := _cause(before, entry, missed) if before else ""),
        expected=cause == _SOURCES,
    )


def project_id(programs: Iterable[str]) -> Digest:
    """What a project's history is filed under."""
    return digest_bytes(encode(tuple(sorted(programs))))


def list_projects(cache: Path) -> list[Digest]:
    """All projects with a history, the one built last first."""
    found = []
    with suppress(OSError):
        for path in (cache / _FOLDER).iterdir():
            if path.suffix == ".json" and is_digest(path.stem):
                found.append((path.stat().st_mtime, Digest(path.stem)))
    return [project for _, project in sorted(found, reverse=True)]


def read_history(cache: Path, project: Digest) -> list[BuildEntry]:
    """The builds of ``project``, oldest first; none when the file is absent or damaged."""
    try:
        with (cache / _FOLDER / f"{project}.json").open("rb") as stream:
            return decode_history(stream.read(MAX_HISTORY_BYTES))
    except (OSError, ValueError):
        return []


def write_history(cache: Path, project: Digest, builds: list[BuildEntry]) -> None:
    """Replace the history of ``project``, keeping what is recent. Raises ``OSError``."""
    folder = cache / _FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = folder / f"{os.getpid()}-{os.urandom(4).hex()}.tmp"
    try:
        temporary.write_bytes(encode_history(builds))
        temporary.replace(folder / f"{project}.json")
    finally:
        temporary.unlink(missing_ok=True)
    for old in list_projects(cache)[MAX_PROJECTS:]:
        (folder / f"{old}.json").unlink(missing_ok=True)


def encode_history(builds: list[BuildEntry]) -> bytes:
    """What is recent of ``builds``, for :func:`decode_history`."""
    builds = builds[-MAX_BUILDS:]
    cut = len(builds) - MAX_BUILDS_WITH_KEYS
    document = {
        "schema": SCHEMA,
        "builds": [_entry_to_json(build, with_keys=n >= cut) for n, build in enumerate(builds)],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _entry_to_json(build: BuildEntry, *, with_keys: bool) -> dict[str, object]:
    # Not by asdict: it would copy every text and number of every build, one by one.
    return {
        "when": build.when,
        "groups": [{name: getattr(group, name) for name in _GROUP_FIELDS} for group in build.groups],
        "tools": dict(build.tools),
        "options": dict(build.options),
        "keys": build.keys if with_keys else (),
    }


def forget_history(cache: Path) -> None:
    """Delete all of it."""
    for project in list_projects(cache):
        with suppress(OSError):
            (cache / _FOLDER / f"{project}.json").unlink()


def decode_history(data: bytes | str) -> list[BuildEntry]:
    """Raises ``ValueError`` for anything ``write_history`` did not write."""
    try:
        document = json.loads(data)
        if document["schema"] != SCHEMA or len(document["builds"]) > MAX_BUILDS:
            raise ValueError("another schema")
        return [_read_entry(item) for item in document["builds"]]
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"malformed: {error}") from error


def _shared_name(project: Digest) -> Digest:
    return digest_bytes(encode((SCHEMA, project)))


def _read_shared(notes: Notes, project: Digest) -> list[BuildEntry]:
    data = notes.read_note(_shared_name(project))
    try:
        return decode_history(data) if data else []
    except ValueError:
        return []


def _entry(reports: Iterable[StepReport], record_of: Callable[[str], Keyed | None]) -> BuildEntry:
    counts: dict[tuple[str, str], dict[str, int]] = {}
    tools: dict[str, str] = {}
    options: dict[str, set[str]] = {}
    for report in reports:
        column = report.status.value.replace("-", "_")
        if report.status not in _SERVED and report.status is not Status.RAN:
            continue
        group = counts.setdefault((report.kind.value, report.target), {})
        group[column] = group.get(column, 0) + 1
        record = record_of(report.id)
        for name, value in record.parts.items() if record else ():
            what, _, rest = name.partition(" ")
            if what == "tool":
                tools[rest] = value
            elif name == "key version":
                tools["gpubuild's key version"] = value
            elif what == "option" and report.kind is StepKind.COMPILE:
                options.setdefault(report.target, set()).add(f"{rest}={value}")
    return BuildEntry(
        when=int(time.time()),
        groups=tuple(Group(kind=k, target=t, **n) for (k, t), n in sorted(counts.items())),
        tools=tools,
        options={t: digest_bytes(encode(tuple(sorted(found)))) for t, found in options.items()},
        keys=tuple(sorted({report.key for report in reports if report.key})),
    )


def _cause(before: BuildEntry, now: BuildEntry, missed: set[Digest]) -> str:
    """Why steps had to run that did not have to before, as far as the two entries tell."""
    found = [f"{n} changed" for n, v in sorted(now.tools.items()) if before.tools.get(n, v) != v]
    for target, options in sorted(now.options.items()):
        if target not in before.options:
            found.append(f"target {target} is new")
        elif before.options[target] != options:
            found.append(f"the options of {target} changed")
    if lost := missed & set(before.keys):
        found.append(f"{counted(len(lost), 'result')} of the last build left the cache")
    if not found and missed:
        found.append(_SOURCES)
    return ", ".join(found[:4])


def _read_entry(item: dict[str, Any]) -> BuildEntry:
    names = {field.name for field in fields(BuildEntry)}
    if set(item) != names or not isinstance(item["when"], int) or not 0 <= item["when"] < 1 << 40:
        raise ValueError("not a build")
    keys = tuple(item["keys"])
    if not all(is_digest(key) for key in keys):
        raise ValueError("not a key")
    return BuildEntry(
        when=item["when"],
        groups=tuple(_read_group(group) for group in item["groups"]),
        tools={_text(k): _text(v) for k, v in item["tools"].items()},
        options={_text(k): _text(v) for k, v in item["options"].items()},
        keys=keys,
    )


def _read_group(item: dict[str, Any]) -> Group:
    counts = {name: item[name] for name in _GROUP_FIELDS}
    kind, target = _text(counts.pop("kind")), _text(counts.pop("target"))
    if not all(type(n) is int and 0 <= n < 1 << 32 for n in counts.values()):
        raise ValueError("not a count")
    return Group(kind=kind, target=target, **counts)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > 1000 or not value.isprintable():
        raise ValueError("not a text")
    return value
