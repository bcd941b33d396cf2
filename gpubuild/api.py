"""Build projects from Python; see docs/api.md.

This module, its results and its exceptions are stable within a major version. Everything else in the
package may change.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild.build.opening import open_builder
from gpubuild.config.load import load_project
from gpubuild.model.events import BuildWarning, Event, Listener, StepFinished, StepStarted
from gpubuild.model.project import BuildOptions, Project, Variant
from gpubuild.model.result import BuildReport, Status
from gpubuild.settings import Settings

if TYPE_CHECKING:
    from gpubuild.plan.plan import Plan

LOGGER = logging.getLogger("gpubuild")


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
        listener: Listener | None = None,
    ) -> BuildReport:
        """Bring programs (all, if none is named) up to date, like ``gpubuild build``.

        ``targets`` restricts device code. Relative folders start at the current one; by default they
        are the project's. ``jobs`` is the number of parallel steps, 0 for one per CPU. Events go to
        ``listener``, or to the logger ``gpubuild``.

        A step that fails raises nothing: see ``BuildReport.ok`` and ``failed``. Raises
        ``UsageError`` for unknown programs and targets and for folders that cannot be used,
        ``InterruptedBuildError`` on Ctrl-C. Environment variables count as on the command line.
        """
        options = self._options(programs, targets, build_dir, cache_dir, use_cache, jobs, keep_going, dry_run)
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
        use_cache: bool = True,
        jobs: int = 0,
        keep_going: bool = False,
        dry_run: bool = False,
    ) -> BuildOptions:
        if isinstance(targets, str):
            raise TypeError(f"targets is a list of names: [{targets!r}]")
        usual = self.model.root / self.model.variant.build_folder
        return BuildOptions(
            build_dir=Path(build_dir).absolute() if build_dir is not None else usual,
            programs=tuple(dict.fromkeys(programs)),
            targets=tuple(dict.fromkeys(targets)),
            cache_dir=Path(cache_dir).absolute() if cache_dir is not None else None,
            use_cache=use_cache,
            jobs=jobs,
            keep_going=keep_going,
            dry_run=dry_run,
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
