"""Upstream's GPU integration programs: found in a checkout of llvm-project, built unchanged, and run.

A checkout says itself how each is compiled and what it prints: in its RUN and CHECK lines.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.command import gpubuild, without_settings
from simulators.cuda_driver import standin

FOLDER = "mlir/test/Integration/GPU"
GROUPS = ("CUDA", "ROCM")
OPENCL_GROUPS = ("SYCL", *GROUPS)  # Vulkan, SPIRV and LevelZero have no target here
TARGETS = ("sm_60", "sm_80", "sm_90a", "gfx90a", "gfx942", "gfx1100", "cpu")
OPENCL_TARGETS = ("spirv",)
# What upstream runs before a program's kernels are outlined, where it is more than a lowering of ours.
_PASSES = {
    "-transform-interpreter": "transform-interpreter",
    "-convert-vector-to-gpu": "convert-vector-to-gpu",
}
_MAIN = re.compile(r"^\s*(?:func\.func|llvm\.func) @main\(", re.MULTILINE)
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One of a program's RUN commands: whether it runs it, and the prefixes that check what it prints."""

    runs: bool
    prefixes: tuple[str, ...]  # none: nothing is checked


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamProgram:
    """One file. ``name`` is its path below the folder, without suffix, such as ``CUDA/shuffle``."""

    name: str
    file: Path
    text: str

    @property
    def commands(self) -> tuple[Command, ...]:
        """What the RUN lines say, which continue at a backslash."""
        lines = re.findall(r"^\s*// RUN: ?(.*)$", self.text, re.MULTILINE)
        joined = "\n".join(lines).replace("\\\n", " ")
        return tuple(_command(line) for line in joined.splitlines() if "mlir-" in line)

    @property
    def passes(self) -> str:
        """The pipeline for ``passes: {source: …}``; empty where there is none."""
        found = [name for flag, name in _PASSES.items() if re.search(rf"RUN:.*\s-?{flag}\b", self.text)]
        return f"builtin.module({','.join(found)})" if found else ""

    @property
    def has_main(self) -> bool:
        return _MAIN.search(self.text) is not None

    @property
    def id(self) -> str:
        """A name for ``targets.yaml``."""
        return self.name.replace("/", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The targets for which a program builds, and the errors of the others; "" stands for all targets."""

    targets: tuple[str, ...]
    reasons: Mapping[str, str]


def _command(line: str) -> Command:
    check = re.search(r"FileCheck %s(.*)", line)
    given = re.search(r"--check-prefix(?:es)?[= ](\S+)", check[1]) if check else None
    prefixes = tuple(given[1].split(",")) if given else ("CHECK",)
    return Command(runs="mlir-runner" in line, prefixes=prefixes if check else ())


def discover(checkout: Path, groups: tuple[str, ...] = GROUPS) -> list[UpstreamProgram]:
    """The programs of a checkout, in the order of their names."""
    files = sorted(f for group in groups for f in (checkout / FOLDER / group).rglob("*.mlir"))
    return [
        UpstreamProgram(
            name=str(file.relative_to(checkout / FOLDER).with_suffix("")), file=file, text=file.read_text()
        )
        for file in files
    ]


def build(
    programs: list[UpstreamProgram], project: Path, targets: tuple[str, ...] = TARGETS
) -> dict[str, Built]:
    """Build all in one project: at first for every target, then for those that take it, which links it."""
    for program in programs:
        (project / f"{program.id}.mlir").write_text(program.text)
    entries: dict[str, dict[str, object]] = {}
    for p in programs:
        entries[p.id] = {"sources": [f"{p.id}.mlir"], "targets": list(targets)}
        if p.passes:
            entries[p.id]["passes"] = {"source": p.passes}
    first = _build(entries, project, targets)
    built = {p.id: _built(p, first, targets) for p in programs}
    linked = {i: {**e, "targets": list(built[i].targets)} for i, e in entries.items() if built[i].targets}
    _build(linked, project, targets)
    return built


def _build(
    entries: dict[str, dict[str, object]], project: Path, targets: tuple[str, ...]
) -> dict[str, object]:
    document = {"version": 1, "targets": {name: {} for name in targets}, "programs": entries}
    (project / "targets.yaml").write_text(json.dumps(document))
    return dict(gpubuild("build", "-k", "--json", cwd=project, seeded=True).document)


def _built(program: UpstreamProgram, document: dict[str, object], targets: tuple[str, ...]) -> Built:
    steps: list[dict[str, object]] = document["steps"]  # type: ignore[assignment]
    prefix = f"{program.id}/compile/"
    states: dict[str, set[str]] = {}
    for step in steps:
        if str(step["id"]).startswith(prefix):
            states.setdefault(str(step["id"]).rpartition("/")[2], set()).add(str(step["status"]))
    good = tuple(t for t in targets if states.get(t) and not states[t] & {"failed", "skipped"})
    return Built(targets=good, reasons=_reasons(program, steps))


def _reasons(program: UpstreamProgram, steps: list[dict[str, object]]) -> dict[str, str]:
    """What each target that does not take it says first; the empty name stands for all of them."""
    found: dict[str, str] = {}
    for step in steps:
        mine = str(step["id"]).startswith((f"{program.id}/compile/", f"outline/{program.id}.mlir"))
        if mine and step["status"] == "failed":
            error: dict[str, str] = step["error"]  # type: ignore[assignment]
            first = re.search(r"error: (.*)", error["text"])
            found[str(step.get("target") or "")] = first[1] if first else error["message"]
    return found


def _file_check() -> Path:
    spec = importlib.util.find_spec("llvm")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "bin" / "FileCheck"


def on_stand_in(program: UpstreamProgram, built: Built, project: Path) -> dict[str, str]:
    """Variables with which it runs on the stand-in of the CUDA driver, as the oldest chip that it builds for.

    Where it has no PTX for newer devices, that beside its cubin is taken.
    """
    chip = next(target for target in built.targets if target.startswith("sm_"))
    device = ".".join(re.findall(r"(\d+)(\d)", chip)[0])
    return standin.environment(
        device, modules=project / "modules", EMU_CUDA_BUILD=str(project / "build" / program.id)
    )


def run(program: UpstreamProgram, project: Path, device: str, **more: str) -> str:
    """How it ends on ``device``: ``as checked``, ``ends`` where upstream checks nothing, or what is wrong."""
    executable = project / "build" / program.id / program.id
    clean = without_settings()
    try:
        done = subprocess.run(
            [executable],
            env=clean | {"GPUBUILD_DEVICE": device, **more},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"has not ended after {_TIMEOUT_SECONDS} s"
    if done.returncode:
        return f"ends with code {done.returncode}: {done.stderr.splitlines()[0].removeprefix('gpubuild: ')}"
    prefixes = [c.prefixes for c in program.commands if c.runs and c.prefixes]
    # Some check lines are unused: the command that runs the program does not end in FileCheck.
    chosen = prefixes[0] if prefixes else ("CHECK",)
    if not any(re.search(rf"{prefix}(-[A-Z0-9-]+)?:", program.text) for prefix in chosen):
        return "ends"
    check = subprocess.run(
        [_file_check(), program.file, "--check-prefixes", ",".join(chosen)],
        input=done.stdout,
        capture_output=True,
        text=True,
        check=False,
    )
    return "as checked" if check.returncode == 0 else "prints something else"
