"""Open a build: from a project, settings and options to a ``Builder`` with all that it needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild.build.builder import Builder
from gpubuild.build.lock import build_lock, remove_links
from gpubuild.build.null_build_record import Witness
from gpubuild.cache.open_store import open_store
from gpubuild.cache.store import NullStore, Store
from gpubuild.errors import UsageError
from gpubuild.execute.executor import Executor, LazyExecutor, take_early
from gpubuild.model.events import BuildWarning, Listener, Silent
from gpubuild.model.project import BuildOptions, Execute, Project
from gpubuild.model.result import BuildReport
from gpubuild.plan.layout import Layout
from gpubuild.plan.sources import with_generated
from gpubuild.settings import Settings
from gpubuild.support.frozen import replace
from gpubuild.support.text import shown_path
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target
from gpubuild.toolchain.find import Toolchain

if TYPE_CHECKING:
    from gpubuild.cache.remote.store import RemoteStore


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
    """Yield a builder that holds the build folder's lock, and release everything at the end.

    Raises ``UsageError`` when the build folder cannot be used. Workers are forked here, unless the
    caller promises to have no ``threads`` when the first step runs. With a ``witness``, a successful
    build leaves a receipt.
    """
    layout = Layout(root=project.root, build_dir=options.build_dir)
    real = layout.build_dir.resolve()
    if real in (root := project.root.resolve(), *root.parents):
        raise UsageError(
            f"refusing to build into {options.build_dir}: it is or contains the project's folder",
            hint="name a folder for outputs alone with --build-dir",
        )
    listener = listener or Silent()
    with build_lock(layout, listener):
        remove_links(layout)
        directory = options.cache_dir or settings.cache_dir or project.cache.directory
        config = replace(project.cache, directory=directory) if options.use_cache else None
        store = open_store(config, settings, on_full=_collect_later, project=project.root)
        workers = options.jobs or settings.jobs or len(os.sched_getaffinity(0))
        execute = execute_settings(project.execute, settings, options)
        make = partial(_executor, execute=execute, remote=store.remote, listener=listener)
        executor = LazyExecutor(workers, make)
        if execute is None:
            executor.use_early()
        if threads or store.has_remote:
            executor.start()
        try:
            builder = _builder(project, settings, options, layout, listener, store, executor, witness)
            yield builder
        except BaseException:
            executor.cancel()
            store.cancel()
            raise
        finally:
            executor.close()
            store.close()
        builder.send_late_warnings()


def finished_build(project: Project, settings: Settings, options: BuildOptions) -> BuildReport | None:
    """Return the report of an up-to-date build in a folder that cannot be written.

    Return ``None`` if the folder can be written or has no build. Raises ``UsageError`` if a step is
    outdated. Runs and locks nothing.
    """
    layout = Layout(root=project.root, build_dir=options.build_dir)
    if not layout.state_file.exists() or _can_write(layout):
        return None
    executor = LazyExecutor(1, _local_executor)  # starts nothing
    builder = _builder(project, settings, options, layout, Silent(), NullStore(), executor, None)
    report, outdated = builder.look()
    if report is not None:
        return report
    named = [project.programs[name] for name in options.programs if name in project.programs]
    existing = [path for p in named if (path := layout.product(p)).is_file() and os.access(path, os.X_OK)]
    unchanged = f", or run {shown_path(existing[0])} unchanged" if existing else ""
    raise UsageError(
        f"cannot write to the build folder {shown_path(layout.build_dir)}, "
        f"which is not up to date: {outdated}",
        hint=f"build into another folder with --build-dir{unchanged}",
    )


def resolve_native(project: Project) -> Project:
    """Replace ``chip: native`` by this machine's CPU, which is then part of the key."""
    if not any(map(_is_native, project.targets.values())):
        return project
    from gpubuild.engine.ir.llvm import host_cpu

    name, features = host_cpu()
    targets = {
        key: replace(t, chip=name, features=",".join(f for f in (features, t.features) if f))
        if _is_native(t)
        else t
        for key, t in project.targets.items()
    }
    return replace(project, targets=targets)


def _is_native(target: Target) -> bool:
    return target.chip == vendor(target.kind).native_chip


def _builder(
    project: Project,
    settings: Settings,
    options: BuildOptions,
    layout: Layout,
    listener: Listener,
    store: Store,
    executor: Executor,
    witness: Witness | None,
) -> Builder:
    return Builder(
        project=with_generated(resolve_native(project), layout),
        options=options,
        layout=layout,
        listener=listener,
        toolchain=Toolchain(settings, memo=layout.tools_memo),
        store=store,
        executor=executor,
        witness=witness,
    )


def _local_executor(workers: int) -> Executor:
    from gpubuild.execute.local import LocalExecutor  # not needed when all is in the cache

    return LocalExecutor(workers)


def execute_settings(configured: Execute | None, settings: Settings, options: BuildOptions) -> Execute | None:
    """Return the cluster to use: of the options, else the environment, else the project; ``None`` for none.

    Raises ``UsageError``.
    """
    where = options.executor or settings.executor
    if where == "local":
        return None
    execute = configured
    if where:
        engine, _, address = where.partition(":")
        if engine != "dask" or not address:
            raise UsageError(f"there is no executor {where!r}", hint="write local or dask:ADDRESS")
        execute = replace(execute or Execute(), dask=address, scheduler_file=None)
    if execute is None:
        return None
    only, fallback, verify = settings.execute_only, settings.execute_fallback, settings.execute_verify
    execute = replace(
        execute,
        jobs=settings.execute_jobs or execute.jobs,
        only=execute.only if only is None else only,
        fallback=(execute.fallback if fallback is None else fallback) and options.fallback,
        verify=execute.verify if verify is None else verify,
        insecure=execute.insecure or options.insecure_remote,
    )
    if execute.scheduler_file is None:
        from gpubuild.execute.dask_cluster import check_address

        check_address(execute.dask, insecure=execute.insecure)
    return execute


def _executor(
    workers: int,
    *,
    execute: Execute | None,
    remote: RemoteStore | None,
    listener: Listener,
) -> Executor:
    if execute is None:
        return _local_executor(workers)
    # It forks: before Dask starts threads.
    local = take_early(workers) or _local_executor(workers)
    from gpubuild.execute.dask import DaskExecutor

    try:
        return DaskExecutor(
            local, execute, lambda text: listener.on_event(BuildWarning(message=text)), remote
        )
    except BaseException:
        local.close()
        raise


def _collect_later(directory: Path, size_bytes: int) -> None:
    from gpubuild.toolchain.run import collect_later  # loads subprocess

    collect_later(directory, size_bytes)


def _can_write(layout: Layout) -> bool:
    """Whether this user can write to the build folder, or create it."""
    existing = next(path for path in (layout.private, *layout.private.parents) if path.exists())
    lock = layout.lock_file
    return os.access(existing, os.W_OK) and (os.access(lock, os.W_OK) or not lock.exists())
