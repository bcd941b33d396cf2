"""All keys of targets.yaml as one specification. The loader and the JSON Schema are made from it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from gpubuild.config.program_keys import (
    GENERATE,
    HOST,
    HOST_WORDS,
    LIBRARIES,
    NAME,
    OPTIONS,
    PATH,
    PIPELINE,
    program,
)
from gpubuild.config.spec import (
    Choice,
    Either,
    Flag,
    Key,
    ListOf,
    Number,
    Record,
    Table,
    Text,
    Whole,
    partial,
)
from gpubuild.environment import MOST_SLOTS
from gpubuild.model.project import RemoteMode
from gpubuild.support.text import SIZE, any_of
from gpubuild.targets import registry
from gpubuild.targets.target import Sanitize
from gpubuild.targets.vendor import Vendor

VERSION = 1
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

_CACHE = Record(
    what="cache",
    keys={
        "dir": Key(
            spec=PATH,
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
            **OPTIONS,
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
                spec=LIBRARIES,
                help="Bitcode or LLVM IR files linked into every kernel module of this target.",
            ),
            "passes": Key(
                spec=PIPELINE,
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


INCLUDE = ListOf(item=PATH, min_items=1, unique=True)


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
                spec=Table(what="profiles", name=NAME, value=_partial_document(vendors)),
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
                spec=Record(what="defaults", keys=OPTIONS),
                help="Default options of all targets.",
            ),
            "host": Key(
                spec=HOST, help="How C and C++ sources of all programs are compiled.", aka=HOST_WORDS
            ),
            "targets": Key(
                spec=Table(what="targets", name=NAME, value=_target(vendors), min_items=1),
                help="What kernels are compiled for: names of your choice, or well-known ones such as "
                "sm_90, gfx90a and cpu, which need no options.",
                required=True,
            ),
            "generate": Key(
                spec=Table(what="generate", name=NAME, value=GENERATE, empty=True),
                help="Commands that make sources of programs.",
                aka=("generated", "custom_commands", "genrule", "commands"),
            ),
            "programs": Key(
                spec=Table(what="programs", name=NAME, value=program([v.kind for v in vendors]), min_items=1),
                help="The executables and libraries to build.",
                required=True,
            ),
        },
    )
