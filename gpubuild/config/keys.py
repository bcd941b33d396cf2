"""All keys of targets.yaml as one specification. The loader and the JSON Schema are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

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
    partial,
    path_with,
)
from gpubuild.environment import MOST_SLOTS
from gpubuild.model.project import TENSOR_PIPELINES, Offload, Product, RemoteMode
from gpubuild.support.text import SIZE, any_of
from gpubuild.targets import registry
from gpubuild.targets.target import FULL, Sanitize
from gpubuild.targets.vendor import Vendor

C_SUFFIXES, CXX_SUFFIXES = (".c",), (".cpp", ".cc", ".cxx")

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
                name=path_with((*C_SUFFIXES, *CXX_SUFFIXES), "a C or C++ source"),
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


VERSION = 1
SOURCE_SUFFIXES = (".mlir", ".mlirbc", *C_SUFFIXES, *CXX_SUFFIXES, ".ll", ".bc", ".o", ".a")
LIBRARY_SUFFIXES = (".bc", ".ll")
_FILE = path_with(SOURCE_SUFFIXES, "a source file", advice="list no headers; kernels are MLIR, not CUDA")


# Programs and targets name files and folders, so their names must be safe ones.
_NAME = Text(
    what="a name made of letters, digits, '_', '-' and '.', starting with a letter, a digit or '_'",
    pattern=r"[A-Za-z0-9_][A-Za-z0-9._-]*",
)
_MODULE_NAME = Text(what="the name of a gpu.module, without '@'", pattern=r"[^@\s]\S*")
_PATH = Text(what="a path")
_PIPELINE = Text(what="a pass pipeline")
_CHIP = r"[A-Za-z0-9][A-Za-z0-9_.+-]*"
_TRIPLE = Text(what="a target triple", pattern=r"[A-Za-z0-9_]+(-[A-Za-z0-9_.]+){1,4}")
_FEATURE = r"[+-][A-Za-z0-9_][A-Za-z0-9_.-]*"
_FEATURE_ADVICE = "write +name or -name, such as +ptx80 or -xnack"
_FEATURES = Either(
    options=(
        Text(
            what="features joined by commas", pattern=rf"({_FEATURE}(,{_FEATURE})*)?", advice=_FEATURE_ADVICE
        ),
        ListOf(item=Text(what="a feature", pattern=_FEATURE, advice=_FEATURE_ADVICE), unique=True),
    )
)
_LIBRARIES = ListOf(item=path_with(LIBRARY_SUFFIXES, "a device library"), unique=True)
_TARGET_NAMES = ListOf(item=Text(what="a target's name"), min_items=1, unique=True)
_OPT_LEVEL = Whole(minimum=0, maximum=3)

_OPTIONS = {
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

_CACHE = Record(
    what="cache",
    keys={
        "dir": Key(
            spec=_PATH,
            help="Folder of the persistent cache, relative to this file, or below ~/. Default: the cache of "
            "all your projects, gpubuild/results in $XDG_CACHE_HOME or ~/.cache; with max_size, cache.",
            aka=("directory", "path"),
        ),
        "max_size": Key(
            spec=Either(
                options=(
                    Whole(),
                    Text(
                        what="a size",
                        pattern=SIZE,
                        advice="write a number of bytes or something like 2 GiB",
                    ),
                )
            ),
            help="How large the cache may grow: bytes, or text such as 2 GiB; 0 means no limit.",
            aka=("size", "limit"),
        ),
        "remote": Key(
            spec=Record(
                what="remote",
                keys={
                    "url": Key(
                        spec=Text(what="an http:// or https:// address", pattern=r"https?://[^\s/]\S*"),
                        help="Address of an HTTP cache in Bazel's layout.",
                        required=True,
                        aka=("address", "host"),
                    ),
                    "mode": Key(
                        spec=Choice(words=tuple(RemoteMode)),
                        default=RemoteMode.READ_WRITE.value,
                        help="Whether builds read from it, write to it, or both.",
                    ),
                },
                empty=False,
            ),
            help="A cache shared with other machines.",
        ),
    },
)


_EXECUTE = Record(
    what="execute",
    keys={
        "dask": Key(
            spec=Text(what="an address such as tls://HOST:8786", pattern=r"[a-z]+://\S+"),
            help="Address of a Dask scheduler, whose workers run compile steps.",
            aka=("address", "scheduler", "url"),
        ),
        "scheduler_file": Key(
            spec=Text(what="a path"), help="Instead of the address: a file that the scheduler wrote."
        ),
        "jobs": Key(
            spec=Whole(minimum=1, maximum=MOST_SLOTS),
            help="How many threads of the workers to use. Default: all.",
        ),
        "only": Key(spec=Flag(), default=False, help="Run steps here only if workers cannot run them."),
        "fallback": Key(
            spec=Flag(), default=True, help="Run here what no worker can run; false makes that an error."
        ),
        "retries": Key(
            spec=Whole(maximum=10),
            default=1,
            help="How many other workers get a step that one refused or killed, before it runs here.",
        ),
        "verify": Key(
            spec=Number(),
            default=0,
            help="The part of the results, from 0 to 1, that is made here, too, and compared.",
        ),
        "timeouts": Key(
            spec=Record(
                what="timeouts",
                keys={
                    "connect": Key(spec=Whole(), default=10, help="Seconds to wait for the scheduler."),
                    "no_worker": Key(
                        spec=Whole(), default=30, help="Seconds to wait for a worker that can run a step."
                    ),
                    "step": Key(
                        spec=Whole(minimum=1), default=1800, help="Seconds to wait for the answer to a step."
                    ),
                },
                empty=False,
            ),
            help="How long to wait before steps run here.",
        ),
    },
    empty=False,
)


def _flags(vendors: Sequence[Vendor]) -> str:
    lists = [f"{', '.join(f'`{flag}`' for flag in v.flags)} ({v.maker})" for v in vendors if v.flags]
    return "; ".join(lists)


def _target(vendors: Sequence[Vendor]) -> Record:
    kinds = [v.kind if v.kind == v.maker.lower() else f"{v.kind} ({v.maker})" for v in vendors]
    chip = Text(what=f"a chip such as {any_of([v.example for v in vendors])}", pattern=_CHIP)
    checked = " and ".join(v.maker for v in vendors if v.sanitizes)
    return Record(
        what="a target",
        keys={
            "kind": Key(
                spec=Choice(words=tuple(v.kind for v in vendors)),
                help=f"{any_of(kinds)}. Follows from a well-known name or chip.",
                aka=("vendor", "backend"),
            ),
            "chip": Key(
                spec=chip,
                help="What to compile for; the target's name when left out. `native`: this machine's CPU.",
                aka=("arch", "gpu", "gpu_arch", "processor", "mcpu"),
            ),
            "triple": Key(spec=_TRIPLE, help="LLVM target triple. Follows from the kind."),
            "features": Key(
                spec=_FEATURES,
                default="",
                help="LLVM features, such as +ptx80 or [+sramecc, -xnack].",
                aka=("mattr",),
            ),
            **_OPTIONS,
            "flags": Key(
                spec=ListOf(
                    item=Text(what="a flag of the target attribute", pattern=r"\w[\w-]*"), unique=True
                ),
                help="Flags of MLIR's target attribute besides `fast`: " + _flags(vendors) + ".",
            ),
            "abi": Key(
                spec=Whole(),
                help="Version of AMD's code objects: 400, 500 or 600.",
                default=None,
                aka=("code_object_version", "mcode-object-version"),
            ),
            "format": Key(
                spec=Choice(words=tuple(dict.fromkeys(f for v in vendors for f in v.formats))),
                help="What `gpu.binary` contains: bin (machine code), assembly, fatbin (both in NVIDIA's "
                "container), offload (LLVM bitcode). Machine code when left out, on NVIDIA with PTX for "
                "later chips.",
            ),
            **{
                vendor.assembler_key: Key(
                    spec=ListOf(item=Text(what="an option")),
                    help=f"{vendor.maker} targets: options for the assembler, one argument an item.",
                )
                for vendor in vendors
                if vendor.assembler_key
            },
            "device_libs": Key(
                spec=_LIBRARIES,
                help="Bitcode or LLVM IR files linked into every kernel module of this target.",
            ),
            "passes": Key(
                spec=_PIPELINE,
                help="Pass pipeline that replaces gpubuild's own for this target.",
                aka=("pipeline",),
            ),
            "sanitize": Key(
                spec=ListOf(item=Choice(words=tuple(Sanitize)), unique=True),
                help=f"{checked} targets: checks of running kernels (docs/how-to/checked.md).",
                aka=("sanitizers", "checks", "check", "fsanitize"),
            ),
        },
    )


_MODULE = Record(
    what="a module",
    keys={
        "targets": Key(
            spec=_TARGET_NAMES, help="Targets of this gpu.module, instead of the program's.", aka=("target",)
        ),
        **{name: Key(spec=key.spec, help=key.help, aka=key.aka) for name, key in _OPTIONS.items()},
        "device_libs": Key(
            spec=_LIBRARIES, help="Bitcode or LLVM IR files linked into this gpu.module in addition."
        ),
    },
)


_GENERATE = Record(
    what="an entry of 'generate'",
    empty=False,
    keys={
        "command": Key(
            spec=ListOf(item=Text(what="an argument", pattern=r"[^\0]*"), min_items=1),
            help="The program (a name in PATH, or a path relative to this file) and its arguments.",
            required=True,
            aka=("cmd", "argv"),
        ),
        "inputs": Key(
            spec=ListOf(item=_PATH, unique=True),
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
            spec=ListOf(item=Text(what="an argument", pattern=r"[^\0]*")),
            help="Arguments of the program.",
            aka=("arguments", "argv"),
        ),
        "files": Key(
            spec=ListOf(item=_PATH, unique=True),
            help="Files to copy into the folder of the run, which is empty otherwise.",
            aka=("data", "inputs"),
        ),
        "stdin": Key(spec=Text(pattern=r"[\s\S]*"), help="Text on standard input.", aka=("input",)),
        "stdin_file": Key(spec=_PATH, help="A file on standard input."),
        "stdout": Key(
            spec=Text(pattern=r"[\s\S]*"),
            help="The expected output, except addresses and trailing white space.",
            aka=("expected", "output", "expect"),
        ),
        "stdout_file": Key(
            spec=_PATH, help="A file with the expected output.", aka=("expected_file", "golden")
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


def _program(kinds: Sequence[str]) -> Record:
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
                        _LIBRARIES,
                        Record(
                            what="device_libs",
                            keys={
                                kind: Key(spec=_LIBRARIES, help=f"For targets of kind {kind}.")
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
                            spec=_PIPELINE, help="Runs on each .mlir file before its kernels are split off."
                        ),
                        **{
                            kind: Key(spec=_PIPELINE, help=f"Replaces gpubuild's own passes for kind {kind}.")
                            for kind in kinds
                        },
                        "host": Key(spec=_PIPELINE, help="Replaces gpubuild's own passes for host code."),
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
                spec=Table(what="tests", name=_NAME, value=_CASE, empty=True),
                help="Cases of `gpubuild test`: ways to run the program, and what is expected.",
                aka=("test", "cases"),
            ),
            "install": Key(
                spec=_INSTALL,
                help="How `gpubuild install` packages a library or an object.",
            ),
            "link": Key(
                spec=Record(
                    what="link",
                    keys={
                        "libraries": Key(
                            spec=ListOf(
                                item=Text(
                                    what="a library's name",
                                    pattern=r"[A-Za-z0-9_.+:][A-Za-z0-9_.+:-]*",
                                    advice="write m for -lm; a library of your own goes under sources: "
                                    "as a .a",
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
                ),
                help="How the product is linked; for a static library or an object, how its users link it.",
            ),
        },
    )


INCLUDE = ListOf(item=_PATH, min_items=1, unique=True)


def document() -> Record:
    """Return the spec of targets.yaml, with the kinds of targets that are registered."""
    return _document(registry.vendors())


def workspace() -> Record:
    """Return the spec of a workspace's targets.yaml."""
    keys = {name: document().keys[name] for name in ("version", "workspace")}
    return Record(what="a workspace", keys=keys, empty=False)


