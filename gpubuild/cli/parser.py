"""All commands and their options. The module of a command is imported when the command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from gpubuild import __version__
from gpubuild.cli.options import (
    PROJECT,
    Parser,
    Text,
    add_build_options,
    add_command,
    add_modules,
    add_options,
    path,
    positive,
)
from gpubuild.cli.quick import FLAG, OPTIONS
from gpubuild.targets.registry import kinds, vendors
from gpubuild.targets.target import FULL
from gpubuild.targets.vendor import Format

SHELLS = ("bash", "zsh", "fish")
GRAPH_FORMATS = ("svg", "dot", "mermaid", "json")
_FORMATS = tuple(given.value for given in Format)
EMIT = ("mlir", "llvm", *_FORMATS, "binary")
_EMIT_SHORT = {"asm": "assembly", "obj": "bin"}
CI_SERVICES = ("github", "gitlab")
_INSTALLED = (
    ("--cmake-dir", "cmake", "folder of the CMake package, for gpubuild_DIR"),
    ("--meson-dir", "meson", "folder of the Meson subproject, to copy to subprojects/gpubuild"),
    ("--schema", "config/schema.json", "path of the JSON Schema of targets.yaml, for editors"),
)

_EPILOG = """\
examples:
  gpubuild init demo && cd demo     start a project
  gpubuild run                      build it and run its program
  gpubuild build -j8 --explain      build everything, and show why each step ran
  gpubuild inspect build/saxpy/saxpy
                                    list the contents of an executable
  gpubuild doctor                   show which tools were found, and where

environment (docs/reference/commands.md has all variables):
  GPUBUILD_DEVICE=cpu               where programs run kernels: auto, cpu, cuda[:N] or hip[:N]
  GPUBUILD_JOBS, GPUBUILD_CACHE_DIR like --jobs and --cache-dir
  GPUBUILD_DEBUG=1                  show where an internal error happened

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
  gpubuild run                      the only program of the project
  gpubuild run edges -- in.ppm out.pgm
  GPUBUILD_DEVICE=cpu gpubuild run --all
                                    every program; output is compared with expected.txt beside its source
"""
_TEST_EPILOG = """\
examples:
  gpubuild test                     all cases, as many at once as there are CPUs
  gpubuild test saxpy/small --device cpu
  gpubuild test --junit results.xml for CI services
"""
_INSTALL_EPILOG = """\
examples:
  gpubuild install --prefix ~/.local
  DESTDIR=/tmp/package gpubuild install --prefix /usr mylib
                                    files below /tmp/package/usr, for a package of /usr

Libraries get a pkg-config file and a CMake package, with the target NAME::NAME.
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
                                    write every object to a file

columns: size in bytes of the object, code of the kernel; regs: registers of a work-item; shared: bytes
of workgroup memory; spills: bytes; occ: estimated occupancy; tier: how a CPU runs the work-items
"""
_COMPILE_EPILOG = """\
examples:
  gpubuild compile k.mlir -t sm_90 --emit asm -o -
  gpubuild compile k.mlir -t sm_90 -t gfx90a --emit binary
  gpubuild compile k.mlir -t mine --chip sm_90a --features=+ptx80 --emit obj -o k.cubin

what --emit writes, per module and target:
  mlir      the kernel module alone, as a build would compile it
  llvm      LLVM IR
  offload   LLVM bitcode, for NVIDIA and AMD
  assembly  PTX, or AMD or CPU assembly; asm is short for it
  bin       cubin, hsaco or so; obj means the same
  fatbin    NVIDIA's fat binary with the cubin and the PTX
  binary    a gpu.binary (MLIR) with the objects of all targets, of the format of --format
"""
_INIT_EPILOG = """\
examples:
  gpubuild init demo                       a project that builds and runs
  gpubuild init demo --scons --ci github   built by scons, checked at every push
