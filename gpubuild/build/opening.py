"""Opening: from a project, settings and options to a builder with all that it works with.

Aside: what is looked at in a build folder that cannot be written, in a temporary folder beside it.

Nobody is kept from building meanwhile: since all files count by content, what is outdated at worst
is made of its source once more, here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpubuild.build.builder import Builder
from gpubuild.build.lock import build_lock, remove_links
from gpubuild.build.native import resolve_native
from gpubuild.build.null_build_proof import Witness
from gpubuild.cache.open_store import open_store
from gpubuild.execute.executor import Executor, LazyExecutor
from gpubuild.model.build_options import BuildOptions
from gpubuild.model.events import Listener, Silent
from gpubuild.model.project import Project, RemoteMode
from gpubuild.plan.layout import Layout
from gpubuild.settings import Settings
from gpubuild.support.frozen import replace
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
        remove_links(layout)
        with _builder(
            project, settings, options, layout, listener, witness=witness, threads=threads
        ) as builder:
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
    store = open_store(config, settings, on_full=_collect_later, project=project.root)
    workers = options.jobs or settings.jobs or len(os.sched_getaffinity(0))
    executor = LazyExecutor(workers, _local_executor)
    if threads or store.has_remote:
        executor.start()
    try:
        resolved = resolve_native(project)
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
    from gpubuild.toolchain.find import misnamed

    return misnamed(settings, {target.kind for target in project.targets.values()})


_OFF = "off"


def lay_out(layout: Layout, folder: Path) -> Layout:
    """The same, with ``folder`` for what is made of sources, where all lies that has been made of them."""
    aside = replace(layout, scratch=folder)
    for directory, _, names in os.walk(layout.sources):
        here = aside.sources / Path(directory).relative_to(layout.sources)
        here.mkdir(parents=True, exist_ok=True)
        for name in names:
            there = Path(directory, name)
            with suppress(OSError):  # gone by now
                if there.suffix == ".json":  # read in this process after its digest was
                    shutil.copyfile(there, here / name)
                else:
                    (here / name).symlink_to(there)
    return aside


def reading_only(settings: Settings, project: Project) -> Settings:
    """With caches that are only asked, as far as they may be."""
    asked = (RemoteMode.READ_WRITE, RemoteMode.READ_ONLY, "")
    remote = project.cache.remote
    configured = settings.remote_mode or (remote.mode if remote else "")
    return replace(
        settings,
        cache_mode=RemoteMode.READ_ONLY if settings.cache_mode in asked else _OFF,
        remote_mode=RemoteMode.READ_ONLY if configured in asked else _OFF,
    )


def _collect_later(directory: Path, size_bytes: int) -> None:
    from gpubuild.toolchain.run import collect_later  # loads subprocess, for which most builds have no use

    collect_later(directory, size_bytes)
