"""Project: the contents of targets.yaml with defaults and paths resolved.

BuildOptions: what is requested on top of targets.yaml, and whether programs are linked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from gpubuild.errors import Diagnostic
from gpubuild.support.frozen import field, frozen
from gpubuild.targets.target import Target


@frozen
class Execute:
    """``execute:``: a Dask cluster that runs compile steps, and what to do where it cannot.

    ``dask`` is the address of its scheduler, ``scheduler_file`` a file that the scheduler wrote. ``jobs``
    limits the slots that are used; 0: all. ``only`` keeps steps that can be sent off this machine.
    ``verify`` is the part of the results, 0 to 1, that this machine makes, too, and compares.
    """

    dask: str = ""
    scheduler_file: Path | None = None
    jobs: int = 0
    only: bool = False
    fallback: bool = True
    insecure: bool = False  # allow an address without encryption that is not this machine's
    connect_seconds: float = 10.0
    no_worker_seconds: float = 30.0
    step_seconds: float = 1800.0
    retries: int = 1  # on other workers, where one refused or killed a step
    verify: float = 0.0

    @property
    def shown(self) -> str:
        """The address or file, for messages."""
        return str(self.scheduler_file or self.dask)


@frozen
class BuildOptions:
    """What the user asked for on top of targets.yaml. ``build_dir`` is absolute."""

    build_dir: Path
    programs: tuple[str, ...] = ()  # empty: all
    targets: tuple[str, ...] = ()  # restrict device code to these; empty: all
    cache_dir: Path | None = None  # overrides targets.yaml and the environment
    use_cache: bool = True
    jobs: int = 0  # 0: GPUBUILD_JOBS, else the number of CPUs
    keep_going: bool = False
    dry_run: bool = False
    link: bool = True  # False: end with the objects that a linker would read
    executor: str = ""  # local, or dask:ADDRESS; empty: GPUBUILD_EXECUTOR, else that of targets.yaml
    fallback: bool = True  # run here what no worker can run
    insecure_remote: bool = False
    dump_ir: Path | None = None  # absolute: where steps write their IR after every stage


@frozen
class Variant:
    """What a command line merges over targets.yaml. ``targets`` that it does not list are added."""

    profile: str = ""
    settings: tuple[str, ...] = ()  # KEY=VALUE
    defines: tuple[str, ...] = ()  # NAME or NAME=VALUE
    targets: tuple[str, ...] = ()

    @property
    def build_folder(self) -> str:
        """The name of the build folder beside the project file."""
        return f"build-{self.profile}" if self.profile else "build"

    def request(self) -> list[Any]:
        """Return what a null build compares, besides the targets."""
        return [self.profile, list(self.settings), list(self.defines)]


MLIR_SUFFIXES = (".mlir", ".mlirbc")
CXX_SUFFIXES = (".cpp", ".cc", ".cxx")
HOST_SUFFIXES = (".c", *CXX_SUFFIXES)  # of the sources that ``host:`` is about
LLVM_SUFFIXES = (".ll", ".bc")
OBJECT_SUFFIX, ARCHIVE_SUFFIX = ".o", ".a"
SOURCE_SUFFIXES = (*MLIR_SUFFIXES, *HOST_SUFFIXES, *LLVM_SUFFIXES, OBJECT_SUFFIX, ARCHIVE_SUFFIX)

# What a driver would take for more than the beginning of a folder's name: `-I=dir` is in the sysroot.
_NOT_A_FOLDER = ("=", "$", "-")


@frozen
class CompilerOptions:
    """What goes with sources of one language.

    ``include`` are folders, relative to the project's or absolute; ``define`` are ``NAME`` or ``NAME=value``.
    """

    std: str = ""
    include: tuple[str, ...] = ()
    define: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


@frozen
class HostOptions:
    """``host:``. A macro without a value is ``None``; its order is that of the file."""

    include: tuple[str, ...] = ()
    define: tuple[tuple[str, str | None], ...] = ()
    c_std: str = ""
    cxx_std: str = ""
    c_flags: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()

    def over(self, base: HostOptions) -> HostOptions:
        """Return these options of a program over ``base``, those of its project.

        Its folders are searched first, its macros and standards replace, its flags come last.
        """
        return HostOptions(
            include=tuple(dict.fromkeys((*self.include, *base.include))),
            define=tuple({**dict(base.define), **dict(self.define)}.items()),
            c_std=self.c_std or base.c_std,
            cxx_std=self.cxx_std or base.cxx_std,
            c_flags=(*base.c_flags, *self.c_flags),
            cxx_flags=(*base.cxx_flags, *self.cxx_flags),
        )

    def of(self, *, cxx: bool) -> CompilerOptions:
        """Return the options of C sources, or of C++ sources."""
        return CompilerOptions(
            std=self.cxx_std if cxx else self.c_std,
            include=self.include,
            define=tuple(name if value is None else f"{name}={value}" for name, value in self.define),
            flags=self.cxx_flags if cxx else self.c_flags,
        )


NO_OPTIONS = HostOptions()


def search_arguments(include: Sequence[str], define: Sequence[str]) -> list[str]:
    """Return folders and macros as arguments of a compiler that runs in the project's folder."""
    folders = (f"./{name}" if name.startswith(_NOT_A_FOLDER) else name for name in include)
    return [*(f"-I{name}" for name in folders), *(f"-D{text}" for text in define)]


def language_arguments(std: str, flags: Sequence[str]) -> list[str]:
    """Return the standard and the flags as arguments of a compiler."""
    return [*([f"-std={std}"] if std else []), *flags]


