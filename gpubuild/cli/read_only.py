"""As is: what a build folder holds, where nothing can be written: a mounted artefact, say.

Whatever is up to date there can be run. Nothing is locked: a build that goes on meanwhile, of someone
who may write, makes this one see outdated steps at worst, since all files count by content.
"""

from __future__ import annotations

from gpubuild.build.builder import Builder
from gpubuild.build.native import resolve_native
from gpubuild.build.opening import misnamed_in
from gpubuild.cache.store import NullStore
from gpubuild.cli.options import shown
from gpubuild.errors import UsageError
from gpubuild.execute.executor import LazyExecutor
from gpubuild.execute.local import LocalExecutor
from gpubuild.model.build_options import BuildOptions
from gpubuild.model.events import Silent
from gpubuild.model.project import Project
from gpubuild.model.result import BuildReport
from gpubuild.plan.layout import Layout
from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain


def look(project: Project, settings: Settings, options: BuildOptions) -> BuildReport:
    """What a build would report if there was nothing to do. Raises ``UsageError`` where there is."""
    layout = Layout(root=project.root, build_dir=options.build_dir)
    builder = Builder(
        project=resolve_native(project),
        options=options,
        layout=layout,
        listener=Silent(),
        toolchain=Toolchain(settings, memo=layout.tools_memo),
        store=NullStore(),
        executor=LazyExecutor(1, LocalExecutor),  # starts nothing
        misnamed=misnamed_in(settings, project),
    )
    report, trouble = builder.look()
    if report is None:
        raise UsageError(
            f"cannot write to the build folder {shown(layout.build_dir)}, and what is there is not up to "
            f"date: {trouble}",
            hint=_way_out(layout, options),
        )
    return report


def _way_out(layout: Layout, options: BuildOptions) -> str:
    there = [path for name in options.programs if (path := layout.executable(name)).is_file()]
    as_it_is = f", or run {shown(there[0])} as it is" if there else ""
    return f"build into another folder with --build-dir{as_it_is}"
