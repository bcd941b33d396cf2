"""Mutants: damaged .mlir, and the steps that they are put through."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TypedDict

from gpubuild.model.digest import digest_file
from gpubuild.model.job import Job, JobInput
from gpubuild.model.step import CompileParams, OutlineParams, Params, StepKind
from gpubuild.targets.amd import TRIPLE as ROCDL_TRIPLE
from gpubuild.targets.nvidia import TRIPLE as NVVM_TRIPLE
from gpubuild.targets.target import Target

TIMEOUT_SECONDS = 60.0


class Task(TypedDict):
    """One mutant and what to do with it; ``folder`` is not there yet."""

    source: str
    folder: str
    target: str
    opt_level: int


TARGETS = {
    "sm_60": ("nvvm", NVVM_TRIPLE, "sm_60"),
    "gfx90a": ("rocdl", ROCDL_TRIPLE, "gfx90a"),
    "cpu": ("cpu", "x86_64-unknown-linux-gnu", "x86-64-v3"),
}
# Words of a family may stand for each other: most such edits still parse and reach the back ends.
_FAMILIES = [
    family.split()
    for family in (
        "f32 f64 f16 bf16",
        "i32 i64 i16 i8 i1",
        "0 1 2 7 32 256 1024 1025 65536",
        "x y z",
        "slt ult eq ne sge uge",
        "arith.addf arith.subf arith.mulf arith.divf arith.remf arith.maximumf arith.minnumf",
        "arith.addi arith.subi arith.muli arith.divsi arith.remui arith.xori arith.shli",
        "gpu.thread_id gpu.block_id gpu.block_dim gpu.grid_dim gpu.global_id gpu.cluster_id",
        "math.exp math.log math.sin math.sqrt math.tanh math.erf math.cbrt math.floor",
        "add mul minnumf maxnumf minsi maxui and or xor",
        "memref.load memref.store",
    )
]
_FAMILY_WORD = re.compile(
    rf"(?<!\w)(?:{'|'.join(re.escape(w) for family in _FAMILIES for w in family)})(?!\w)"
)
_TOKEN = re.compile(r"[%@#!]?[A-Za-z0-9_.$]+|\S")


def mutate(text: str, chance: random.Random) -> str:
    """One to three small edits: what typing mistakes and bad merges look like."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        lines = text.split("\n")
        row = chance.randrange(len(lines))
        match chance.randrange(20):
            case 0:
                del lines[row]
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[row])
            case 2:
                other = chance.randrange(len(lines))
                lines[row], lines[other] = lines[other], lines[row]
            case 3:
                text = text[: chance.randrange(len(text))]
                continue
            case 4:
                place = chance.randrange(len(text))
                text = (
                    text[:place] + chance.choice('\0"{}()<>%@:,x9é\n') + text[place + chance.randrange(2) :]
                )
                continue
            case 5:
                tokens = list(_TOKEN.finditer(lines[row]))
                if tokens:
                    token, word = chance.choice(tokens), chance.choice(tokens)[0]
                    lines[row] = lines[row][: token.start()] + word + lines[row][token.end() :]
            case _:
                text = swap_word(text, chance)
                continue
        text = "\n".join(lines)
    return text


def swap_word(text: str, chance: random.Random) -> str:
    """Put a word of the same family in place of one occurrence of a word, or of all of them."""
    found: dict[str, list[re.Match[str]]] = {}
    for match in _FAMILY_WORD.finditer(text):
        found.setdefault(match[0], []).append(match)
    present = [(w, family) for family in _FAMILIES for w in family if w in found]
    if not present:
        return text
    old, family = chance.choice(present)
    places = found[old]
    new = chance.choice(family)
    for place in reversed(places if chance.random() < 0.5 else [chance.choice(places)]):
        text = text[: place.start()] + new + text[place.end() :]
    return text


def outline_job(source: Path, folder: Path) -> Job:
    """The step that reads and splits a source."""
    return _job(
        OutlineParams(source_name=source.name),
        StepKind.OUTLINE,
        ("source", source),
        folder,
        output_names=(),
        tools={},
    )


def compile_job(module: str, text: Path, task: Task, folder: Path, tools: dict[str, tuple[str, ...]]) -> Job:
    """The step that compiles one gpu.module for one target, down to machine code."""
    kind, triple, chip = TARGETS[task["target"]]
    return _job(
        CompileParams(
            module=module,
            target=Target(
                name=task["target"], kind=kind, triple=triple, chip=chip, opt_level=task["opt_level"]
            ),
        ),
        StepKind.COMPILE,
        ("module", text),
        folder,
        output_names=("llvm", "asm", "object", "info"),
        tools=tools,
    )


def _job(params: Params, kind: StepKind, source: tuple[str, Path], folder: Path, **options: object) -> Job:
    role, path = source
    folder.mkdir(parents=True)
    return Job(
        step_id=folder.name,
        kind=kind,
        params=params,
        inputs=(JobInput(name=role, path=path, digest=digest_file(path)),),
        workdir=folder,
        timeout_seconds=TIMEOUT_SECONDS,
        **options,  # type: ignore[arg-type]
    )
