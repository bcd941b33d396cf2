"""The stand-in of the CUDA driver, built, and what a program's environment needs to find it. It is no GPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from once import once
from simulators.cuda_driver.module import make_all

import gpubuild

HERE = Path(__file__).parent
TESTS = HERE.parents[1]
CORE = HERE.parent / "device_ir"
RUNTIME = Path(gpubuild.__file__).parent / "runtime"
LIBRARY = "libcuda.so.1"
NAME = "PTX on the host's processor, no GPU"  # of a device
_CORE = ("core.c", "items.c", "nvidia*.c")
# Others in the process have functions of these names, too.
_EXPORTED = "{ global: cu[A-Z]*; cuda_check; emu_*; nv_*; local: *; };\n"


def build(folder: Path) -> None:
    """Compile ``libcuda.so.1``."""
    (folder / "exported").write_text(_EXPORTED)
    sources = [
        *sorted(HERE.glob("*.c")),
        *(path for name in _CORE for path in sorted(CORE.glob(name))),
        RUNTIME / "cpu" / "cpu_fiber.c",
        *RUNTIME.glob("cpu/*.S"),
    ]
    compiler = shutil.which("cc") or shutil.which("gcc")
    command = [compiler] if compiler else [sys.executable, "-m", "ziglang", "cc"]
    paths = ":".join(str(p) for p in dict.fromkeys([TESTS, RUNTIME.parents[1]]))
    subprocess.run(
        [*command, "-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror",
         "-Wno-format-truncation", "-frounding-math", "-shared", "-fPIC",
         "-pthread", f'-DPYTHON="{sys.executable}"', f'-DPYTHON_PATH="{paths}"', f"-I{RUNTIME}", f"-I{CORE}",
         f"-Wl,-soname,{LIBRARY},--version-script={folder / 'exported'},-Bsymbolic,--no-undefined",
         "-o", str(folder / LIBRARY), *map(str, sources), "-lm", "-ldl"],
        check=True,
    )  # fmt: skip


def folder() -> Path:
    """Where the library lies."""
    return once("cuda-driver", build)


def environment(*devices: str, modules: Path, **more: str) -> dict[str, str]:
    """Variables with which a program finds the stand-in with ``devices`` such as ``7.0``.

    ``modules`` is a folder that keeps what was translated.
    """
    return {
        "LD_LIBRARY_PATH": str(folder()),
        "GPUBUILD_DEVICE": "cuda",
        "EMU_CUDA_DEVICES": ",".join(devices),
        "EMU_CUDA_MODULES": str(modules),
        **more,
    }


def translate(files: Iterable[Path], device: str, modules: Path) -> None:
    """Have ``modules`` filled for PTX that programs will load on ``device``."""
    make_all(files, f"sm_{device.replace('.', '')}", modules, folder() / LIBRARY)


def run(executable: Path, device: str, modules: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the stand-in; ``more`` are further variables."""
    variables = environment(device, modules=modules, **more)
    return subprocess.run(
        [executable], env=variables, capture_output=True, text=True, check=False, timeout=120
    )
