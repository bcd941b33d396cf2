"""The peer of cold builds: ninja, upstream's mlir-opt and clang, on the sources of a generated project.

One process of `mlir-opt` per source and vendor makes the kernels' objects (`gpu-module-to-binary`, with the
ptxas, libdevice and ld.lld that gpubuild uses). Host code comes from NVIDIA's: `mlir-translate`, then clang.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

from elftools.elf.elffile import ELFFile

from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain

CHIPS = {"nvidia": ("sm_60", "sm_90"), "amd": ("gfx90a",)}
_TO_LLVM = "convert-index-to-llvm,reconcile-unrealized-casts"
_HOST = (
    ",func.func(gpu-async-region),convert-scf-to-cf,expand-strided-metadata,lower-affine,gpu-to-llvm,"
    "convert-to-llvm,reconcile-unrealized-casts"
)
_OBJECT = re.compile(r'chip = "(?P<chip>\w+)".*?bin = "(?P<bytes>(?:[^"\\]|\\.)*)"', re.DOTALL)
_BINARY = re.compile(r"gpu\.binary @(?P<module>\w+) (?P<objects>.*)")
_ESCAPED = re.compile(rb'\\([0-9A-F]{2}|[\\"nt])')
_ESCAPES = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}


def tools(folder: Path | None) -> tuple[dict[str, str], list[str]]:
    """Return the programs by name, and a line for each one that is missing.

    ``folder`` has mlir-opt and mlir-translate. Those of PyPI have no AMDGPU; Debian's mlir-22-tools does.
    """
    spec = importlib.util.find_spec("mlir")
    folders = [Path(f) / "bin" for f in (spec.submodule_search_locations or ())] if spec else []
    folders = [folder] if folder else [Path("/usr/lib/llvm-22/bin"), *folders]
    path = os.pathsep.join(map(str, folders))
    found = {name: shutil.which(name, path=path) or "" for name in ("mlir-opt", "mlir-translate")}
    found["ninja"] = shutil.which("ninja") or ""
    found["clang"] = shutil.which("clang-22") or shutil.which("clang") or ""
    return found, [f"no {name}: left out" for name, program in found.items() if not program]


class Upstream:
    """The peer's build of one project, and its compile of one file."""

    def __init__(self, programs: Mapping[str, str], toolkit: Path) -> None:
        self._programs = programs
        self._toolkit = toolkit
        chain = Toolchain(Settings())
        links = {
            "bin/ptxas": "ptxas",
            "nvvm/libdevice/libdevice.10.bc": "libdevice",
            "llvm/bin/ld.lld": "ld.lld",
        }
        for place, name in links.items():
            link = toolkit / place
            link.parent.mkdir(parents=True, exist_ok=True)
            command = chain.require(name).command
            if len(command) == 1:
                link.symlink_to(command[0])
            else:
                link.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
                link.chmod(0o755)
        (toolkit / "amdgcn/bitcode").mkdir(parents=True)

    def supports(self, vendor: str, folder: Path) -> bool:
        """Return whether this mlir-opt has the vendor's code generator."""
        (folder / "empty.mlir").write_text("gpu.module @m {}\n")
        command = self.compile_command("empty.mlir", vendor, CHIPS[vendor])
        return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0

    def compile_command(self, file: str, vendor: str, chips: tuple[str, ...], *, host: str = "") -> list[str]:
        """Return the command of mlir-opt that makes the objects of one file for chips of one vendor."""
        if vendor == "nvidia":
            attach, convert = "nvvm-attach-target", "convert-gpu-to-nvvm"
        else:
            attach, convert = "rocdl-attach-target", f"convert-gpu-to-rocdl{{chipset={chips[0]}}}"
        passes = [f"{attach}{{chip={chip} O=3}}" for chip in chips]
        passes.append(f"gpu.module({convert},{_TO_LLVM})")
        passes.append(f"gpu-module-to-binary{{toolkit={self._toolkit} format=bin}}{host}")
        return [self._programs["mlir-opt"], f"--pass-pipeline=builtin.module({','.join(passes)})", file]

    def write_ninja(self, project: Path, files: int) -> None:
        """Write build.ninja: `ninja` then builds everything."""
        lines = []
        for vendor, chips in CHIPS.items():
            host = _HOST if vendor == "nvidia" else ""
            command = " ".join(f"'{part}'" for part in self.compile_command("$in", vendor, chips, host=host))
            lines += [
                f"rule {vendor}",
                f"  command = {command.replace(chr(39) + '$in' + chr(39), '$in')} -o $out",
            ]
        clang = f"{self._programs['clang']} -O2 -Wno-override-module"
        lines += [
            "rule translate",
            f"  command = {self._programs['mlir-translate']} --mlir-to-llvmir $in -o $out",
            "rule cc",
            f"  command = {clang} -c $in -o $out",
            "rule link",
            f"  command = {clang} $in -Wl,--unresolved-symbols=ignore-all -o $out",
            "build main.o: cc main.c",
        ]
        for f in range(files):
            lines += [f"build file{f}.{vendor}.out: {vendor} file{f}.mlir" for vendor in CHIPS]
            lines += [f"build file{f}.ll: translate file{f}.nvidia.out", f"build file{f}.o: cc file{f}.ll"]
        lines.append(f"build app: link main.o {' '.join(f'file{f}.o' for f in range(files))}")
        (project / "build.ninja").write_text("\n".join(lines) + "\n")