def partial_document() -> Record:
    """Return the spec of a profile: keys that replace those of the project, none of them required."""
    return _partial_document(registry.vendors())


@cache
def _document(vendors: tuple[Vendor, ...]) -> Record:
    replaceable = _replaceable(vendors)
    return Record(
        what="targets.yaml",
        empty=False,
        keys={
            "version": Key(
                spec=Whole(minimum=VERSION, maximum=VERSION),
                help=f"Version of this format: {VERSION}.",
                required=True,
            ),
            **replaceable.keys,
            "workspace": Key(
                spec=INCLUDE,
                help="Instead of all other keys: folders, or files, of projects that are built together.",
                aka=("members", "projects", "subdirs"),
            ),
            "include": Key(
                spec=INCLUDE,
                help="Files of this format, relative to the file that names them. Keys of this file, and of "
                "later ones in the list, are merged over theirs.",
                aka=("includes", "import", "imports", "extends"),
            ),
            "profiles": Key(
                spec=Table(what="profiles", name=_NAME, value=_partial_document(vendors)),
                help="Keys by profile, merged over those of the project with --profile NAME.",
                aka=("profile", "configurations", "configs", "variants"),
            ),
        },
    )


@cache
def _partial_document(vendors: tuple[Vendor, ...]) -> Record:
    found = partial(_replaceable(vendors))
    assert isinstance(found, Record)  # noqa: S101 - as the argument
    return found


