"""The parser: all commands and their options. A command's own module is imported when it runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from gpubuild import __version__
from gpubuild.cli.options import (
    Parser,
    Text,
    add_build_options,
    add_command,
    add_json,
    add_modules,
    add_options,
    add_project,
    add_targets,
    late,
    path,
    positive,
)
from gpubuild.targets.registry import kinds, vendors

SHELLS = ("bash", "zsh", "fish")
GRAPH_FORMATS = ("svg", "dot", "mermaid", "json")

_GRAPH_EPILOG = """\
examples:
  gpubuild graph -o graph.svg       every step, coloured by what a build would do
  gpubuild graph saxpy --format dot one program, for Graphviz
  gpubuild graph --module blur      the steps that make or use @blur
"""
_REPORT_EPILOG = """\
The page shows the last build that ran steps: a timeline by worker, the critical path, reasons,
registers, spills, shared memory and sizes per kernel and target, with changes.
It is one file that loads nothing, so a CI job can store it.
"""
_WATCH_EPILOG = """\
examples:
  gpubuild watch                    every program, until Ctrl-C
  gpubuild watch --run edges -- in.ppm out.pgm
                                    run again after each change; a running program is stopped

Watched: the project file, the sources, and every header and library that the build has read.
"""
_COMPLETION_EPILOG = """\
add one of these to your shell's settings:
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
        "--format", choices=GRAPH_FORMATS, help="default: from the name of the output file, else svg"
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
        help="also show the profile that a run with GPUBUILD_PROFILE=FILE wrote; may be repeated",
    )  # fmt: skip


def _watch(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "watch", "build, and build again whenever a file changes", epilog=_WATCH_EPILOG
    )
    parser.usage = "gpubuild watch [options] [PROGRAM…] [-- ARGUMENTS]"
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="what to build (default: everything)")
    parser.add_argument("--run", action="store_true", help="run the program after each successful build")
    add_build_options(parser)


def _compdb(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "compdb", "write compile_commands.json, the options of C sources for editors"
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


EMIT = ("mlir", "llvm", "asm", "obj", "bin")
CI_SERVICES = ("github", "gitlab")

_EPILOG = """\
examples:
  gpubuild init demo && cd demo     start a project
  gpubuild run                      build it and run its program
  gpubuild build -j8 --explain      build everything, and show why each step ran
  gpubuild inspect build/saxpy/saxpy
                                    the contents of an executable
  gpubuild doctor                   which tools were found, and where

exit codes: 0 done, 1 a step failed, 2 wrong usage or configuration, 3 internal error, 130 interrupted
"""
_BUILD_EPILOG = """\
examples:
  gpubuild build                    every program of targets.yaml
  gpubuild build saxpy -t sm_90     one program, its kernels for one target only
  gpubuild build -n --explain       what would be done, and why
  gpubuild build --json             one JSON document on stdout, for scripts
"""
_RUN_EPILOG = """\
examples:
  gpubuild run                      the project's only program
  gpubuild run edges -- in.ppm out.pgm
  gpubuild run --jit edges          from its objects, without linking an executable
  GPUBUILD_DEVICE=cpu gpubuild run --all
                                    every program, each checked against the expected.txt beside its source
"""
_EXPLAIN_EPILOG = """\
examples:
  gpubuild explain saxpy/link
  gpubuild explain saxpy/saxpy_kernels/sm_90
                                    short for saxpy/compile/saxpy_kernels/sm_90
  gpubuild build -n --explain       the ids of all steps, and what would be done
"""
_INSPECT_EPILOG = """\
examples:
  gpubuild inspect build/saxpy/saxpy
  gpubuild inspect build/saxpy/saxpy -t sm_90 --disassemble
  gpubuild inspect app --extract objects
                                    every object as a file of its own

columns: code is the bytes of a kernel's instructions, occ the estimated occupancy, from registers and
workgroup memory
"""
_COMPILE_EPILOG = """\
examples:
  gpubuild compile k.mlir -t sm_90 --emit asm -o -
  gpubuild compile k.mlir -t sm_90 -t gfx90a --emit bin
  gpubuild compile k.mlir -t mine --chip sm_90a --features=+ptx80 --emit obj -o k.cubin

what --emit writes, per module and target:
  mlir  the kernel module alone, as a build would compile it
  llvm  LLVM IR                 asm  PTX, or AMD or CPU assembly
  obj   cubin, hsaco or so      bin  a gpu.binary (MLIR) with the objects of all targets
"""


_INIT_EPILOG = """\
examples:
  gpubuild init demo                       a project that builds and runs
  gpubuild init demo --scons --ci github   built by scons, checked at every push
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of one command; ``command`` carries it out. Raises ``UsageError``."""
    if arguments[:1] == ["__complete"]:  # any words at all, half typed ones among them
        return argparse.Namespace(
            command=late("gpubuild.cli.completion:answer"),
            words=arguments[1:],
            quiet=False,
            verbose=False,
            json=False,
        )
    if arguments[:1] == ["pass"]:  # for those who work on the passes: in no help
        from gpubuild.cli import single_pass

        return single_pass.parse(arguments[1:])
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    ours, theirs = _split_program_arguments(arguments)
    top = make_parser(only=ours[0] if ours else "")
    options, unknown = top.parse_known_args(ours)
    if unknown:
        getattr(options, "parser", top).error(f"unrecognized arguments: {' '.join(unknown)}")
    options.program_arguments = theirs
    if not hasattr(options, "command"):
        options.command = _help(top)
        options.quiet = options.verbose = options.json = False
    return options


def make_parser(*, only: str = "") -> Parser:
    """The whole command line, or with the one command ``only`` if that saves time.

    All twenty take a tenth of a build that finds everything in the cache.
    """
    parser = Parser(
        prog="gpubuild",
        description="Build multi-target GPU programs written in MLIR's gpu dialect from one targets.yaml.",
        epilog=_EPILOG,
        formatter_class=Text,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"gpubuild {__version__}")
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        parser_class=Parser,
        prog="gpubuild",
    )
    if only in _OFTEN:
        _OFTEN[only](commands)
        return parser
    for add in (*_OFTEN.values(), _export, _compile, _explain, _inspect, _doctor, _clean, _init, _cache):
        add(commands)
    add_views(commands)
    return parser


