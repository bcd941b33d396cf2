"""Opening: from a project, settings and options to a builder with all that it works with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from gpubuild.build import Builder
from gpubuild.cache.opening import open_store
from gpubuild.events import Listener, Silent
from gpubuild.execute.lazy import LazyExecutor
from gpubuild.execute.protocol import Executor
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
    with build_lock(layout, listener):
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


def misnamed_in(settings: Settings, project: Project) -> tuple[str, ...]:
    """What to warn of that the environment names and that is not there."""
    if not settings.names_tools:
        return ()
    from gpubuild.toolchain.misnamed import misnamed

    return misnamed(settings, {target.kind for target in project.targets.values()})
