"""Build projects and load single sources from Python; see docs/how-to/api.md.

This module, its results and its exceptions are stable within a major version. Everything else in the
package may change.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpubuild.build.opening import open_builder
from gpubuild.config.load import load_project, loads
from gpubuild.errors import ConfigError, UsageError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.events import BuildWarning, Event, Listener, StepFinished, StepStarted
from gpubuild.model.project import MLIR_SUFFIXES, BuildOptions, Product, Project, Variant
from gpubuild.model.result import BuildReport, Status
from gpubuild.plan.layout import Layout
from gpubuild.settings import NO_USER_CACHE, Settings
from gpubuild.support.files import delete_tree
from gpubuild.support.frozen import replace
from gpubuild.support.text import html_table, suggestion
from gpubuild.targets.registry import vendors

if TYPE_CHECKING:
    from gpubuild.plan.plan import Plan

LOGGER = logging.getLogger("gpubuild")
# The CPU of this machine.
_DEFAULT_TARGETS = {v.kind: {"chip": v.native_chip} for v in vendors() if v.native_chip}
_KEPT_FOLDERS, _DAY = 64, 24 * 3600.0  # of loaded sources


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedProject:
    """A valid project file. ``model`` is its content with defaults and absolute paths."""

    model: Project

    @property
    def programs(self) -> tuple[str, ...]:
        """Names of the programs, in the order of the file."""
        return tuple(self.model.programs)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the targets, in the order of the file."""
        return tuple(self.model.targets)

    def build(
        self,
        *programs: str,
        targets: Iterable[str] = (),
        build_dir: str | PathLike[str] | None = None,
        cache_dir: str | PathLike[str] | None = None,
        use_cache: bool = True,
        jobs: int = 0,
        keep_going: bool = False,
        dry_run: bool = False,
        executor: str = "",
        fallback: bool = True,
        listener: Listener | None = None,
    ) -> BuildReport:
        """Bring programs (all, if none is named) up to date, like ``gpubuild build``.

        ``targets`` restricts device code. Relative folders start at the current one; by default they
        are the project's. ``jobs`` is the number of parallel steps, 0 for one per CPU. ``executor`` is
        ``local`` or ``dask:ADDRESS``; without ``fallback``, steps that no worker can run fail. Events
        go to ``listener``, or to the logger ``gpubuild``.

        A step that fails raises nothing: see ``BuildReport.ok`` and ``failed``. Raises
        ``UsageError`` for unknown programs and targets and for folders that cannot be used,
        ``InterruptedBuildError`` on Ctrl-C. Environment variables count as on the command line.
        """
        options = replace(
            self._options(programs, targets, build_dir, cache_dir),
            use_cache=use_cache,
            jobs=jobs,
            keep_going=keep_going,
            dry_run=dry_run,
            executor=executor,
            fallback=fallback,
        )
        settings, listener = Settings.from_environ(), listener or Logging()
        with open_builder(self.model, settings, options, listener) as builder:
            return builder.build()

    def plan(
        self,
        *programs: str,
        targets: Iterable[str] = (),
        build_dir: str | PathLike[str] | None = None,
        cache_dir: str | PathLike[str] | None = None,
    ) -> Plan:
        """Return the steps of a build and their dependencies. Scans sources, compiles nothing.

        Raises ``StepError`` when a source cannot be read, and what :meth:`build` raises.
        """
        options = self._options(programs, targets, build_dir, cache_dir)
        settings = Settings.from_environ()
        with open_builder(self.model, settings, options, Logging()) as builder:
            return builder.scan()

    def _options(
        self,
        programs: Iterable[str],
        targets: Iterable[str],
        build_dir: str | PathLike[str] | None,
        cache_dir: str | PathLike[str] | None,
    ) -> BuildOptions:
        if isinstance(targets, str):
            raise TypeError(f"targets is a list of names: [{targets!r}]")
        usual = self.model.root / self.model.variant.build_folder
        return BuildOptions(
            build_dir=Path(build_dir).absolute() if build_dir is not None else usual,
            programs=tuple(dict.fromkeys(programs)),
            targets=tuple(dict.fromkeys(targets)),
            cache_dir=Path(cache_dir).absolute() if cache_dir is not None else None,
        )


class Logging:
    """A listener that logs to ``gpubuild``: failures as errors, steps that ran as information."""

    def on_event(self, event: Event) -> None:
        """See ``Listener``."""
        if isinstance(event, BuildWarning):
            LOGGER.warning("%s", event.message)
        elif isinstance(event, StepStarted):
            LOGGER.debug("%s began", event.id)
        elif isinstance(event, StepFinished):
            report = event.report
            if report.error is not None:
                LOGGER.error("%s: %s", report.id, report.error.render())
            else:
                level = logging.INFO if report.status is Status.RAN else logging.DEBUG
                LOGGER.log(level, "%s: %s (%s)", report.id, report.status.value, report.reason or "unchanged")


def open_project(
    file: str | PathLike[str], profile: str, settings: Iterable[str], defines: Mapping[str, object]
) -> LoadedProject:
    """See :func:`gpubuild.load_project`."""
    path = Path(file)
    variant = Variant(
        profile=profile,
        settings=tuple(settings),
        defines=tuple(name if value is None else f"{name}={value}" for name, value in defines.items()),
    )
    return LoadedProject(model=load_project(path / "targets.yaml" if path.is_dir() else path, variant))


