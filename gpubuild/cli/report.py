"""``gpubuild report``: the last build and what it made, as one HTML file."""

from __future__ import annotations

import argparse

from gpubuild.cli.console import Console
from gpubuild.cli.options import build_folder
from gpubuild.errors import UsageError
from gpubuild.plan.layout import Layout
from gpubuild.support.text import shown_path


def execute(options: argparse.Namespace) -> int:
    """The command. It reads the build log only: no valid project file is needed."""
    from gpubuild.build.log import log_file, read_log
    from gpubuild.report.page import make_page
    from gpubuild.report.profile import profile_section, read_profile

    console: Console = options.console
    root = options.file.absolute().parent
    layout = Layout(root=root, build_dir=build_folder(options, root))
    history = read_log(log_file(layout))
    if not history.builds:
        raise UsageError(
            f"the build folder {shown_path(layout.build_dir)} has no record of a build",
            hint="run `gpubuild build` first; builds that found nothing to do leave no record",
        )
    profiles = [profile_section(path.name, read_profile(path)) for path in options.profiles]
    text = make_page(history, project=root.name or "project", more=profiles)
    console.save(options.output, text)
    return 0
