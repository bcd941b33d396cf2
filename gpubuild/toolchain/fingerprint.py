"""Identity of tools in keys; gpubuild's own code as tools, one for each vendor."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from gpubuild.model.digest import digest_bytes, encode
from gpubuild.support.file_stamp import is_settled, stat_of
from gpubuild.support.frozen import field, frozen
from gpubuild.targets.registry import vendor, vendors
from gpubuild.targets.vendor import Vendor
from gpubuild.toolchain.distribution import tree_fingerprint
from gpubuild.toolchain.memo import Memo


@frozen
class Tool:
    """A tool that was found.

    ``command`` begins its command line (``("/…/ziglang/zig", "ld.lld")``); for a library or a folder
    it is the path. ``fingerprint`` is a digest of content, never of a version string. ``source`` is
    where it was found: ``PyPI package ziglang``, ``GPUBUILD_CC``, ``system``.
    """

    name: str
    command: tuple[str, ...]
    version: str
    fingerprint: str
    source: str = field(default="", compare=False)

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.command[0])


_INSIDE = "gpubuild."
# Modules outside the engine that decide the arguments of tools.
SHAPING = (
    "environment.py",
    "errors.py",
    "plan/library_search.py",
    "settings.py",
    "support/code_lines.py",
    "support/file_stamp.py",
    "support/files.py",
    "support/frozen.py",
    "support/spirv.py",
    "support/text.py",
    "toolchain/clang_linker_wrapper.py",
    "toolchain/run.py",
    "toolchain/runtime_library.py",
)


# Files of back ends that other code imports, too.
SHARED = (
    "engine/backends/cpu/fission/uniformity.py",
    "engine/backends/cpu/image_layout.py",
)
FACTS = "targets"  # the part of our code that is the facts of all vendors
RUNTIME = "runtime"  # the part that decides the bytes of a prebuilt runtime library
RUNTIME_SUFFIXES = (".c", ".h", ".S")


def own_code(package: Path, memo: Memo, part: str = "") -> Tool:
    """Return the part of our code that can change a byte of output, so that editing it changes keys.

    Without ``part`` that is the code of all steps; the parts of vendors are named by kind.
    """
    from gpubuild import __version__

    trees = part_files(package, part)
    now = time.time_ns()
    stats = [stat_of(f"{root}/{file}") for root, files in trees for file in files]
    seal = digest_bytes(encode((tuple(tuple(files) for _, files in trees), tuple(stats))))
    anchor = package / "__init__.py"  # the folder itself changes when Python is compiled
    known = memo.fact(f"own code {part}", anchor)
    if isinstance(known, list) and known[:1] == [seal]:
        fingerprint = str(known[1])
    else:
        fingerprint = digest_bytes(encode(tuple(tree_fingerprint(root, files) for root, files in trees)))
        if all(is_settled(stat, now) for stat in stats):
            memo.learn(f"own code {part}", anchor, [seal, fingerprint])
    return Tool(
        name=f"gpubuild/{part}" if part else "gpubuild",
        command=(str(package),),
        version=__version__,
        fingerprint=fingerprint,
        source="this Python environment",
    )


def part_files(package: Path, part: str = "") -> list[tuple[Path, list[str]]]:
    """Return the files of a part, sorted, each list with the folder that its names are relative to."""
    if part == RUNTIME:
        found = _sources(package, RUNTIME, RUNTIME_SUFFIXES)
        return [(package, sorted({*found, "toolchain/runtime_library.py"}))]
    if part == FACTS:
        return [(root, files[:1]) for root, files in (_vendor_files(package, v) for v in vendors())]
    if part:
        root, files = _vendor_files(package, vendor(part))
        return [(root, [file for file in files if file not in SHARED])]
    theirs = {file for v in vendors() for file in _vendor_files(package, v)[1]}
    code = {file for folder in ("engine", "model", "targets") for file in _sources(package, folder)}
    return [(package, sorted({*(code - theirs), *SHAPING, *SHARED}))]


def foreign_files(package: Path) -> set[str]:
    """Return the code of vendors outside the package."""
    found = (_vendor_files(package, v) for v in vendors() if not type(v).__module__.startswith(_INSIDE))
    return {f"{root}/{file}" for root, files in found for file in files}


def _vendor_files(package: Path, vendor: Vendor) -> tuple[Path, list[str]]:
    """Return the root folder of a vendor's code, and its modules: its facts, then its back end."""
    facts = type(vendor).__module__
    if facts.startswith(_INSIDE):
        root = package
        module, folder = (name.removeprefix(_INSIDE).replace(".", "/") for name in (facts, vendor.backend))
    else:
        root = Path(str(sys.modules[facts].__file__)).parents[facts.count(".")]
        module, folder = (name.replace(".", "/") for name in (facts, vendor.backend))
    return root, [f"{module}.py", *sorted(_sources(root, folder))]


def package_files(package: Path) -> Iterator[str]:
    """Yield all files and folders of the package except compiled Python."""
    for folder, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (f"{folder}/{name}" for name in (*folders, *files))


def _sources(package: Path, part: str, suffixes: tuple[str, ...] = (".py", ".ll")) -> Iterator[str]:
    """Yield the code files below a folder of the package, relative to the package."""
    for entry in os.scandir(package / part):
        if entry.is_dir():
            yield from _sources(package, f"{part}/{entry.name}", suffixes)
        elif entry.name.endswith(suffixes):
            yield f"{part}/{entry.name}"
