"""``gpubuild completion SHELL``: completion in shells, made by argcomplete from the parser.

A shell calls ``gpubuild`` with ``_ARGCOMPLETE`` set at each TAB. The names of programs and targets come
from the project file, those of steps and modules from the last build.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress

from gpubuild.cli.options import Parser, build_folder, positive
from gpubuild.cli.parser import make_parser
from gpubuild.errors import GpubuildError


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from argcomplete.shell_integration import shellcode

    options.console.out.write(shellcode(["gpubuild"], shell=options.shell))
    return 0


def answer() -> None:
    """Write the candidates for the line in ``COMP_LINE`` to the shell and end the process."""
    from argcomplete.finders import ExclusiveCompletionFinder

    parser = make_parser()
    add_completers(parser)
    ExclusiveCompletionFinder()(parser, always_complete_options=False)


def add_completers(parser: Parser) -> None:
    """Attach to each argument of all commands what completes it."""
    from argcomplete.completers import DirectoriesCompleter

    names = {"programs": _programs, "targets": _targets, "step": _steps, "modules": _modules}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                add_completers(command)
        elif action.dest in names:
            action.completer = names[action.dest]  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.completer = DirectoriesCompleter()  # type: ignore[attr-defined]
        elif action.type is positive:
            action.completer = _nothing  # type: ignore[attr-defined]


def _nothing(**_: object) -> list[str]:
    return []


def _programs(*, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    return [name for name in _of_project(parsed_args, "programs") if name not in parsed_args.programs]


def _targets(*, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    return _of_project(parsed_args, "targets")


def _of_project(options: argparse.Namespace, what: str) -> list[str]:
    from gpubuild.config.load import load_project

    with suppress(GpubuildError, AttributeError):  # some commands have no project file
        return list(getattr(load_project(options.file), what))
    return []


def _steps(*, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the ids of the steps of the last build."""
    from gpubuild.build.state import BuildState
    from gpubuild.plan.layout import Layout

    root = parsed_args.file.absolute().parent
    layout = Layout(root=root, build_dir=build_folder(parsed_args, root))
    return sorted(BuildState(layout.state_file, root).records())


def _modules(*, parsed_args: argparse.Namespace, **_: object) -> Iterator[str]:
    if hasattr(parsed_args, "build_dir"):  # `inspect` reads any file
        for step in _steps(parsed_args=parsed_args):
            parts = step.split("/")
            if len(parts) == 4 and parts[1] == "compile":
                yield parts[2]