class LoadedModule:
    """The functions and kernels of a source, as attributes and by name: ``module["path"]``.

    ``report`` is the build behind it.
    """

    def __init__(self, module: ModuleType, name: str, report: BuildReport) -> None:
        self.report = report
        self._module, self._name = module, name

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a function or kernel
        return getattr(self.__dict__["_module"], name)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a function, or a module with kernels
        if name not in self._module.__all__:
            raise KeyError(name)
        return getattr(self._module, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._module.__all__]

    def __repr__(self) -> str:
        return f"<gpubuild module {self._name}: {', '.join(self._module.__all__) or 'no functions'}>"

    @property
    def device(self) -> str:
        """The device that it runs on, such as ``cpu`` or ``cuda:0``."""
        return str(self._module.library.device)

    @property
    def path(self) -> Path:
        """The shared library; its header and Python module are beside it."""
        return Path(self._module.library.path)

    def stream(self) -> Any:  # noqa: ANN401 - of the generated module
        """Return a new stream for launches of kernels."""
        return self._module.library.stream()

    def _repr_html_(self) -> str:
        """Return tables of the functions and of the compiled kernels, for notebooks."""
        from gpubuild.inspect.reader import inspect_file
        from gpubuild.inspect.table import table_rows

        library = self._module.library
        callables = list(library.functions.items())
        for module in library.modules.values():
            callables += [(f"{module.name}.{name}", kernel) for name, kernel in module.kernels.items()]
        functions = [(name, item.__doc__.splitlines()[0].partition(": ")[2]) for name, item in callables]
        head, *rows = table_rows(inspect_file(self.path)) if library.modules else [()]
        kernels = html_table(head, rows) if rows else ""
        return html_table(("name", "type"), functions) + kernels


def load_module(
    file: str | PathLike[str] | None,
    *,
    text: str = "",
    targets: Iterable[str] | Mapping[str, Mapping[str, object]] = (),
    passes: str = "",
    pipeline: str = "",
    opt_level: int = 3,
) -> LoadedModule:
    """See :func:`gpubuild.load`."""
    if (file is None) == (not text):
        raise TypeError("load() takes a file or text=")
    if isinstance(targets, str):
        raise TypeError(f"targets is a list of names: [{targets!r}]")
    source = Path(file).absolute() if file is not None else None
    if source is not None and (source.suffix not in MLIR_SUFFIXES or not source.is_file()):
        near = suggestion(source.name, [path.name for path in source.parent.glob("*.mlir")])
        raise UsageError(
            f"{file} is not an .mlir file" if source.is_file() else f"there is no file {source}{near}"
        )
    content = text.encode() if source is None else source.read_bytes()
    given = targets if isinstance(targets, Mapping) else {name: {} for name in targets}
    name = re.sub(r"\W", "_", source.stem if source is not None else "module", flags=re.ASCII)
    program: dict[str, Any] = {"sources": [str(source or "module.mlir")]}
    if passes:
        program["passes"] = {"source": passes}
    if pipeline:
        program["pipeline"] = pipeline
    document = json.dumps(
        {
            "version": 1,
            "defaults": {"opt_level": opt_level},
            "targets": given or _DEFAULT_TARGETS,
            "programs": {name: program},
        }
    )
    settings = Settings.from_environ()
    # A changed library needs another path: a process that has loaded a path gets the same library again.
    folder = _load_folder(settings, digest_bytes(document.encode() + b"\0" + content))
    root = source.parent if source is not None else folder
    if source is None:
        (folder / "module.mlir").write_bytes(content)
    try:
        project = loads(document, root / "targets.yaml")
    except ConfigError as error:  # the locations are in a file that does not exist
        raise UsageError("; ".join(dict.fromkeys(p.message for p in error.problems))) from error
    programs = {key: replace(one, product=Product.SHARED) for key, one in project.programs.items()}
    options = BuildOptions(build_dir=folder / "build")
    with open_builder(replace(project, programs=programs), settings, options, Logging()) as builder:
        report = builder.build()
    for step in report.failed:
        if step.error is not None:
            # A traceback ends with the message alone: the location and the hint follow it.
            step.error.add_note(step.error.render().partition("\n")[2])
            raise step.error
    files = Layout(root=root, build_dir=options.build_dir).interface_files(name)
    return LoadedModule(_import(files["module"]), name, report)


def _load_folder(settings: Settings, digest: str) -> Path:
    """Return the build folder of a source to load; remove folders that were not used for long."""
    if settings.user_cache == NO_USER_CACHE:
        return Path(tempfile.mkdtemp(prefix="gpubuild-load-"))
    folders = settings.user_cache / "load"
    folder = folders / digest[:32]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    used = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(folders))
    for seconds, path in used[:-_KEPT_FOLDERS]:
        if time.time() - seconds > _DAY:
            delete_tree(path)
    return folder


def _import(file: Path) -> ModuleType:
    """Return the generated module in ``file``. Raises ``UsageError`` without NumPy or functions."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"gpubuild_loaded_{file.stem}", file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise UsageError(
            "the source has nothing to call",
            hint="give a func.func the attribute llvm.emit_c_interface, or add a gpu.func with `kernel`",
        )
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(f"load() needs {error.name}", hint="run `pip install numpy`") from error
    return module
