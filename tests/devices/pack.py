"""Pack: a folder of compiled kernels and their arguments, which its ``run.py`` launches; its results."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
from devices import at_hand, runner
from e2e.cpu_harness import build_runtime
from unit.runtime import programs

RUN = "run.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch. Arrays become memrefs of device memory; one that is given twice is one memory."""

    kernel: str
    grid: int | Sequence[int]
    block: int | Sequence[int]
    args: tuple[np.ndarray | np.generic, ...]
    dynamic_bytes: int = 0
    cluster: int | Sequence[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The arguments after a launch and what it printed, or why it came to no end."""

    args: tuple[np.ndarray, ...] = ()
    printed: str = ""
    failed: str = ""


@dataclass(slots=True)
class Pack:
    """A pack that is being written, for devices of ``chip``."""

    folder: Path
    chip: str
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        build_runtime(self.folder)
        shutil.copy(Path(runner.__file__), self.folder / RUN)

    def add(self, name: str, image: bytes, launches: Sequence[Launch]) -> None:
        """``launches`` of kernels in ``image``; ``name`` is that of its file."""
        (self.folder / name).write_bytes(programs.container((self.chip, image), module="k"))
        with (
            (self.folder / runner.ARRAYS).open("ab") as arrays,
            (self.folder / runner.LAUNCHES).open("a") as lines,
        ):
            for launch in launches:
                line = {
                    "image": name,
                    "kernel": launch.kernel,
                    "grid": _three(launch.grid),
                    "block": _three(launch.block),
                    "cluster": _three(launch.cluster),
                    "dynamic_bytes": launch.dynamic_bytes,
                    "args": _save(arrays, launch.args),
                }
                lines.write(json.dumps(line) + "\n")
        self.count += len(launches)

    def add_executable(self, name: str, executable: Path, *, traced: bool) -> None:
        """A program, which runs alone; where ``traced`` with ``GPUBUILD_TRACE=1``."""
        folder = self.folder / runner.EXECUTABLES
        folder.mkdir(exist_ok=True)
        shutil.copy(executable, folder / name)
        line = {"name": name, "traced": traced}
        with (folder / runner.LIST).open("a") as lines:
            lines.write(json.dumps(line) + "\n")

    def run(self, kind: str) -> list[Result]:
        """What the launches make on a device of this machine, whose kind is that of ``at_hand``."""
        results = self.folder.with_name("results")
        command = [sys.executable, self.folder / RUN, results, "--device", kind]
        variables = (at_hand.opencl() or {}) if kind == at_hand.OPENCL else {}
        subprocess.run(command, check=False, env=os.environ | variables, timeout=600)
        return read_results(results)


def _three(sizes: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (sizes,) if isinstance(sizes, int) else tuple(int(size) for size in sizes)
    return (*sizes, 1, 1)[:3]


def _save(stream: IO[bytes], args: Sequence[np.ndarray | np.generic]) -> list[int]:
    """Where each is in the file; numbers are arrays of no dimension there."""
    places: dict[int, int] = {}
    for arg in args:
        if id(arg) not in places:
            places[id(arg)] = stream.tell()
            value = np.ascontiguousarray(arg) if isinstance(arg, np.ndarray) else np.array(arg)
            np.save(stream, value, allow_pickle=False)
    return [places[id(arg)] for arg in args]


def read_results(folder: Path) -> list[Result]:
    """What ``run.py`` wrote, in the order of the launches."""
    found = []
    with (folder / runner.ARRAYS).open("rb") as arrays:
        for line in (folder / runner.RESULTS).read_text().splitlines():
            one = json.loads(line)
            if "failed" in one:
                found.append(Result(failed=one["failed"]))
                continue
            args = []
            for offset in one["args"]:
                arrays.seek(offset)
                args.append(np.load(arrays, allow_pickle=False))
            found.append(Result(args=tuple(args), printed=one["printed"]))
    return found


def read_executables(folder: Path) -> dict[str, dict]:
    """What executables did, by name: ``code``, ``out`` and ``err``."""
    file = folder / f"{runner.EXECUTABLES}.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return {one["name"]: one for one in map(json.loads, lines)}
