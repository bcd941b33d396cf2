"""Project: what targets.yaml says, after defaults and paths are settled."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from gpubuild.frozen import field, frozen
from gpubuild.model.host_options import NO_OPTIONS, CompilerOptions, HostOptions
from gpubuild.model.target import Kind, Target


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
    """Where results are kept. ``max_size_bytes`` 0 means no limit."""

    directory: Path
    max_size_bytes: int = 0
    remote: RemoteCache | None = None


@frozen
class Passes:
    """Pass-pipeline text that replaces ours; empty means ours. ``source`` runs before splitting."""

    source: str = ""
    nvvm: str = ""
    rocdl: str = ""
    cpu: str = ""
    host: str = ""


@frozen
class ModuleOverride:
    """``modules: {NAME: …}`` of a program. ``None`` means "as the program or target says".

    ``targets`` are names. ``device_libs`` are absolute and linked in addition.
    """

    targets: tuple[str, ...] | None = None
    opt_level: int | None = None
    fast_math: bool | None = None
    debug: bool | None = None
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
    device_libs: Mapping[Kind, tuple[Path, ...]] = field(default_factory=dict)
    passes: Passes = Passes()
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
