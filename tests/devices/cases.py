"""Cases: kernels that are compiled for a chip, launched elsewhere, and judged by what comes back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devices.pack import Launch, Pack, Result
from e2e import cpu_harness
from kernels.operations.groups import GROUPS
from kernels.program import AMD, AMD_OLD, CPU, NVIDIA, NVIDIA_OLD, Program, module_text
from kernels.random import launch as random_launch
from kernels.random.kernel import RandomKernel
from kernels.random.kernel import module_text as random_text
from kernels.random.launch import shapes
from op_coverage.compiling import check
from unit.engine.device_steps import ChildCrashedError, compile_module, in_child

from gpubuild.errors import StepError

PER_MODULE = 100  # random kernels


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One launch; ``judge`` raises ``AssertionError`` when its result is wrong."""

    name: str
    launch: Launch
    judge: Callable[[Result], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Kernels of one module. ``cases`` are those of each of ``kernels``; ``text`` is a module of some."""

    name: str
    chip: str
    kernels: Sequence[Any]
    text: Callable[[Sequence[Any]], str]
    cases: Sequence[Sequence[Case]]


def fill(pack: Pack, batches: Iterable[Batch], scratch: Path, **options: object) -> list[Case]:
    """Compile all and put them into ``pack``: a batch at once, else each kernel alone."""
    cases = []
    for batch in batches:
        try:
            parts = [(compile_for(batch.chip, batch.text(batch.kernels), scratch, **options), batch.cases)]
        except (StepError, ChildCrashedError) as error:
            print(f"{batch.name}: one by one, as {error}", file=sys.stderr)
            parts = [
                (compile_for(batch.chip, batch.text([kernel]), scratch, **options), [of_one])
                for kernel, of_one in zip(batch.kernels, batch.cases, strict=True)
            ]
        for number, (image, of_part) in enumerate(parts):
            flat = [case for of_one in of_part for case in of_one]
            pack.add(f"{batch.name}.{number}", image, [case.launch for case in flat])
            cases += flat
    return cases


def compile_for(chip: str, text: str, scratch: Path, **options: object) -> bytes:
    """The device code of a ``gpu.module``. Raises ``StepError``, or ``ChildCrashedError``."""
    if target_of(chip) != CPU:
        return compile_module(text, chip, **options).object
    out = in_child(cpu_harness.compile_module, text, scratch / "cpu", chip=chip, **options)
    return (out / "object").read_bytes()


def target_of(chip: str) -> str:
    """The column of docs/reference/coverage.md with the operations that this chip refuses."""
    if chip.startswith("sm_"):
        return NVIDIA if int("".join(filter(str.isdigit, chip))) >= 90 else NVIDIA_OLD
    if chip.startswith("gfx"):
        return AMD if chip.startswith("gfx94") else AMD_OLD
    return CPU


def operations(chip: str, groups: Iterable[str] = tuple(GROUPS)) -> Iterator[Batch]:
    """The programs of docs/reference/coverage.md that ``chip`` can run."""
    target = target_of(chip)
    for number, group in enumerate(groups):
        by_chip: dict[str, list[Program]] = {}
        for program in GROUPS[group]:
            needed = program.chips.get(target, chip)
            if program.runs and target not in program.refused and needed in (chip, f"{chip}a"):
                by_chip.setdefault(needed, []).append(program)
        for needed, programs in by_chip.items():
            yield Batch(
                name=f"operations{number}.{needed}",
                chip=needed,
                kernels=programs,
                text=module_text,
                cases=[[operation(program)] for program in programs],
            )


def operation(program: Program) -> Case:
    def judge(result: Result) -> None:
        check(program, dict(zip(program.args, result.args, strict=True)))
        if program.prints:
            assert result.printed == program.prints

    launch = Launch(
        kernel=program.name,
        grid=program.grid,
        block=program.block,
        cluster=program.cluster,
        dynamic_bytes=program.dynamic_bytes,
        args=tuple(program.args.values()),
    )
    return Case(name=program.name, launch=launch, judge=judge)


def random_kernels(chip: str, seeds: range) -> Iterator[Batch]:
    """The kernels of tests/kernels/random/kernel.py, whose subgroups have 32 work-items."""
    for first in range(seeds.start, seeds.stop, PER_MODULE):
        numbers = range(first, min(first + PER_MODULE, seeds.stop))
        kernels = {number: RandomKernel(number, f"k{number}") for number in numbers}
        if chip.startswith("gfx9"):
            kernels = {number: kernel for number, kernel in kernels.items() if not kernel.subgroups}
        yield Batch(
            name=f"random{first}",
            chip=chip,
            kernels=list(kernels.values()),
            text=lambda some: random_text(list(some)),
            cases=[list(random_cases(kernel, number)) for number, kernel in kernels.items()],
        )


def random_cases(kernel: RandomKernel, number: int) -> Iterator[Case]:
    for shape in shapes(kernel, number):
        described = random_launch.Launch.of(kernel, number, shape)

        def judge(result: Result, described=described) -> None:
            wrong = described.difference(dict(zip(random_launch.ORDER, result.args, strict=True)))
            assert not wrong, wrong

        launch = Launch(kernel=f"k{number}", grid=described.grid, block=shape, args=described.values)
        yield Case(name=f"random kernel {number} {shape}", launch=launch, judge=judge)


def wrong(cases: Sequence[Case], results: Sequence[Result]) -> dict[str, str]:
    """Return why each wrong result is wrong, by the name of its case."""
    found = {}
    for case, result in zip(cases, results, strict=True):
        try:
            assert not result.failed, result.failed
            case.judge(result)
        except AssertionError as error:
            found[case.name] = f"{case.name}: {error}"
    return found
