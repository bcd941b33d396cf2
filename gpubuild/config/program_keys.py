"""Keys of programs, of their sources and of generated sources, as a part of the specification in ``keys``."""

from __future__ import annotations

from collections.abc import Sequence

from gpubuild.config.spec import (
    Choice,
    Either,
    Flag,
    Key,
    ListOf,
    Nothing,
    Number,
    Record,
    Table,
    Text,
    Whole,
    path_with,
)
from gpubuild.model.project import HOST_SUFFIXES, SOURCE_SUFFIXES, TENSOR_PIPELINES, Offload, Product
from gpubuild.targets.target import FULL

LIBRARY_SUFFIXES = (".bc", ".ll")

_STD = Text(
    what="a C or C++ standard",
    pattern=r"(c|gnu)(89|90|99|11|17|18|23|2x|\+\+(98|03|11|14|17|20|23|26|2a|2b|2c))",
    advice="write c11, gnu17, c++17 and the like",
)
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_C_FLAGS = ListOf(
    item=Text(
        what="a compiler option",
        pattern=r"-[^\0\r\n]+",
        advice="each item is one option, beginning with '-', and joined to its value",
    )
)
# What sources of both languages have in common.
_SEARCH = {
    "include": Key(
        spec=ListOf(item=Text(what="a folder"), unique=True),
        help="Folders that #include searches, in this order, relative to this file.",
        aka=("includes", "include_dirs", "include_directories", "includedirs", "inc", "i"),
    ),
    "define": Key(
        spec=Table(
            what="define",
            name=Text(what="a macro's name: letters, digits and '_', not a digit first", pattern=_IDENTIFIER),
            value=Either(
                options=(
                    Nothing(),
                    Number(),
                    Text(what="a macro's value, on one line", pattern=r"[^\0\r\n]*"),
                )
            ),
            empty=True,
        ),
        help="Macros: NAME: value; an empty value means 1.",
        aka=("defines", "definitions", "compile_definitions", "local_defines", "macros", "d"),
    ),
}
_STD_WORDS = ("standard", "c_std", "cpp_std", "cxx_std", "c_standard", "cxx_standard")
_FLAG_WORDS = ("cflags", "cxxflags", "copts", "compile_options", "options", "c_args", "cpp_args")

_SOURCE = Record(
    what="a source",
    keys={
        **_SEARCH,
        "std": Key(spec=_STD, help="Its language's standard, such as c11 or c++17.", aka=_STD_WORDS),
        "flags": Key(
            spec=_C_FLAGS, help="Further options of the compiler (-W…, -f…, -m…, -O…).", aka=_FLAG_WORDS
        ),
    },
)

HOST = Record(
    what="host",
    keys={
        **_SEARCH,
        "std": Key(
            spec=Either(options=(_STD, ListOf(item=_STD, min_items=1, unique=True))),
            help="The language's standard, such as c11 or c++17; a list for both languages.",
            aka=_STD_WORDS,
        ),
        "flags": Key(
            spec=Either(
                options=(
                    _C_FLAGS,
                    Record(
                        what="flags",
                        keys={
                            "c": Key(spec=_C_FLAGS, help="For C sources."),
                            "c++": Key(spec=_C_FLAGS, help="For C++ sources.", aka=("cpp", "cxx")),
                        },
                    ),
                )
            ),
            help="Further options of the compiler (-W…, -f…, -m…, -O…): a list, or lists by language.",
            aka=_FLAG_WORDS,
        ),
        "sources": Key(
            spec=Table(
                what="sources",
                name=path_with(HOST_SUFFIXES, "a C or C++ source"),
                value=_SOURCE,
                empty=True,
            ),
            help="Options of single sources, by their names under a program's `sources`; they override the "
            "options of all sources.",
            aka=("source", "files", "file", "per_source"),
        ),
    },
)

# What other build tools call it, where they have it.
HOST_WORDS = (
    *("c", "cflags", "cxxflags", "copts", "compile", "compile_definitions", "compile_options", "define"),
    *("defines", "flags", "include", "include_dirs", "include_directories", "includes", "std"),
)

