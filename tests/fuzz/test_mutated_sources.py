"""Damaged .mlir through the real engine: no hang, no dead executor, always a result or a message.

GPUBUILD_TEST_MUTANTS (default 400; CI sets 1000) sets how many; the seed is fixed, so a failure repeats.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from gpubuild.errors import GpubuildError, StepCrashedError, StepError
from gpubuild.execute.local import LocalExecutor
from gpubuild.model.digest import digest_file
from gpubuild.model.job import Job, JobInput, JobResult
from gpubuild.model.params import CompileParams, OutlineParams, Params
from gpubuild.model.step import StepKind
from gpubuild.model.target import NVVM_TRIPLE, ROCDL_TRIPLE, Kind
from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "examples").glob("*/*.mlir"))
MUTANTS = int(os.environ.get("GPUBUILD_TEST_MUTANTS", "400"))
TIMEOUT_SECONDS = 60.0
BATCH = 50

TARGETS = {
    "sm_60": (Kind.NVVM, NVVM_TRIPLE, "sm_60"),
    "gfx90a": (Kind.ROCDL, ROCDL_TRIPLE, "gfx90a"),
    "cpu": (Kind.CPU, "x86_64-unknown-linux-gnu", "x86-64-v3"),
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
    present = [(w, family) for family in _FAMILIES for w in family if re.search(rf"(?<!\w){w}(?!\w)", text)]
    if not present:
        return text
    old, family = chance.choice(present)
    places = list(re.finditer(rf"(?<!\w){old}(?!\w)", text))
    new = chance.choice(family)
    for place in reversed(places if chance.random() < 0.5 else [chance.choice(places)]):
        text = text[: place.start()] + new + text[place.end() :]
    return text


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor(2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def tools() -> dict[str, tuple[str, ...]]:
    chain = Toolchain(Settings())
    return {name: chain.require(name).command for name in ("ptxas", "libdevice", "ld.lld")}


def job(params: Params, kind: StepKind, source: tuple[str, Path], folder: Path, **options: object) -> Job:
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


def judge(future: Future[JobResult], what: str) -> JobResult | None:
    """A result, or ``None`` after an error that says something. Anything else fails the test."""
    try:
        return future.result(timeout=0)
    except StepCrashedError as error:
        assert "timed out" not in error.message, f"{what} hangs"
        assert error.stage, f"{what}: a crash must name its stage: {error.render()}"
        return None
    except StepError as error:
        assert error.message.strip(), what
        assert "Traceback" not in error.output, f"{what}: a mistake of ours:\n{error.render()}"
        if error.stage == "parse" and error.diagnostics:
            assert error.diagnostics[0].location is not None, f"{what}: {error.render()}"
        return None
    except GpubuildError as error:
        assert error.message.strip(), what
        return None


@pytest.mark.parametrize("batch", range((MUTANTS + BATCH - 1) // BATCH))
def test_mutants(
    batch: int, executor: LocalExecutor, tools: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    chance = random.Random(1000 + batch)
    parses = compiles = 0
    outlines = []
    for number in range(min(BATCH, MUTANTS - batch * BATCH)):
        source = tmp_path / f"m{number}.mlir"
        source.write_text(mutate(chance.choice(SOURCES).read_text(), chance))
        step = job(
            OutlineParams(source_name=source.name),
            StepKind.OUTLINE,
            ("source", source),
            tmp_path / f"outline{number}",
            output_names=(),
            tools={},
        )
        outlines.append((source, step, executor.submit(step)))
    wait([future for _, _, future in outlines])
    compiled = []
    for number, (source, step, future) in enumerate(outlines):
        if judge(future, str(source)) is None:
            continue
        parses += 1
        index = json.loads((step.workdir / "out/index.json").read_text())
        for module in index["modules"]:
            name = chance.choice(list(TARGETS))
            kind, triple, chip = TARGETS[name]
            text = step.workdir / f"out/module.{module['index']}.mlir"
            compiling = job(
                CompileParams(module=module["name"], kind=kind, triple=triple, chip=chip, target=name),
                StepKind.COMPILE,
                ("module", text),
                tmp_path / f"compile{number}.{module['index']}.{name}",
                output_names=("llvm", "asm", "object", "info"),
                tools=tools,
            )
            compiled.append((f"{source} for {name}", executor.submit(compiling)))
    wait([future for _, future in compiled])
    for what, future in compiled:
        compiles += judge(future, what) is not None
    shutil.rmtree(tmp_path, ignore_errors=True)
    # If nothing got through, the mutations would test the parser only.
    assert parses >= BATCH // 10
    assert compiles >= 1
