"""Parser of the commands that show a project: its graph, its builds."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpubuild.cli.options import (
    Parser,
    add_build_options,
    add_command,
    add_modules,
    add_project,
    add_targets,
    path,
)

SHELLS = ("bash", "zsh", "fish")
GRAPH_FORMATS = ("svg", "dot", "mermaid", "json")

_GRAPH_EPILOG = """\
examples:
  gpubuild graph -o graph.svg       every step, coloured by what a build would do
  gpubuild graph saxpy --format dot one program, for Graphviz
  gpubuild graph --module blur      what makes @blur, and what is made of it
"""
_REPORT_EPILOG = """\
The page shows the last build that had something to do: its steps by worker, the critical path, what
ran and why, registers, spills, shared memory and sizes per kernel and target, with what changed.
It is one file that loads nothing, fit to be kept by a CI job.
"""
_WATCH_EPILOG = """\
examples:
  gpubuild watch                    every program, until Ctrl-C
  gpubuild watch --run edges -- in.ppm out.pgm
                                    run it anew after each change; one still running is stopped

Watched are the project file, the sources, every header and library that the build has read.
"""
_COMPLETION_EPILOG = """\
put one of these where your shell reads its settings:
  eval "$(gpubuild completion bash)"      in ~/.bashrc
  eval "$(gpubuild completion zsh)"       in ~/.zshrc, after compinit
  gpubuild completion fish | source       in ~/.config/fish/config.fish
"""
_MAN_EPILOG = """\
examples:
  gpubuild man | man -l -
  gpubuild man > ~/.local/share/man/man1/gpubuild.1
"""


def add_views(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add them."""
    _graph(commands)
    _report(commands)
    _watch(commands)
    _compdb(commands)
    _completion(commands)
    _man(commands)


def _graph(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(commands, "graph", "draw the steps of a build", epilog=_GRAPH_EPILOG)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="what to draw (default: everything)")
    add_project(parser)
    add_targets(parser, "device code for this target only")
    add_modules(parser, "only what this gpu.module is made of and goes into")
    parser.add_argument(
        "--format", choices=GRAPH_FORMATS, help="default: as the output file is called, else svg"
    )
    parser.add_argument(
        "-o", "--output", type=path, metavar="FILE", help="where to write it (default: stdout)"
    )


def _report(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "report", "write an HTML report of the last build and its kernels", epilog=_REPORT_EPILOG
    )
    add_project(parser)
    parser.add_argument(
        "-o", "--output", type=path, default=Path("report.html"), metavar="FILE",
        help="where to write it (default: report.html)",
    )  # fmt: skip
    parser.add_argument(
        "--profile", action="append", type=path, default=[], metavar="FILE", dest="profiles",
        help="what a run with GPUBUILD_PROFILE=FILE wrote, to be shown too; may be repeated",
    )  # fmt: skip


def _watch(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "watch", "build, and build again whenever a file changes", epilog=_WATCH_EPILOG
    )
    parser.usage = "gpubuild watch [options] [PROGRAM…] [-- ARGUMENTS]"
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="what to build (default: everything)")
    parser.add_argument("--run", action="store_true", help="run the program after each build that went well")
    add_build_options(parser)


def _compdb(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "compdb", "write compile_commands.json, which tells editors how C sources are compiled"
    )
    add_project(parser)
    parser.add_argument(
        "-o", "--output", type=path, default=Path("compile_commands.json"), metavar="FILE",
        help="where to write it (default: compile_commands.json)",
    )  # fmt: skip


def _completion(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "completion", "print a script for your shell's completion", epilog=_COMPLETION_EPILOG
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def _man(commands: argparse._SubParsersAction[Parser]) -> None:
    add_command(commands, "man", "print the manual page", epilog=_MAN_EPILOG)
