"""Shared objects of C sources, made with the machine's compiler, or with zig's where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

STRICT = ("-Wall", "-Wextra", "-Werror")


def shared_library(output: Path, sources: Iterable[Path], *flags: str) -> None:
    """Compile and link ``sources``. Raises ``CalledProcessError``."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    command = [compiler] if compiler else [sys.executable, "-m", "ziglang", "cc"]
    subprocess.run(
        [*command, "-shared", "-fPIC", *flags, "-o", str(output), *map(str, sources), "-lm"], check=True
    )