_FILE = path_with(
    SOURCE_SUFFIXES,
    "a source file",
    advice="write the files of a folder as src/*.c, and no headers; kernels are MLIR, not CUDA",
)
# Programs and targets name files and folders, so their names must be safe ones.
NAME = Text(
    what="a name made of letters, digits, '_', '-' and '.', starting with a letter, a digit or '_'",
    pattern=r"[A-Za-z0-9_][A-Za-z0-9._-]*",
)
_MODULE_NAME = Text(what="the name of a gpu.module, without '@'", pattern=r"[^@\s]\S*")
PATH = Text(what="a path")
_ARGUMENT = Text(what="an argument", pattern=r"[^\0]*")
_CONTENT = Text(pattern=r"[\s\S]*")
PIPELINE = Text(what="a pass pipeline")
LIBRARIES = ListOf(item=path_with(LIBRARY_SUFFIXES, "a device library"), unique=True)
_TARGET_NAMES = ListOf(item=Text(what="a target's name"), min_items=1, unique=True)
_OPT_LEVEL = Whole(minimum=0, maximum=3)
OPTIONS = {
    "opt_level": Key(
        spec=_OPT_LEVEL,
        default=3,
        help="Optimisation level, 0 to 3.",
        aka=("optimization", "optimisation", "o", "optlevel"),
    ),
    "fast_math": Key(
        spec=Flag(),
        default=False,
        help="Allow reassociation, contraction and approximate functions in kernels.",
        aka=("fastmath", "ffast-math"),
    ),
    "debug": Key(
        spec=Either(options=(Flag(), Choice(words=(FULL,)))),
        default=False,
        help="Line tables, and keep locations in compiled text. `full`: variables of kernels, too.",
        aka=("debug_info", "g"),
    ),
}

_MODULE = Record(
    what="a module",
    keys={
        "targets": Key(
            spec=_TARGET_NAMES, help="Targets of this gpu.module, instead of the program's.", aka=("target",)
        ),
        **{name: Key(spec=key.spec, help=key.help, aka=key.aka) for name, key in OPTIONS.items()},
        "device_libs": Key(
            spec=LIBRARIES, help="Bitcode or LLVM IR files linked into this gpu.module in addition."
        ),
    },
)


GENERATE = Record(
    what="an entry of 'generate'",
    empty=False,
    keys={
        "command": Key(
            spec=ListOf(item=_ARGUMENT, min_items=1),
            help="The program (a name in PATH, or a path relative to this file) and its arguments.",
            required=True,
            aka=("cmd", "argv"),
        ),
        "inputs": Key(
            spec=ListOf(item=PATH, unique=True),
            help="Files or patterns that it reads, copied into its folder under the same names.",
            aka=("input", "depends", "srcs"),
        ),
        "outputs": Key(
            spec=ListOf(
                item=Text(what="the name of a file, without folders", pattern=r"[A-Za-z0-9_][A-Za-z0-9._-]*"),
                min_items=1,
                unique=True,
            ),
            help="Files that it writes there: sources to list in programs, and headers for C and C++.",
            required=True,
            aka=("output", "outs"),
        ),
    },
)

_CASE = Record(
    what="a case",
    keys={
        "args": Key(
            spec=ListOf(item=_ARGUMENT),
            help="Arguments of the program.",
            aka=("arguments", "argv"),
        ),
        "files": Key(
            spec=ListOf(item=PATH, unique=True),
            help="Files to copy into the folder of the run, which is empty otherwise.",
            aka=("data", "inputs"),
        ),
        "stdin": Key(spec=_CONTENT, help="Text on standard input.", aka=("input",)),
        "stdin_file": Key(spec=PATH, help="A file on standard input."),
        "stdout": Key(
            spec=_CONTENT,
            help="The expected output, except addresses and trailing white space.",
            aka=("expected", "output", "expect"),
        ),
        "stdout_file": Key(
            spec=PATH, help="A file with the expected output.", aka=("expected_file", "golden")
        ),
        "check": Key(
            spec=path_with((".py",), "a Python script"),
            help="A script that checks: it gets the arguments, the program's output on standard input and "
            "its folder, and fails with an exit code other than 0.",
            aka=("script", "reference"),
        ),
        "exit_code": Key(
            spec=Whole(maximum=255), default=0, help="The expected exit code.", aka=("exit", "code")
        ),
        "devices": Key(
            spec=ListOf(item=Text(what="a device", pattern=r"[a-z]+(:[0-9]+)?"), min_items=1, unique=True),
            help="Run once on each of these, as GPUBUILD_DEVICE. Without it: where a run would.",
            aka=("device",),
        ),
        "sanitize": Key(
            spec=Flag(),
            default=False,
            help="Run checked kernels: the program needs a target with `sanitize:`.",
            aka=("checked",),
        ),
        "timeout": Key(spec=Whole(minimum=1), default=60, help="Seconds after which a run fails."),
    },
)


VERSION_NUMBERS = r"[0-9]+(\.[0-9]+){0,3}"
_FOLDER_BELOW = Text(
    what="a folder below the prefix",
    pattern=r"(?!(.*/)?\.\.?(/|$))[A-Za-z0-9_+.-]+(/[A-Za-z0-9_+.-]+)*",
    advice="write include/NAME and the like",
)
_INSTALL = Record(
    what="install",
    keys={
        "version": Key(
            spec=Either(
                options=(
                    Number(),
                    Text(what="a version", pattern=VERSION_NUMBERS, advice="write 1.2.0"),
                )
            ),
            help="Version in the packages of pkg-config and CMake. A shared library has the soname "
            "libNAME.so.MAJOR then.",
        ),
        "include": Key(spec=_FOLDER_BELOW, default="include", help="Folder of the header, below the prefix."),
        "lib": Key(
            spec=_FOLDER_BELOW,
            default="lib",
            help="Folder of the library and its packages, below the prefix.",
        ),
    },
)

