"""Keys: what targets.yaml may say. Both the loader and the JSON Schema come from here."""

from __future__ import annotations

from gpubuild.config.host_keys import C_SUFFIXES, CXX_SUFFIXES, HOST, HOST_WORDS
from gpubuild.config.spec import (
    Choice,
    Either,
    Flag,
    Key,
    ListOf,
    Record,
    Table,
    Text,
    Whole,
    path_with,
)
from gpubuild.model.project import Offload, RemoteMode
from gpubuild.model.sanitize import Sanitize
from gpubuild.model.target import Kind

VERSION = 1
SOURCE_SUFFIXES = (".mlir", *C_SUFFIXES, *CXX_SUFFIXES, ".ll", ".bc", ".o", ".a")
LIBRARY_SUFFIXES = (".bc", ".ll")


# Programs and targets name files and folders, so their names must be safe ones.
_NAME = Text(
    what="a name made of letters, digits, '_', '-' and '.', starting with a letter, a digit or '_'",
    pattern=r"[A-Za-z0-9_][A-Za-z0-9._-]*",
)
_MODULE_NAME = Text(what="the name of a gpu.module, without '@'", pattern=r"[^@\s]\S*")
_PATH = Text(what="a path")
_PIPELINE = Text(what="a pass pipeline")
_CHIP = Text(what="a chip such as sm_90, gfx90a or x86-64-v3", pattern=r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
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
        spec=Flag(),
        default=False,
        help="Line tables, and keep locations in compiled text.",
        aka=("debug_info", "g"),
    ),
}

_CACHE = Record(
    what="cache",
    keys={
        "dir": Key(
            spec=_PATH,
            default="cache",
            help="Folder of the persistent cache, relative to this file, or below ~/.",
            aka=("directory", "path"),
        ),
        "max_size": Key(
            spec=Either(
                options=(
                    Whole(),
                    Text(
                        what="a size",
                        pattern=r"[0-9]{1,15}(\.[0-9]{1,3})? ?([KMGT]i?B|B)?",
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

_TARGET = Record(
    what="a target",
    keys={
        "kind": Key(
            spec=Choice(words=tuple(Kind)),
            help="nvvm (NVIDIA), rocdl (AMD) or cpu. Follows from a well-known name or chip.",
            aka=("vendor", "backend"),
        ),
        "chip": Key(
            spec=_CHIP,
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
        "device_libs": Key(
            spec=_LIBRARIES, help="Bitcode or LLVM IR files linked into every kernel module of this target."
        ),
        "passes": Key(
            spec=_PIPELINE,
            help="Pass pipeline that replaces gpubuild's own for this target.",
            aka=("pipeline",),
        ),
        "sanitize": Key(
            spec=ListOf(item=Choice(words=tuple(Sanitize)), unique=True),
            help="CPU targets: mistakes that kernels are checked for while they run (docs/checked.md).",
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

_PROGRAM = Record(
    what="a program",
    empty=False,
    keys={
        "sources": Key(
            spec=ListOf(item=path_with(SOURCE_SUFFIXES, "a source file"), min_items=1, unique=True),
            help="Files it is made of, relative to this file: " + " ".join(SOURCE_SUFFIXES),
            required=True,
            aka=("files", "srcs", "src"),
        ),
        "targets": Key(
            spec=_TARGET_NAMES, help="Names of targets to compile for; all when left out.", aka=("target",)
        ),
        "offload": Key(
            spec=Choice(words=tuple(Offload)),
            default=Offload.DISPATCH.value,
            help="dispatch: carry every object and choose at run time. select_object: embed one. "
            "clang: device code that clang-linker-wrapper links and registers (docs/clang.md).",
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
                            kind.value: Key(spec=_LIBRARIES, help=f"For targets of kind {kind}.")
                            for kind in Kind
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
                        kind.value: Key(
                            spec=_PIPELINE, help=f"Replaces gpubuild's own passes for kind {kind}."
                        )
                        for kind in Kind
                    },
                    "host": Key(spec=_PIPELINE, help="Replaces gpubuild's own passes for host code."),
                },
            ),
            help="Pass pipelines, as mlir-opt's --pass-pipeline takes them.",
            aka=("pipelines", "pipeline"),
        ),
        "host": Key(
            spec=HOST,
            help="How C and C++ sources are compiled, beside what the project's `host` says: its folders are "
            "searched first, its macros and standards replace, its flags come last.",
            aka=HOST_WORDS,
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
                                advice="write the flags themselves: no linker tells where it read them",
                            )
                        ),
                        help="Further flags for the linker.",
                    ),
                },
            ),
            help="How the executable is linked.",
        ),
    },
)

DOCUMENT = Record(
    what="targets.yaml",
    empty=False,
    keys={
        "version": Key(
            spec=Whole(minimum=VERSION, maximum=VERSION),
            help=f"Version of this format: {VERSION}.",
            required=True,
        ),
        "cache": Key(spec=_CACHE, help="Where compiled results are kept."),
        "defaults": Key(
            spec=Record(what="defaults", keys=_OPTIONS),
            help="Options of every target that does not say otherwise.",
        ),
        "host": Key(spec=HOST, help="How C and C++ sources of all programs are compiled.", aka=HOST_WORDS),
        "targets": Key(
            spec=Table(what="targets", name=_NAME, value=_TARGET, min_items=1),
            help="What kernels are compiled for: names of your choice, or well-known ones such as "
            "sm_90, gfx90a and cpu, which need no options.",
            required=True,
        ),
        "programs": Key(
            spec=Table(what="programs", name=_NAME, value=_PROGRAM, min_items=1),
            help="The executables to build.",
            required=True,
        ),
    },
)