"""
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
While it waits, a process of about 120 MB has the compilers loaded for the next build.
"""
_WORKER_EPILOG = """\
examples:
  gpubuild worker tls://head-node:8786
  srun gpubuild worker --scheduler-file /shared/scheduler.json --jobs 16
  gpubuild worker tls://head-node:8786 -- --interface ib0
                                    options after -- are those of `dask worker`

It runs until Ctrl-C, or until the scheduler is gone. See docs/how-to/cluster.md.
"""
_COMPLETION_EPILOG = """\
add one of these to the settings of your shell:
  eval "$(gpubuild completion bash)"      in ~/.bashrc
  eval "$(gpubuild completion zsh)"       in ~/.zshrc, after compinit
  gpubuild completion fish | source       in ~/.config/fish/config.fish
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of one command; ``command`` runs it. Raises ``UsageError``."""
    if arguments[:1] == ["pass"]:  # for authors of passes: in no help
        from gpubuild.cli import single_pass

        return single_pass.parse(arguments[1:])
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    own, of_program = _split_program_arguments(_command_first(arguments))
    top = make_parser(only=own[0] if own else "")
    options, unknown = top.parse_known_args(own)
    if sum(word in ("-f", "--file") or word.startswith("--file=") for word in own) > 1:
        getattr(options, "parser", top).error("-f is given twice")
    if unknown:
        getattr(options, "parser", top).error(f"unrecognized arguments: {' '.join(unknown)}")
    options.program_arguments = of_program
    if not hasattr(options, "command"):
        options.command = _help(top)
        options.quiet = options.verbose = options.json = False
    return options


def _command_first(arguments: Sequence[str]) -> list[str]:
    """Move options in front of the command behind it: ``-v build`` is ``build -v``."""
    takes_value = {s: kind != FLAG for spellings, kind, *_ in OPTIONS.values() for s in spellings}
    at = 0
    while at < len(arguments):
        word = arguments[at]
        joined = word.partition("=")[0] if word.startswith("--") else word[:2]  # --jobs=3, -j3
        if word not in takes_value and not takes_value.get(joined):
            break
        at += 1 + takes_value.get(word, False)
    return [*arguments[at : at + 1], *arguments[:at], *arguments[at + 1 :]]


def make_parser(*, only: str = "") -> Parser:
    """Return the parser of all commands, or with the one command ``only`` if that saves time.

    Making all of them takes a tenth of a build that finds everything in the cache.
    """
    parser = Parser(
        prog="gpubuild",
        description="Build multi-target GPU programs written in MLIR's gpu dialect from one targets.yaml.",
        epilog=_EPILOG,
        formatter_class=Text,
        allow_abbrev=False,
    )
    parser.add_argument("-V", "--version", action="version", version=f"gpubuild {__version__}")
    parser.add_argument("-C", metavar="DIR", help="change to this folder first (before COMMAND)")
    for option, inside, text in _INSTALLED:
        parser.add_argument(
            option, action="version", version=str(Path(__file__).parents[1] / inside),
            help=f"print the {text}, and exit",
        )  # fmt: skip
    commands = parser.add_subparsers(
        title="commands",
        metavar="COMMAND",
        parser_class=Parser,
        prog="gpubuild",
    )
    for add in [_OFTEN[only]] if only in _OFTEN else _ALL:
        add(commands)
    return parser


