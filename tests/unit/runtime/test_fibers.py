"""The switch between the stacks of work-items, on this processor and on AArch64."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from unit.runtime.programs import HERE, RUNTIME, compile_c

FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{RUNTIME}")
SOURCES = (HERE / "fibers.c", RUNTIME / "cpu/cpu_fiber.c", *RUNTIME.glob("cpu/*.S"))


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_this_processor(tmp_path: Path, level: str) -> None:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    more = (RUNTIME / f"core/{name}.c" for name in ("message", "location", "environment", "process"))
    flags = (*FLAGS, level, "-pthread")
    program = compile_c(tmp_path / "fibers", *SOURCES, *more, flags=flags)
    assert subprocess.run([program], check=False).returncode == 0


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_aarch64(tmp_path: Path, level: str) -> None:
    """Without a C library, for which zig would take half a minute the first time."""
    emulator = next(filter(None, map(shutil.which, ("qemu-aarch64-static", "qemu-aarch64"))), None)
    if emulator is None and platform.machine() != "aarch64":
        pytest.skip("no AArch64: neither this machine nor qemu-aarch64 (Debian: qemu-user-static)")
    program = tmp_path / "fibers"
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl"]
    alone = ("-DFREESTANDING", "-ffunction-sections", "-fno-sanitize=all", "-fno-stack-protector")
    objects = []
    for source in SOURCES:
        objects.append(tmp_path / f"{source.name}.o")
        subprocess.run([*compiler, *FLAGS, level, *alone, "-c", source, "-o", objects[-1]], check=True)
    linker = [sys.executable, "-m", "ziglang", "ld.lld", "--gc-sections", "-static", "-e", "_start"]
    subprocess.run([*linker, *objects, "-o", program], check=True)
    assert subprocess.run([*([emulator] if emulator else []), program], check=False).returncode == 0
