"""``gpubuild doctor --remote``: compare the workers of a cluster with this machine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpubuild.build.opening import execute_settings
from gpubuild.cache.open_store import choose_remote
from gpubuild.cli.console import Console, paint
from gpubuild.errors import UsageError
from gpubuild.execute.agent import identity
from gpubuild.execute.dask_cluster import RemoteWorker, query
from gpubuild.model.project import BuildOptions, Project
from gpubuild.plan.planner import tools_of
from gpubuild.support.text import counted
from gpubuild.targets.registry import kinds

_EVERY_STEP = ("python", "wire")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker: the tools that differ, or that it lacks, and for which kinds of targets it runs steps."""

    worker: RemoteWorker
    differing: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """The scheduler and its workers. ``missing`` are kinds of targets for which no worker runs steps."""

    scheduler: str
    problem: str
    seconds: float
    rows: tuple[WorkerRow, ...]
    missing: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Return whether steps of all targets run on the cluster."""
        return not self.problem and not self.missing

    def document(self) -> dict[str, object]:
        """Return this for JSON."""
        return {
            "scheduler": self.scheduler,
            "ok": self.ok,
            "problem": self.problem,
            "round_trip_ms": round(self.seconds * 1e3, 2),
            "missing": list(self.missing),
            "workers": [
                {
                    "name": row.worker.name,
                    "address": row.worker.address,
                    "threads": row.worker.threads,
                    "python": row.worker.identity.get("python", ""),
                    "round_trip_ms": round(row.worker.seconds * 1e3, 2),
                    "problem": row.worker.problem,
                    "differing": list(row.differing),
                    "kinds": list(row.kinds),
                }
                for row in self.rows
            ],
        }


def look(options: argparse.Namespace, project: Project | None) -> Remote:
    """Ask the cluster of the options, the environment or the project. Raises ``UsageError`` for none."""
    request = BuildOptions(
        build_dir=Path(), executor=options.executor or "", insecure_remote=options.insecure_remote
    )
    cluster = execute_settings(project.execute if project else None, options.settings, request)
    if cluster is None:
        raise UsageError(
            "no cluster is named", hint="write --executor dask:ADDRESS, or execute: in targets.yaml"
        )
    wanted = sorted({str(t.kind) for t in project.targets.values()}) if project else list(kinds())
    problem, seconds, workers = "", 0.0, list[RemoteWorker]()
    try:
        seconds, workers = query(cluster)
    except UsageError as error:
        problem = error.message
    ours = {name: value for name, value in identity().items() if name != "cache"}
    if cache := choose_remote(project.cache.remote if project else None, options.settings):
        ours["cache"] = cache.url
    rows = tuple(_row(ours, worker) for worker in workers)
    if not problem and not workers:
        problem = "the scheduler has no workers"
    missing = tuple(kind for kind in wanted if not any(kind in row.kinds for row in rows))
    return Remote(scheduler=cluster.shown, problem=problem, seconds=seconds, rows=rows, missing=missing)


def show(remote: Remote, console: Console) -> None:
    """Print the scheduler and a line for each worker."""
    console.print(
        f"scheduler {remote.scheduler}: {remote.problem or f'round trip {remote.seconds * 1e3:.1f} ms'}"
    )
    width = max((len(row.worker.name) for row in remote.rows), default=0)
    for row in remote.rows:
        word, style = ("ok", "green") if not row.differing else ("partly", "yellow")
        if not row.kinds:
            word, style = "unused", "red"
        threads = f"{counted(row.worker.threads, 'step')} at once"
        text = row.worker.problem or (
            f"{row.worker.identity.get('python', '')}  {row.worker.seconds * 1e3:.1f} ms  "
            f"{', '.join(row.kinds) or 'no targets'}"
        )
        mark = paint(f"{word:7}", style, on=console.color_out)
        console.print(f"{mark}  {row.worker.name:{width}}  {threads}  {text}")
        if row.differing and not row.worker.problem:
            console.print(f"{' ' * (11 + width)}differ from here: {', '.join(row.differing)}")
    if remote.missing and remote.rows:
        console.print(f"no worker runs steps for {', '.join(remote.missing)}: such steps run on this machine")


def _row(ours: Mapping[str, str], worker: RemoteWorker) -> WorkerRow:
    theirs = worker.identity
    if worker.problem:
        return WorkerRow(worker=worker, differing=(), kinds=())
    differing = tuple(
        name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)
    )
    usable = not any(name in differing for name in _EVERY_STEP)
    able = tuple(kind for kind in kinds() if usable and not set(tools_of(kind)) & set(differing))
    return WorkerRow(worker=worker, differing=differing, kinds=able)
