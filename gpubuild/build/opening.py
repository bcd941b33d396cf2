"""Open a build: from a project, settings and options to a ``Builder`` with all that it needs.

A request that changes nothing also works where the build folder cannot be written (a mounted
artefact, a folder of another user). What it has to make then lies in a temporary folder, nothing is
locked and nothing is kept. Another build may go on meanwhile: since all files count by content, an
outdated one at worst is made of its source once more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpubuild.build.builder import Builder
from gpubuild.build.lock import build_lock, remove_links
from gpubuild.build.null_build_record import Witness
from gpubuild.cache.open_store import open_store
from gpubuild.cache.store import NullStore, Store
from gpubuild.errors import UsageError
from gpubuild.execute.executor import Executor, LazyExecutor
from gpubuild.model.events import Listener, Silent
from gpubuild.model.project import BuildOptions, Project, RemoteMode
from gpubuild.model.result import BuildReport
from gpubuild.plan.layout import Layout
from gpubuild.settings import Settings
from gpubuild.support.frozen import replace
from gpubuild.support.text import shown_path
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target
from gpubuild.toolchain.find import Toolchain


@contextmanager
def open_builder(
    project: Project,
    settings: Settings,
    options: BuildOptions,
    listener: Listener | None = None,
    *,
    changes: bool = True,
    witness: Witness | None = None,
    threads: bool = True,
) -> Iterator[Builder]:
    """A builder that holds the build folder's lock, and releases everything at the end.

    Raises ``UsageError`` when the build folder cannot be used. A request that ``changes`` nothing (a
    dry run, a plan, an explanation) also takes a folder that cannot be written. Workers are forked
    here; only a caller that has no ``threads`` by the time of the first step may leave it until
    then. With a ``witness``, a build that ended well leaves a receipt.
    """
    layout = Layout(root=project.root, build_dir=options.build_dir)
    listener = listener or Silent()
    if changes or _can_write(layout):
        with build_lock(layout, listener):
            remove_links(layout)
            with _running(project, settings, options, layout, listener, witness, threads=threads) as builder:
                yield builder
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="gpubuild-") as folder:
        settings, layout = _asking_only(settings, project), _with_scratch(layout, Path(folder))
        with _running(project, settings, options, layout, listener, witness, threads=threads) as builder:
            yield builder


def finished_build(project: Project, settings: Settings, options: BuildOptions) -> BuildReport | None:
    """Return the report of a build in a folder that cannot be written, and is up to date.

    ``None`` where the folder can be written, or holds no build. Raises ``UsageError`` where something
    is outdated. Runs and locks nothing.
    """
    layout = Layout(root=project.root, build_dir=options.build_dir)
    if not layout.state_file.exists() or _can_write(layout):
        return None
    executor = LazyExecutor(1, _local_executor)  # starts nothing
    builder = _builder(project, settings, options, layout, Silent(), NullStore(), executor, None)
    report, outdated = builder.look()
    if report is not None:
        return report
    existing = [path for name in options.programs if (path := layout.executable(name)).is_file()]
    unchanged = f", or run {shown_path(existing[0])} unchanged" if existing else ""
    raise UsageError(
        f"cannot write to the build folder {shown_path(layout.build_dir)}, "
        f"which is not up to date: {outdated}",
        hint=f"build into another folder with --build-dir{unchanged}",
    )


def resolve_native(project: Project) -> Project:
    """Replace ``chip: native`` by this machine's CPU, so that it becomes part of the key."""
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


@contextmanager
def _running(
    project: Project,
    settings: Settings,
    options: BuildOptions,
    layout: Layout,
    listener: Listener,
    witness: Witness | None,
    *,
    threads: bool,
) -> Iterator[Builder]:
    """A builder with a cache and workers, which are stopped and closed at the end."""
    directory = options.cache_dir or settings.cache_dir or project.cache.directory
    config = replace(project.cache, directory=directory) if options.use_cache else None
    store = open_store(config, settings, on_full=_collect_later, project=project.root)
    workers = options.jobs or settings.jobs or len(os.sched_getaffinity(0))
    executor = LazyExecutor(workers, _local_executor)
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
    builder.tell_late_warnings()


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
    resolved = resolve_native(project)
    return Builder(
        project=resolved,
        options=options,
        layout=layout,
        listener=listener,
        toolchain=Toolchain(settings, memo=layout.tools_memo),
        store=store,
        executor=executor,
        witness=witness,
        misnamed=_misnamed(settings, resolved),
    )


def _local_executor(workers: int) -> Executor:
    from gpubuild.execute.local import LocalExecutor  # not where everything is in the cache

    return LocalExecutor(workers)


def _collect_later(directory: Path, size_bytes: int) -> None:
    from gpubuild.toolchain.run import collect_later  # loads subprocess, for which most builds have no use

    collect_later(directory, size_bytes)


def _misnamed(settings: Settings, project: Project) -> tuple[str, ...]:
    """What to warn of that the environment names and that does not exist."""
    if not settings.names_tools:
        return ()
    from gpubuild.toolchain.find import misnamed

    return misnamed(settings, {target.kind for target in project.targets.values()})


def _can_write(layout: Layout) -> bool:
    """Whether this user can write to the build folder, or make it."""
    existing = next(path for path in (layout.private, *layout.private.parents) if path.exists())
    lock = layout.lock_file
    return os.access(existing, os.W_OK) and (os.access(lock, os.W_OK) or not lock.exists())


def _with_scratch(layout: Layout, folder: Path) -> Layout:
    """Return ``layout`` with ``folder`` for what is made of sources, where all lies that was made so far."""
    aside = replace(layout, scratch=folder)
    for directory, _, names in os.walk(layout.sources):
        here = aside.sources / Path(directory).relative_to(layout.sources)
        here.mkdir(parents=True, exist_ok=True)
        for name in names:
            existing = Path(directory, name)
            with suppress(OSError):  # gone by now
                if existing.suffix == ".json":  # read in this process after its digest was
                    (here / name).write_bytes(existing.read_bytes())
                else:
                    (here / name).symlink_to(existing)
    return aside


_OFF = "off"


def _asking_only(settings: Settings, project: Project) -> Settings:
    """Return ``settings`` with caches that are only read, as far as they may be."""
    asked = (RemoteMode.READ_WRITE, RemoteMode.READ_ONLY, "")
    remote = project.cache.remote
    configured = settings.remote_mode or (remote.mode if remote else "")
    return replace(
        settings,
        cache_mode=RemoteMode.READ_ONLY if settings.cache_mode in asked else _OFF,
        remote_mode=RemoteMode.READ_ONLY if configured in asked else _OFF,
    )
