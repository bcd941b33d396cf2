"""Run a command for each project of a workspace."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpubuild.errors import UsageError, WorkspaceError
from gpubuild.support.text import shown_path

COMMANDS = ("build", "check", "clean", "run", "test")
# They are for one project, or name one output.
_OF_ONE = ("programs", "cases", "build_dir", "trace", "dump_ir", "junit", "json")


def run(name: str, options: argparse.Namespace, workspace: WorkspaceError) -> int:
    """Run a command in each project, one after the other, and return the first exit code that is not 0.

    A failure of a build ends it unless ``--keep-going`` is given. Raises ``UsageError`` for other
    commands, and for options that are for one project.
    """
    given = [option for option in _OF_ONE if getattr(options, option, None)]
    if name not in COMMANDS or given or (name == "run" and not options.all):
        raise workspace
    code = 0
    for file in workspace.files:
        options.file = Path(shown_path(file))
        options.programs = []
        if not options.quiet:
            options.console.note(f"project: {shown_path(file)}")
        try:
            result: int = options.command(options)
        except WorkspaceError as error:
            raise UsageError(
                f"{shown_path(file)} is a workspace, too", hint="a workspace lists projects only"
            ) from error
        code = code or result
        if code and not getattr(options, "keep_going", True):
            break
    return code