def objects(project: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield module, chip and bytes of each object in the peer's files; NVIDIA's host code has no binaries."""
    for file in sorted(project.glob("*.out")):
        for binary in _BINARY.finditer(file.read_text()):
            for found in _OBJECT.finditer(binary["objects"]):
                yield binary["module"], found["chip"], _ESCAPED.sub(_unescaped, found["bytes"].encode())


def _unescaped(match: re.Match[bytes]) -> bytes:
    return _ESCAPES.get(match[1]) or bytes([int(match[1], 16)])


def compare(project: Path, ours: Path) -> tuple[int, int]:
    """Return the number of objects, and of those with equal bytes. Raises where a pair differs in kind.

    Of each pair, the names of allocated sections must be equal, and the sizes of code within a factor of two.
    """
    pairs = {(module, chip): data for module, chip, data in objects(project)}
    suffix = {chip: "cubin" if vendor == "nvidia" else "hsaco" for vendor in CHIPS for chip in CHIPS[vendor]}
    equal = 0
    for (module, chip), theirs in pairs.items():
        own = (ours / f"{module}.{chip}.{suffix[chip]}").read_bytes()
        left, right = _sections(own), _sections(theirs)
        code = [
            sum(size for name, size in each.items() if name.startswith(".text")) for each in (left, right)
        ]
        if left.keys() != right.keys() or not 0.5 <= code[0] / code[1] <= 2:
            raise SystemExit(f"{module} for {chip}: sections differ: {left} and {right}")
        equal += own == theirs
    return len(pairs), equal


def _sections(data: bytes) -> dict[str, int]:
    return {s.name: s.data_size for s in ELFFile(BytesIO(data)).iter_sections() if s["sh_flags"] & 2}


class PeakMemory(threading.Thread):
    """The most memory that a process and its descendants have at once: the sum of their PSS, in MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._root, self.peak, self.over = pid, 0.0, False

    def run(self) -> None:
        while not self.over:
            self.peak = max(self.peak, sum(map(_pss, _tree(self._root))) / 1000)
            time.sleep(0.01)


def _tree(root: int) -> Iterator[int]:
    yield root
    try:
        children = Path(f"/proc/{root}/task/{root}/children").read_text().split()
    except OSError:
        return
    for child in children:
        yield from _tree(int(child))


def _pss(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0.0)
