"""Opening: from a project, settings and options to a builder with all that it works with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpubuild.build import Builder
from gpubuild.cache.opening import open_store
from gpubuild.events import Listener, Silent
from gpubuild.execute.lazy import LazyExecutor
from gpubuild.execute.protocol import Executor
from gpubuild.frozen import replace
from gpubuild.graph.layout import Layout
from gpubuild.lock import build_lock
from gpubuild.model.project import Project
from gpubuild.native import resolve_native
from gpubuild.options import BuildOptions
from gpubuild.proof import Witness
from gpubuild.settings import Settings
from gpubuild.toolchain.detach import collect_later
from gpubuild.toolchain.find import Toolchain


def _local_executor(workers: int) -> Executor:
    from gpubuild.execute.local import LocalExecutor  # not where everything is in the cache

    return LocalExecutor(workers)


@contextmanager
def open_builder(
    project: Project,
    settings: Settings,
    options: BuildOptions,
    listener: Listener | None = None,
    *,
    witness: Witness | None = None,
    threads: bool = True,
) -> Iterator[Builder]:
    """A builder that holds the build folder's lock, and releases everything at the end.

    Raises ``UsageError`` when the build folder cannot be used. Workers are forked here; only a
    caller that has no ``threads`` by the time of the first step may leave it until then.
    With a ``witness``, a build that ended well leaves a receipt.
    """
    layout = Layout(root=project.root, build_dir=options.build_dir)
    listener = listener or Silent()
    with (
        build_lock(layout, listener),
        _builder(project, settings, options, layout, listener, witness=witness, threads=threads) as builder,
    ):
        yield builder


@contextmanager
def _builder(
    project: Project,
    settings: Settings,
    options: BuildOptions,
    layout: Layout,
    listener: Listener,
    *,
    witness: Witness | None = None,
    threads: bool,
) -> Iterator[Builder]:
    directory = options.cache_dir or settings.cache_dir or project.cache.directory
    config = replace(project.cache, directory=directory) if options.use_cache else None
    store = open_store(config, settings, on_full=collect_later)
    workers = options.jobs or settings.jobs or len(os.sched_getaffinity(0))
    executor = LazyExecutor(workers, _local_executor)
    if threads or store.has_remote:
        executor.start()
    try:
        resolved = resolve_native(project)
        if witness is not None and resolved is not project:
            witness.note_native()
        builder = Builder(
            project=resolved,
            options=options,
            layout=layout,
            listener=listener,
            toolchain=Toolchain(settings, memo=layout.tools_memo),
            store=store,
            executor=executor,
            witness=witness,
            misnamed=misnamed_in(settings, resolved),
        )
        yield builder
    except BaseException:
        executor.cancel()
        store.cancel()
        raise
    finally:
        executor.close()
        store.close()
    builder.tell_late_warnings()


@contextmanager
def open_reader(
    project: Project,
    settings: Settings,
    options: BuildOptions,
    listener: Listener | None = None,
    *,
    threads: bool = True,
) -> Iterator[Builder]:
    """A builder for a request that is to change nothing: a dry run, a plan, an explanation.

    Like :func:`open_builder`, but where the build folder cannot be written, what is made of sources
    lies in a temporary folder, nothing is locked and nothing is kept.
    """
    layout = Layout(root=project.root, build_dir=options.build_dir)
    if can_write(layout):
        with open_builder(project, settings, options, listener, threads=threads) as builder:
            yield builder
        return
    import tempfile

    from gpubuild.aside import lay_out, reading_only

    with tempfile.TemporaryDirectory(prefix="gpubuild-") as folder:
        settings, layout = reading_only(settings, project), lay_out(layout, Path(folder))
        with _builder(project, settings, options, layout, listener or Silent(), threads=threads) as builder:
            yield builder


def can_write(layout: Layout) -> bool:
    """Whether this user can write to the build folder, or make it."""
    there = next(path for path in (layout.private, *layout.private.parents) if path.exists())
    lock = layout.lock_file
    return os.access(there, os.W_OK) and (os.access(lock, os.W_OK) or not lock.exists())


def misnamed_in(settings: Settings, project: Project) -> tuple[str, ...]:
    """What to warn of that the environment names and that is not there."""
    if not settings.names_tools:
        return ()
    from gpubuild.toolchain.misnamed import misnamed

    return misnamed(settings, {target.kind for target in project.targets.values()})