def _split_program_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The command's own arguments and those after ``--``, which belong to the program to be run."""
    if arguments[:1] in (["run"], ["watch"]) and "--" in arguments:
        at = arguments.index("--")
        return list(arguments[:at]), list(arguments[at + 1 :])
    return list(arguments), []


def _build(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(commands, "build", "build programs", epilog=_BUILD_EPILOG)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="what to build (default: everything)")
    add_build_options(parser)
    add_options(parser, "dry_run", "explain", "json")


def _run(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(commands, "run", "build a program and run it", epilog=_RUN_EPILOG)
    parser.usage = "gpubuild run [options] [PROGRAM] [-- ARGUMENTS]"
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="not needed when there is only one")
    parser.add_argument("--all", action="store_true", help="run every program and check what it prints")
    parser.add_argument(
        "--jit", action="store_true", help="run from the objects, without linking an executable"
    )
    add_build_options(parser)


def _export(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "export", "write objects and the runtime's sources, to be linked on another machine"
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="not needed when there is only one")
    parser.add_argument(
        "-o", "--output", type=path, metavar="DIR", help="the folder to write (default: PROGRAM-objects)"
    )
    add_build_options(parser)


def _compile(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "compile", "compile the kernels of one file, without a targets.yaml", epilog=_COMPILE_EPILOG
    )
    parser.add_argument("file", type=path, metavar="FILE.mlir")
    parser.add_argument(
        "-t", "--target", action="append", required=True, metavar="TARGET", dest="targets",
        help="sm_90, gfx90a, cpu, …; any name together with --chip; may be repeated",
    )  # fmt: skip
    parser.add_argument("--emit", choices=EMIT, required=True, help="what to write, see below")
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="a file, an existing folder, or - for stdout (default: files named after module and target)",
    )  # fmt: skip
    parser.add_argument("--module", metavar="NAME", help="only this gpu.module")
    parser.add_argument("--kind", choices=kinds(), help="required if the chip does not imply it")
    parser.add_argument("--chip", metavar="CHIP", help="the chip (default: the target's name)")
    parser.add_argument("--features", metavar="LIST", help="LLVM features, such as +ptx80")
    parser.add_argument("--opt-level", type=int, choices=range(4), metavar="0-3", help="default: 3")
    parser.add_argument("--fast-math", action="store_true", help="allow inexact floating point")
    parser.add_argument(
        "--flag", action="append", metavar="WORD", dest="flags",
        help="a flag of MLIR's target attribute, such as ftz or wave64; may be repeated",
    )  # fmt: skip
    parser.add_argument("--abi", type=int, metavar="N", help="version of AMD's code object: 400, 500 or 600")
    for vendor in vendors():
        if vendor.assembler_key:
            name = "--" + vendor.assembler_key.removesuffix("s").replace("_", "-")
            parser.add_argument(
                name, action="append", metavar="OPTION", dest=vendor.assembler_key,
                help=f"{vendor.maker}: an option for the assembler, as {name}=-OPTION; may be repeated",
            )  # fmt: skip
    parser.add_argument("--debug", action="store_true", help="keep source lines for debuggers")
    parser.add_argument(
        "--sanitize", metavar="LIST",
        help="checks in CPU kernels: bounds, race, barrier, uninitialized, separated by commas",
    )  # fmt: skip
    parser.add_argument(
        "--device-lib", action="append", type=path, metavar="FILE", default=[], dest="device_libs",
        help="a .bc or .ll file to link in; may be repeated",
    )  # fmt: skip
    parser.add_argument("--passes", metavar="PIPELINE", help="replace our pass pipeline for the kernels")
    parser.add_argument("--source-passes", metavar="PIPELINE", help="run on the file before it is split")
    parser.add_argument("--dump-ir", type=path, metavar="DIR", help="write the IR after every stage")