@cache
def _replaceable(vendors: tuple[Vendor, ...]) -> Record:
    return Record(
        what="a profile",
        keys={
            "cache": Key(spec=_CACHE, help="Where compiled results are kept."),
            "execute": Key(
                spec=_EXECUTE,
                help="A cluster that runs compile steps.",
                aka=("executor", "cluster"),
            ),
            "defaults": Key(
                spec=Record(what="defaults", keys=_OPTIONS),
                help="Default options of all targets.",
            ),
            "host": Key(
                spec=HOST, help="How C and C++ sources of all programs are compiled.", aka=HOST_WORDS
            ),
            "targets": Key(
                spec=Table(what="targets", name=_NAME, value=_target(vendors), min_items=1),
                help="What kernels are compiled for: names of your choice, or well-known ones such as "
                "sm_90, gfx90a and cpu, which need no options.",
                required=True,
            ),
            "generate": Key(
                spec=Table(what="generate", name=_NAME, value=_GENERATE, empty=True),
                help="Commands that make sources of programs.",
                aka=("generated", "custom_commands", "genrule", "commands"),
            ),
            "programs": Key(
                spec=Table(
                    what="programs", name=_NAME, value=_program([v.kind for v in vendors]), min_items=1
                ),
                help="The executables and libraries to build.",
                required=True,
            ),
        },
    )
