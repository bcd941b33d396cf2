"""``gpubuild compdb``: compile_commands.json, from which editors and clang-tidy know how C is compiled.

https://clang.llvm.org/docs/JSONCompilationDatabase.html
"""

from __future__ import annotations

import argparse
from typing import Any

from gpubuild.cli.console import Console
from gpubuild.cli.json_document import dump
from gpubuild.cli.options import load
from gpubuild.model.project import Project, language_arguments, search_arguments
from gpubuild.plan.sources import C_SUFFIXES, CXX_SUFFIXES
from gpubuild.support.text import shown_path
from gpubuild.toolchain.find import Toolchain


def execute(options: argparse.Namespace) -> int:
    """The command. Nothing is compiled."""
    console: Console = options.console
    entries = commands(load(options), Toolchain(options.settings))
    console.save(options.output, dump(entries) + "\n")
    return 0


def commands(project: Project, toolchain: Toolchain) -> list[dict[str, Any]]:
    """An entry for each C and C++ source, in the order of the file. Raises ``ToolNotFoundError``.

    The commands are those that find mistakes in the user's own file: a build compiles what the
    preprocessor makes of it (``engine.cc.compile``), with the same flags.
    """
    # A source that programs compile in several ways has an entry for each.
    ways = dict.fromkeys(
        (source, program.host_of(source, cxx=source.suffix in CXX_SUFFIXES))
        for program in project.programs.values()
        for source in program.sources
        if source.suffix in C_SUFFIXES | CXX_SUFFIXES
    )
    entries = []
    for source, options in ways:
        cxx = source.suffix in CXX_SUFFIXES
        compiler = toolchain.require("cxx" if cxx else "cc")
        # An editor wants one name that does not change; the compiler runs in the project's folder.
        name = shown_path(source, project.root)
        entries.append(
            {
                "directory": str(project.root),
                "file": name,
                "arguments": [
                    *compiler.command,
                    *("-x", "c++" if cxx else "c"),
                    *("-c", f"-O{min(project.opt_level, 3)}", "-fPIC"),
                    *(["-g"] if project.debug else []),
                    *language_arguments(options.std, options.flags),
                    *search_arguments(options.include, options.define),
                    f"./{name}" if name.startswith("-") else name,
                ],
            }
        )
    return entries