def _explain(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "explain", "show what a step depends on, now and last time, and why it last ran",
        epilog=_EXPLAIN_EPILOG,
    )  # fmt: skip
    parser.add_argument("step", metavar="STEP", help="a step's id, or some of its parts")
    add_project(parser)
    add_targets(parser, "as given to build")
    parser.add_argument("--all", action="store_true", help="also list unchanged parts")
    add_json(parser)


def _inspect(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "inspect", "list the modules, targets and kernels in a file", epilog=_INSPECT_EPILOG
    )
    parser.add_argument("file", type=path, metavar="FILE", help="an executable, object, cubin, hsaco, …")
    add_targets(parser, "only objects for this target or chip")
    add_modules(parser, "only this gpu.module")
    parser.add_argument(
        "--workgroup", type=positive, default=256, metavar="N",
        help="work-items per workgroup, for the estimate of occupancy (default: 256)",
    )  # fmt: skip
    parser.add_argument("--disassemble", action="store_true", help="print the code of every object")
    parser.add_argument("--extract", type=path, metavar="DIR", help="write every object found into DIR")
    add_json(parser)


def _doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands,
        "doctor",
        "show which tools are used, from where, and what is missing",
        verbose="also show the path and the fingerprint of every tool",
    )
    parser.add_argument(
        "-f", "--file", type=path, metavar="FILE",
        help="the project whose targets are checked (default: targets.yaml, if it exists)",
    )  # fmt: skip
    add_json(parser)


def _clean(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(commands, "clean", "remove what gpubuild made in the build folder; the cache stays")
    add_project(parser)
    parser.add_argument("-n", "--dry-run", action="store_true", help="list the files, remove nothing")


def _init(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "init", "start a project: targets.yaml, a kernel and a main program", epilog=_INIT_EPILOG
    )
    parser.add_argument(
        "directory", nargs="?", type=path, default=Path(), metavar="DIR", help="default: this folder"
    )
    mains = parser.add_mutually_exclusive_group()
    mains.add_argument(
        "--c-main", dest="main", action="store_const", const="c", default="c",
        help="the main program in C, calling MLIR (default)",
    )  # fmt: skip
    mains.add_argument(
        "--mlir-main", dest="main", action="store_const", const="mlir", help="the main program in MLIR"
    )
    parser.add_argument("--scons", action="store_true", help="also an SConstruct")
    parser.add_argument(
        "--ci", choices=CI_SERVICES, default="", help="also write the recipe of this CI service"
    )


def _cache(commands: argparse._SubParsersAction[Parser]) -> None:
    parent = add_command(commands, "cache", "look after the cache", handler="")
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)

    def add(name: str, text: str) -> Parser:
        parser = add_command(
            actions, name, text, handler=f"gpubuild.cli.cache:{name.replace('import', 'import_')}"
        )
        if name in ("stats", "export"):
            add_project(parser)
        else:
            parser.add_argument("-f", "--file", type=path, default=Path("targets.yaml"), metavar="FILE")
        parser.add_argument("--cache-dir", type=path, metavar="DIR", help="overrides the project file")
        add_json(parser)
        return parser

    add("stats", "count what is stored, and how often it served the last builds of this project")
    add("clear", "delete everything stored")
    add("verify", "check every stored byte; what is damaged is set aside")
    gc = add("gc", "delete what was not used for longest, while builds may go on")
    gc.add_argument("--max-size", metavar="SIZE", help="keep at most this, such as 2GiB (default: max_size)")
    gc.add_argument(
        "--max-age", metavar="TIME", help="delete results not used for this long, such as 14d or 12h"
    )
    gc.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    export = add("export", "write results into one file, to be imported elsewhere")
    export.add_argument("archive", type=path, metavar="OUT", help="the file to write; gzip if it ends in gz")
    export.add_argument(
        "--all", action="store_true", help="everything stored, not only the results of the build folder"
    )
    importer = add("import", "add the results in an exported file, every byte checked")
    importer.add_argument("archive", type=path, metavar="IN")
    importer.add_argument("--max-size", metavar="SIZE", help="refuse to unpack more (default: 20GiB)")


def _help(parser: Parser) -> Callable[[argparse.Namespace], int]:
    def call(_: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    return call


_OFTEN = {"build": _build, "run": _run}