def about_warnings(flags: Sequence[str]) -> bool:
    """Whether the flags say which warnings there are, or that they are errors."""
    return any(flag.startswith(("-W", "-pedantic")) or flag == "-w" for flag in flags)


class Offload(StrEnum):
    """How a program carries its device images (design: offloading)."""

    DISPATCH = "dispatch"
    SELECT_OBJECT = "select_object"
    CLANG = "clang"


class Product(StrEnum):
    """What a program is linked into. All but executables are for other programs and have no main."""

    EXECUTABLE = "executable"
    SHARED = "shared"
    STATIC = "static"
    OBJECT = "object"


class RemoteMode(StrEnum):
    """What a build may do with the remote cache."""

    READ_WRITE = "read-write"
    READ_ONLY = "read-only"
    WRITE_ONLY = "write-only"


@frozen
class RemoteCache:
    """An HTTP cache in Bazel's layout."""

    url: str
    mode: RemoteMode = RemoteMode.READ_WRITE


@frozen
class CacheConfig:
    """Where results are kept: without a ``directory`` in the user's cache.

    ``max_size_bytes`` 0 means no limit of the project's own.
    """

    directory: Path | None = None
    max_size_bytes: int = 0
    remote: RemoteCache | None = None


TENSOR_PIPELINES = ("linalg", "tosa")


@frozen
class Passes:
    """Pass-pipeline text that replaces ours; empty means ours. ``source`` runs before splitting.

    ``source`` may be one of :data:`TENSOR_PIPELINES`.
    ``kinds`` has the pipelines of kernels, by kind of target.
    """

    source: str = ""
    host: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)


@frozen
class ModuleOverride:
    """``modules: {NAME: …}`` of a program. ``None`` means "as the program or target says".

    ``targets`` are names. ``device_libs`` are absolute and linked in addition.
    """

    targets: tuple[str, ...] | None = None
    opt_level: int | None = None
    fast_math: bool | None = None
    debug: bool | str | None = None
    device_libs: tuple[Path, ...] = ()
    written: Diagnostic | None = field(default=None, compare=False)  # where, without a message


@frozen
class Generate:
    """``generate: {NAME: …}``: a command that makes sources. ``tool`` is its program, absolute.

    ``inputs`` are files by their names in the folder in which it runs, or outputs of earlier commands.
    ``searched`` are paths at which the tool would have been found first.
    """

    name: str
    command: tuple[str, ...]
    tool: Path
    inputs: Mapping[str, Path]
    outputs: tuple[str, ...]
    searched: tuple[Path, ...] = ()


@frozen
class Case:
    """``tests: {NAME: …}`` of a program: how it is run, and what is expected. Paths are absolute."""

    name: str
    args: tuple[str, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)  # copies, by names in the folder of the run
    stdin: bytes = b""
    stdin_file: Path | None = None
    stdout: bytes | None = None
    stdout_file: Path | None = None
    check: Path | None = None  # a Python script that reads the program's stdout
    exit_code: int = 0
    devices: tuple[str, ...] = ()  # empty: the one that the environment chooses
    sanitize: bool = False
    timeout_seconds: int = 60


@frozen
class Install:
    """How a library is packaged. ``include`` and ``lib`` are folders below the prefix."""

    version: str = ""
    include: str = "include"
    lib: str = "lib"


@frozen
class Program:
    """One executable, library or object. ``sources`` are absolute; ``targets`` are names in file order.

    ``select`` is a target's name or an index, for ``offload: select_object``; ``None`` selects
    the first. ``device_libs`` maps a kind to extra libraries of every module compiled for it.
    ``host`` has the project's options in it, too; ``source_hosts`` those of sources that have further ones.
    ``constants`` are ``NAME=VALUE``, for MLIR sources.
    """

    name: str
    sources: tuple[Path, ...]
    targets: tuple[str, ...]
    product: Product = Product.EXECUTABLE
    offload: Offload = Offload.DISPATCH
    select: str | int | None = None
    modules: Mapping[str, ModuleOverride] = field(default_factory=dict)
    device_libs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    passes: Passes = field(default_factory=Passes)
    constants: tuple[str, ...] = ()
    host: HostOptions = NO_OPTIONS
    source_hosts: Mapping[Path, HostOptions] = field(default_factory=dict)
    link_libraries: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()
    tests: tuple[Case, ...] = ()
    install: Install = Install()

    @property
    def outlining(self) -> str:
        """What is done to each MLIR source first: the same text, the same result. Empty: nothing."""
        return "\n".join((self.passes.source, *self.constants))

    @property
    def soname(self) -> str:
        """Return the suffix of a shared library's soname behind ``.so``: the first number of its version."""
        versioned = self.product is Product.SHARED and self.install.version
        return f".{self.install.version.partition('.')[0]}" if versioned else ""

    def host_of(self, source: Path) -> CompilerOptions:
        """Return how a C or C++ source is compiled."""
        return self.source_hosts.get(source, self.host).of(cxx=source.suffix in CXX_SUFFIXES)


@frozen
class Project:
    """A loaded targets.yaml. ``root`` is the folder it lies in; every path below is absolute."""

    root: Path
    file: Path
    targets: Mapping[str, Target]
    programs: Mapping[str, Program]
    cache: CacheConfig
    execute: Execute | None = None
    opt_level: int = 3  # defaults that also govern host code
    debug: bool = False
    generate: tuple[Generate, ...] = ()
    variant: Variant = Variant()
    included: tuple[Path, ...] = ()  # further files that it was loaded from
    patterns: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # of sources: folder, pattern, matches
