"""A vendor is a folder of the runtime and a line in ``core/vendors.h``: nothing else changes."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from unit.runtime.programs import FLAGS, RUNTIME, Runtime, extra_flags

HERE = Path(__file__).parent
ALLOCATE = "mgpuMemFree(mgpuMemAlloc(16, None, 0), None)"
FIRST = "    X(CUDA, cuda, true) \\\n"


@pytest.fixture(scope="module")
def with_vendor(built_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    folder = tmp_path_factory.mktemp("vendor")
    root = folder / "runtime"
    shutil.copytree(RUNTIME, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "made_up").mkdir()
    shutil.copy(HERE / "made_up_device.c", root / "made_up")
    registry = root / "core" / "vendors.h"
    text = registry.read_text()
    assert FIRST in text
    registry.write_text(text.replace(FIRST, FIRST + "    X(MADE_UP, made_up, true) \\\n"))
    library = folder / "libgpubuild_rt.so"
    flags = [flag for flag in FLAGS if not flag.startswith("-I")]
    subprocess.run(
        ["cc", *flags, "-O0", *extra_flags(), f"-I{root}", "-shared", "-o", library, *root.glob("*/*.c"),
         *root.glob("*/*.S"), "-ldl", "-lm"],
        check=True,
    )  # fmt: skip
    return replace(built_runtime, library=library)


def test_its_images_and_devices_are_found(with_vendor: Runtime, tmp_path: Path) -> None:
    runtime = replace(with_vendor, scratch=tmp_path)
    done = runtime.run("load(0);" + ALLOCATE, b"MADE UP", GPUBUILD_TRACE="1").ok()
    assert "gpubuild: trace: not cuda: module (unnamed) has no image for it\n" in done.err
    assert "gpubuild: trace: device made_up:0\n" in done.err
    done = runtime.run("load(0);" + ALLOCATE, b"MADE UP", device="made_up:1", GPUBUILD_TRACE="1").ok()
    assert "gpubuild: trace: device made_up:1, as GPUBUILD_DEVICE says\n" in done.err
    done = runtime.run("load(0);" + ALLOCATE, b"MADE UP", device="cpu")
    assert "unknown chip (made-up format, 7 bytes): not a CPU image\n" in done.err
    done = runtime.run(ALLOCATE, device="made_up:x")
    assert "allowed are auto, cuda, cuda:N, made_up, made_up:N, hip, hip:N, cpu (N" in done.err
