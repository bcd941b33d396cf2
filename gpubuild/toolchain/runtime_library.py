"""The runtime library: its sources, how they are compiled, and the archive that wheels contain.

Every user of a wheel links the same bytes: the archive is compiled once, by zig from PyPI, for the
oldest glibc that wheels support. Its name contains a digest of the sources and of this module, so an
archive of other sources is never used. A checkout has none, unless one is built by
``python -m gpubuild.toolchain.runtime_library``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild.errors import StepError
from gpubuild.toolchain.fingerprint import RUNTIME, RUNTIME_SUFFIXES, own_code
from gpubuild.toolchain.memo import Memo

if TYPE_CHECKING:
    from gpubuild.toolchain.run import ToolRun

ARCHIVE = "libgpubuild_rt.a"
MAKE = "python -m gpubuild.toolchain.runtime_library"
MACHINES = ("x86_64", "aarch64")  # of wheels
GLIBC = "2.17"  # the oldest that it runs with
_PACKAGE = Path(__file__).parents[1]
FOLDER = _PACKAGE / "runtime"
_FLAGS = ("-I.", "-std=c11", "-pthread", "-fPIC", "-g0", "-frandom-seed=0", "-fno-sanitize=undefined")
LIBRARIES = ("m", "dl", "pthread")  # that it is linked with
# Code that runs once, waits for a driver or prints: full optimisation takes a seventh of the compile time.
NEVER_HOT = (
    "core/", "cpu/cpu_chip.c", "cpu/cpu_module.c", "cuda/", "hip/", "mlir_utils/", "opencl/",
    "sanitizer/report.c",
)  # fmt: skip


def sources() -> dict[str, Path]:
    """Return the sources and headers by their names relative to the runtime's folder."""
    found = sorted(path for path in FOLDER.rglob("*") if path.suffix in RUNTIME_SUFFIXES)
    return {path.relative_to(FOLDER).as_posix(): path for path in found}


def compile_archive(
    folder: Path, names: Iterable[str], opt_level: int, run: Callable[[str, Sequence[str]], ToolRun]
) -> bytes:
    """Compile the sources among ``names``, files in ``folder``, and return an archive of the objects.

    ``run`` runs ``cc`` or ``ar`` in the folder. Raises ``StepError``.
    """
    objects = []
    for name in sorted(n for n in names if not n.endswith(".h")):
        level = min(opt_level, 1) if name.startswith(NEVER_HOT) else opt_level
        flags = (f"-O{level}", *_FLAGS, f"-ffile-prefix-map={folder}=.")
        made = run("cc", ["-c", *flags, "-o", f"{name}.o", name])
        if made.returncode < 0:
            made.check(f"compiling gpubuild's runtime ({name})")
        if made.returncode:
            raise StepError(
                f"cannot compile gpubuild's runtime ({name})",
                output=made.output,
                hint="gpubuild needs a C11 compiler for Linux; `gpubuild doctor` shows which one is used",
            )
        objects.append(f"{name}.o")
    if not objects:
        raise StepError("gpubuild's runtime has no sources: the installation is damaged")
    # s: an index; D: no times, owners or modes, so that equal objects give equal archives.
    run("ar", ["rcsD", ARCHIVE, *objects]).check("archive gpubuild's runtime")
    return (folder / ARCHIVE).read_bytes()


def prebuilt(machine: str, memo: Memo, folder: Path | None = None) -> Path:
    """Return the path that the archive of these sources for ``machine`` has, if there is one."""
    digest = own_code(_PACKAGE, memo, RUNTIME).fingerprint
    return (folder or FOLDER / "prebuilt") / machine / f"{digest[:16]}.a"


def build(machine: str, folder: Path | None = None) -> Path:
    """Compile the archive for ``machine`` and return its path. Raises ``StepError``."""
    import shutil
    from tempfile import TemporaryDirectory

    import ziglang

    from gpubuild.toolchain.run import run_tool

    zig = Path(ziglang.__path__[0]) / "zig"
    target = ("-target", f"{machine}-linux-gnu.{GLIBC}", "-mcpu=baseline")
    with TemporaryDirectory() as scratch:
        copy = Path(scratch) / "runtime"
        shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("prebuilt"))

        def run(tool: str, words: Sequence[str]) -> ToolRun:
            return run_tool([zig, tool, *target * (tool == "cc"), *words], cwd=copy)

        data = compile_archive(copy, sources(), 2, run)
    archive = prebuilt(machine, Memo(None), folder)
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(data)
    return archive


if __name__ == "__main__":
    print(build(os.uname().machine))