_LINK = Record(
    what="link",
    keys={
        "libraries": Key(
            spec=ListOf(
                item=Text(
                    what="a library's name",
                    pattern=r"[A-Za-z0-9_.+:][A-Za-z0-9_.+:-]*",
                    advice="write m for -lm; a library of your own goes under sources: as a .a",
                )
            ),
            help="Libraries to link with, as -l takes them.",
            aka=("libs",),
        ),
        "flags": Key(
            spec=ListOf(
                item=Text(
                    what="a linker flag",
                    pattern=r"(?!@|-Wl,(.*,)?@).+",
                    advice="write the flags themselves: linkers do not report files of flags",
                )
            ),
            help="Further flags for the linker.",
        ),
    },
)


def program(kinds: Sequence[str]) -> Record:
    """Return the spec of an entry of ``programs:``; ``kinds`` are those of targets."""
    return Record(
        what="a program",
        empty=False,
        keys={
            "sources": Key(
                spec=ListOf(item=_FILE, min_items=1, unique=True),
                help="Files it is made of, or patterns such as src/*.mlir and **/*.c, relative to this file: "
                + " ".join(SOURCE_SUFFIXES),
                required=True,
                aka=("files", "srcs", "src"),
            ),
            "targets": Key(
                spec=_TARGET_NAMES,
                help="Names of targets to compile for; all when left out.",
                aka=("target",),
            ),
            "product": Key(
                spec=Choice(words=tuple(Product)),
                default=Product.EXECUTABLE.value,
                help="What is linked: executable (NAME), shared (libNAME.so), static (libNAME.a) or object "
                "(NAME.o). See docs/how-to/embedding.md.",
                aka=("kind", "type", "output", "crate_type"),
            ),
            "offload": Key(
                spec=Choice(words=tuple(Offload)),
                default=Offload.DISPATCH.value,
                help="dispatch: carry every object and choose at run time. select_object: embed one. "
                "clang: device code that clang-linker-wrapper links and registers (docs/how-to/clang.md).",
                aka=("handler",),
            ),
            "select": Key(
                spec=Either(options=(Whole(), Text(what="a target's name"))),
                help="With `offload: select_object`: the object to embed, a target's name or an index.",
            ),
            "modules": Key(
                spec=Table(what="modules", name=_MODULE_NAME, value=_MODULE, empty=True),
                help="Overrides for single gpu.modules, by name.",
            ),
            "device_libs": Key(
                spec=Either(
                    options=(
                        LIBRARIES,
                        Record(
                            what="device_libs",
                            keys={
                                kind: Key(spec=LIBRARIES, help=f"For targets of kind {kind}.")
                                for kind in kinds
                            },
                        ),
                    )
                ),
                help="Bitcode or LLVM IR files linked into every kernel module: a list for every kind of "
                "target, or lists by kind.",
            ),
            "passes": Key(
                spec=Record(
                    what="passes",
                    keys={
                        "source": Key(
                            spec=PIPELINE, help="Runs on each .mlir file before its kernels are split off."
                        ),
                        **{
                            kind: Key(spec=PIPELINE, help=f"Replaces gpubuild's own passes for kind {kind}.")
                            for kind in kinds
                        },
                        "host": Key(spec=PIPELINE, help="Replaces gpubuild's own passes for host code."),
                    },
                ),
                help="Pass pipelines, as mlir-opt's --pass-pipeline takes them.",
                aka=("pipelines",),
            ),
            "constants": Key(
                spec=Table(
                    what="constants",
                    name=Text(what="a constant's name, such as TILE", pattern=_IDENTIFIER),
                    value=Either(options=(Number(), Flag(), Text(what="a number", pattern=r"[-+\w.]+"))),
                ),
                help="Values of `gpubuild.constant` in MLIR sources; -D NAME=VALUE replaces them.",
            ),
            "pipeline": Key(
                spec=Choice(words=TENSOR_PIPELINES),
                help="For sources on tensors: makes kernels of linalg or tosa operations, with memory of "
                "the device for them (docs/how-to/tensors.md). Instead of `passes: {source: …}`.",
            ),
            "host": Key(
                spec=HOST,
                help="How C and C++ sources are compiled, in addition to the project's `host`: these folders "
                "are searched first, macros and standards replace the project's, flags come last.",
                aka=HOST_WORDS,
            ),
            "tests": Key(
                spec=Table(what="tests", name=NAME, value=_CASE, empty=True),
                help="Cases of `gpubuild test`: ways to run the program, and what is expected.",
                aka=("test", "cases"),
            ),
            "install": Key(
                spec=_INSTALL,
                help="How `gpubuild install` packages a library or an object.",
            ),
            "link": Key(
                spec=_LINK,
                help="How the product is linked; for a static library or an object, how its users link it.",
            ),
        },
    )
