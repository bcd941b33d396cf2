"""Project: the contents of targets.yaml with defaults and paths resolved.

BuildOptions: what is requested on top of targets.yaml, and whether programs are linked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from gpubuild.support.frozen import field, frozen
from gpubuild.targets.target import Target


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
    dump_ir: Path | None = None  # absolute: where steps write their IR after every stage


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
        """These options of a program, and ``base``, those of its project.

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
        """What goes with C sources, or with C++ sources."""
        return CompilerOptions(
            std=self.cxx_std if cxx else self.c_std,
            include=self.include,
            define=tuple(name if value is None else f"{name}={value}" for name, value in self.define),
            flags=self.cxx_flags if cxx else self.c_flags,
        )


NO_OPTIONS = HostOptions()


def search_arguments(include: Sequence[str], define: Sequence[str]) -> list[str]:
    """Folders and macros on a command line that runs in the project's folder."""
    folders = (f"./{name}" if name.startswith(_NOT_A_FOLDER) else name for name in include)
    return [*(f"-I{name}" for name in folders), *(f"-D{text}" for text in define)]


def language_arguments(std: str, flags: Sequence[str]) -> list[str]:
    """The standard and the flags on a command line."""
    return [*([f"-std={std}"] if std else []), *flags]


def about_warnings(flags: Sequence[str]) -> bool:
    """Whether the flags say which warnings there are, or that they are errors."""
    return any(flag.startswith(("-W", "-pedantic")) or flag == "-w" for flag in flags)


class Offload(StrEnum):
    """How a program carries its device images (design: offloading)."""

    DISPATCH = "dispatch"
    SELECT_OBJECT = "select_object"
    CLANG = "clang"


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


@frozen
class Program:
    """One executable. ``sources`` are absolute; ``targets`` are names in declaration order.

    ``select`` is a target's name or an index, for ``offload: select_object``; ``None`` selects
    the first. ``device_libs`` maps a kind to extra libraries of every module compiled for it.
    ``host`` has the project's options in it, too; ``source_hosts`` those of sources that have further ones.
    """

    name: str
    sources: tuple[Path, ...]
    targets: tuple[str, ...]
    offload: Offload = Offload.DISPATCH
    select: str | int | None = None
    modules: Mapping[str, ModuleOverride] = field(default_factory=dict)
    device_libs: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    passes: Passes = field(default_factory=Passes)
    host: HostOptions = NO_OPTIONS
    source_hosts: Mapping[Path, HostOptions] = field(default_factory=dict)
    link_libraries: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()

    def host_of(self, source: Path, *, cxx: bool) -> CompilerOptions:
        """How a C or C++ source is compiled."""
        return self.source_hosts.get(source, self.host).of(cxx=cxx)


@frozen
class Project:
    """A loaded targets.yaml. ``root`` is the folder it lies in; every path below is absolute."""

    root: Path
    file: Path
    targets: Mapping[str, Target]
    programs: Mapping[str, Program]
    cache: CacheConfig
    opt_level: int = 3  # defaults that also govern host code
    debug: bool = False