def _split_program_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of the command and those after ``--``, for the program that it runs."""
    if arguments[:1] in (["run"], ["watch"], ["worker"]) and "--" in arguments:
        at = arguments.index("--")
        return list(arguments[:at]), list(arguments[at + 1 :])
    return list(arguments), []


def _add_programs(parser: Parser, meaning: str = "") -> None:
    """Add ``PROGRAM``; without a ``meaning``, the default is the only program of the project."""
    text = f"{meaning} (default: everything)" if meaning else "default: the only program of the project"
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=text)


def _add_output(parser: Parser, default: str) -> None:
    parser.add_argument(
        "-o", "--output", type=path, default=Path(default), metavar="FILE",
        help=f"the file to write (default: {default})",
    )  # fmt: skip


def _build(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(commands, "build", "build programs", epilog=_BUILD_EPILOG, verbose="")
    _add_programs(parser, "what to build")
    add_build_options(parser)
    add_options(parser, "dry_run", "explain", "json")


def _run(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(commands, "run", "build a program and run it", epilog=_RUN_EPILOG, verbose="")
    parser.usage = "gpubuild run [options] [PROGRAM] [-- ARGUMENTS]"
    _add_programs(parser)
    parser.add_argument(
        "--all", action="store_true", help="run every program and compare its output with expected.txt"
    )
    add_build_options(parser)


def _test(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands,
        "test",
        "build programs and run their test cases",
        epilog=_TEST_EPILOG,
        verbose="",
    )
    parser.add_argument(
        "cases", nargs="*", metavar="CASE", help="PROGRAM or PROGRAM/CASE (default: all cases)"
    )
    add_build_options(parser)
    parser.add_argument(
        "--device", action="append", default=[], metavar="DEVICE", dest="devices",
        help="run on this device only, such as cpu; may be repeated",
    )  # fmt: skip
    parser.add_argument("--junit", type=path, metavar="FILE", help="also write the results as JUnit XML")


def _export(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "export", "write objects and runtime sources, to link them on another machine", verbose=""
    )
    _add_programs(parser)
    parser.add_argument(
        "-o", "--output", type=path, metavar="DIR", help="the folder to write (default: PROGRAM-objects)"
    )
    add_build_options(parser)


def _install(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "install", "build programs and copy them into a folder", epilog=_INSTALL_EPILOG, verbose=""
    )
    _add_programs(parser, "what to install")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--prefix", type=path, metavar="DIR", help="copy into DIR/bin, DIR/lib and DIR/include"
    )
    where.add_argument("--into", type=path, metavar="DIR", help="copy the files themselves into DIR")
    add_build_options(parser)


def _compile(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "compile", "compile the kernels of one file, without a targets.yaml", epilog=_COMPILE_EPILOG
    )
    parser.add_argument("file", type=path, metavar="FILE.mlir", help="a module with gpu.modules")
    parser.add_argument(
        "-t", "--target", action="append", required=True, metavar="TARGET", dest="targets",
        help="sm_90, gfx90a, cpu, …; any name if --chip is given; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--emit", choices=EMIT, required=True, help="what to write, see below",
        type=lambda word: _EMIT_SHORT.get(word, word),
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=_FORMATS, help="of the objects in --emit binary, as `format:` of targets.yaml"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH",
        help="a file, an existing folder, or - for stdout (default: files named after module and target)",
    )  # fmt: skip
    parser.add_argument("--module", metavar="NAME", help="compile only this gpu.module")
    parser.add_argument("--kind", choices=kinds(), help="the kind of target, if the chip does not imply it")
    parser.add_argument("--chip", metavar="CHIP", help="the chip (default: the name of the target)")
    parser.add_argument("--features", metavar="LIST", help="LLVM features, such as +ptx80")
    parser.add_argument(
        "--opt-level", type=int, choices=range(4), metavar="0-3", help="optimisation level (default: 3)"
    )
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
        "--debug-full", action="store_const", const=FULL, dest="debug",
        help="keep source lines and variables of kernels for debuggers",
    )  # fmt: skip
    parser.add_argument(
        "--sanitize", metavar="LIST",
        help="checks in CPU kernels, separated by commas: bounds, race, barrier, uninitialized, host-memory",
    )  # fmt: skip
    parser.add_argument(
        "--device-lib", action="append", type=path, metavar="FILE", default=[], dest="device_libs",
        help="a .bc or .ll file to link in; may be repeated",
    )  # fmt: skip
    parser.add_argument("--passes", metavar="PIPELINE", help="replace the pass pipeline of the kernels")
    parser.add_argument("--source-passes", metavar="PIPELINE", help="run on the file before it is split")
    parser.add_argument("--dump-ir", type=path, metavar="DIR", help="write the IR after every stage")
    add_options(parser, "message_format")


def _check(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "check", "read and verify the project and its sources, and compile nothing"
    )
    _add_programs(parser, "what to check")
    add_options(parser, *PROJECT, "jobs", "targets", "json", "message_format")


def _explain(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "explain", "show the inputs of a step, now and last time, and why it last ran",
        epilog=_EXPLAIN_EPILOG,
    )  # fmt: skip
    parser.add_argument("step", metavar="STEP", help="the id of a step, or some of its parts")
    add_options(parser, *PROJECT)
    add_options(parser, "targets", text="the -t options of the build; may be repeated")
    parser.add_argument("--all", action="store_true", help="also list unchanged parts")
    add_options(parser, "json")


def _inspect(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "inspect", "list the modules, targets and kernels in a file", epilog=_INSPECT_EPILOG
    )
    parser.add_argument(
        "files", nargs="+", type=path, metavar="FILE", help="an executable, library, cubin, hsaco, …"
    )
    add_options(parser, "targets", text="list only objects for this target or chip; may be repeated")
    add_modules(parser, "list only this gpu.module")
    parser.add_argument(
        "--workgroup", type=positive, default=256, metavar="N",
        help="work-items per workgroup, for the estimate of occupancy (default: 256)",
    )  # fmt: skip
    parser.add_argument("--disassemble", action="store_true", help="print the code of every object")
    parser.add_argument("--extract", type=path, metavar="DIR", help="write every object found into DIR")
    add_options(parser, "json")


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
    parser.add_argument(
        "--remote", action="store_true",
        help="also compare the tools of the cluster's workers with those of this machine",
    )  # fmt: skip
    add_options(parser, "executor", text="the cluster, as dask:ADDRESS (default: that of the project)")
    add_options(parser, "insecure_remote")
    add_options(parser, "json")


def _clean(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(commands, "clean", "remove the outputs of builds; the cache stays")
    add_options(parser, "file", "build_dir", "profile")
    add_options(parser, "dry_run", text="list the files; remove nothing")


def _init(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "init", "start a project: targets.yaml, a kernel and a main program", epilog=_INIT_EPILOG
    )
    parser.add_argument(
        "directory", nargs="?", type=path, default=Path(), metavar="DIR", help="default: the current folder"
    )
    parser.add_argument("--scons", action="store_true", help="also write an SConstruct")
    parser.add_argument(
        "--ci",
        choices=CI_SERVICES,
        default="",
        help="also write the recipe of this CI service; in an existing project, only that",
    )


def _cache(commands: argparse._SubParsersAction[Parser]) -> None:
    parent = add_command(commands, "cache", "show, check, shrink, copy or clear the cache", handler="")
    actions = parent.add_subparsers(title="actions", metavar="ACTION", required=True, parser_class=Parser)

    def add(name: str, text: str) -> Parser:
        parser = add_command(
            actions, name, text, handler=f"gpubuild.cli.cache:{name.replace('import', 'import_')}"
        )
        of_build = ("build_dir", "profile") if name in ("stats", "export") else ()
        add_options(parser, "file", *of_build, "cache_dir", "json")
        return parser

    add("stats", "show the size of the cache, and how often it served the last builds of this project")
    add("clear", "delete everything stored")
    add("verify", "check every stored byte, and set damaged files aside")
    gc = add("gc", "delete the least recently used results; builds may run meanwhile")
    gc.add_argument(
        "--max-size", metavar="SIZE", help="keep at most this, such as 2GiB (default: that of the project)"
    )
    gc.add_argument(
        "--max-age", metavar="TIME", help="delete results not used for this long, such as 14d or 12h"
    )
    gc.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    export = add("export", "write results into one file, to import them elsewhere")
    export.add_argument(
        "archive", nargs="?", type=path, metavar="OUT", help="the file to write; gzip if it ends in gz"
    )
    export.add_argument("-o", "--output", type=path, metavar="OUT", help="the same")
    export.add_argument(
        "--all",
        action="store_true",
        help="export everything stored, not only the results of the build folder",
    )
    importer = add("import", "add the results in an exported file, and check every byte")
    importer.add_argument("archive", type=path, metavar="IN", help="a file that `cache export` wrote")
    importer.add_argument("--max-size", metavar="SIZE", help="refuse to unpack more (default: 20GiB)")


def _graph(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands,
        "graph",
        "draw the steps of a build",
        epilog=_GRAPH_EPILOG,
        handler="gpubuild.cli.views:graph",
    )
    _add_programs(parser, "what to draw")
    add_options(parser, *PROJECT)
    add_options(parser, "targets", text="draw device code for this target only; may be repeated")
    add_modules(parser, "draw only the steps that make or use this gpu.module")
    parser.add_argument("--format", choices=GRAPH_FORMATS, help="default: that of the suffix of -o, else svg")
    parser.add_argument(
        "-o", "--output", type=path, metavar="FILE", help="the file to write (default: stdout)"
    )


def _report(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "report", "write an HTML report of the last build and its kernels", epilog=_REPORT_EPILOG,
        handler="gpubuild.cli.views:report",
    )  # fmt: skip
    add_options(parser, "file", "build_dir")
    _add_output(parser, "report.html")
    parser.add_argument(
        "--profile", action="append", type=path, default=[], metavar="FILE", dest="profiles",
        help="also show the profile that a run with GPUBUILD_PROFILE=FILE wrote; may be repeated",
    )  # fmt: skip


def _watch(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "watch", "build, and build again whenever a file changes", epilog=_WATCH_EPILOG, verbose=""
    )
    parser.usage = "gpubuild watch [options] [PROGRAM…] [-- ARGUMENTS]"
    _add_programs(parser, "what to build")
    parser.add_argument("--run", action="store_true", help="run the program after each successful build")
    add_build_options(parser)


def _compdb(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "compdb", "write compile_commands.json, the options of C sources for editors",
        handler="gpubuild.cli.views:compdb",
    )  # fmt: skip
    add_options(parser, *PROJECT)
    _add_output(parser, "compile_commands.json")


def _worker(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "worker", "run compile steps for builds on other machines, as a worker of a Dask cluster",
        epilog=_WORKER_EPILOG,
    )  # fmt: skip
    parser.usage = "gpubuild worker [options] (ADDRESS | --scheduler-file FILE) [-- OPTIONS]"
    parser.add_argument("address", nargs="?", metavar="ADDRESS", help="of the scheduler: tls://HOST:PORT")
    parser.add_argument(
        "--scheduler-file", type=path, metavar="FILE", help="the file that `dask scheduler` wrote"
    )
    add_options(parser, "jobs", text="run N steps at once (default: the number of CPUs, if memory suffices)")
    parser.add_argument(
        "--memory", metavar="SIZE",
        help="memory for steps, such as 32GiB: 512 MiB for each (default: that of the machine)",
    )  # fmt: skip
    parser.add_argument("--name", metavar="NAME", help="a unique name (default: HOST-PID)")
    add_options(parser, "insecure_remote")


def _completion(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = add_command(
        commands, "completion", "print a completion script for your shell", epilog=_COMPLETION_EPILOG
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def _help(parser: Parser) -> Callable[[argparse.Namespace], int]:
    def call(_: argparse.Namespace) -> int:
        parser.print_help()
        return 0

    return call


_OFTEN = {"build": _build, "run": _run}
_ALL = (
    *_OFTEN.values(),
    *(_check, _test, _export, _install, _compile, _explain, _inspect, _doctor, _clean, _init, _cache),
    *(_graph, _report, _watch, _compdb, _worker, _completion),
)
