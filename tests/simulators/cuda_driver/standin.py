"""Build the stand-in of the CUDA driver, and run programs on it. It is no GPU."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from once import once
from shared_library import STRICT, shared_library
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
    paths = ":".join(str(p) for p in dict.fromkeys([TESTS, RUNTIME.parents[1]]))
    shared_library(
        folder / LIBRARY, sources, *STRICT, "-std=gnu11", "-O2", "-g", "-Wno-format-truncation",
        "-frounding-math", "-pthread", f'-DPYTHON="{sys.executable}"', f'-DPYTHON_PATH="{paths}"',
        f"-I{RUNTIME}", f"-I{CORE}",
        f"-Wl,-soname,{LIBRARY},--version-script={folder / 'exported'},-Bsymbolic,--no-undefined", "-ldl",
    )  # fmt: skip


def folder() -> Path:
    """Return the folder of the library."""
    return once("cuda-driver", build)


def environment(*devices: str, modules: Path, **more: str) -> dict[str, str]:
    """Return variables by which a program uses the stand-in with ``devices`` such as ``7.0``.

    ``modules`` is a folder for translated modules.
    """
    return {
        "LD_LIBRARY_PATH": str(folder()),
        "GPUBUILD_DEVICE": "cuda",
        "EMU_CUDA_DEVICES": ",".join(devices),
        "EMU_CUDA_MODULES": str(modules),
        **more,
    }


def translate(files: Iterable[Path], device: str, modules: Path) -> None:
    """Translate PTX that programs will load on ``device``, into the folder ``modules``."""
    make_all(files, f"sm_{device.replace('.', '')}", modules, folder() / LIBRARY)


def run(executable: Path, device: str, modules: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the stand-in with the variables ``more``."""
    variables = environment(device, modules=modules, **more)
    return subprocess.run(
        [executable], env=variables, capture_output=True, text=True, check=False, timeout=120
    )
