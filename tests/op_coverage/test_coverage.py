"""Every operation of the table: compiled for each target, run on the CPU, compared with NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from e2e.cpu_harness import Device, Module, build_runtime
from kernels.operations.groups import GROUPS
from kernels.program import CPU, GPUS, Program, module_text
from op_coverage import table
from op_coverage.compiling import (
    ALL_ROWS,
    check,
    chip_of,
    compile_for,
    device_ir,
    each_operation,
    in_sample,
    rows_for,
    run,
)
from variants import nightly

from gpubuild.errors import StepError

CASES = [(group, program) for group, programs in GROUPS.items() for program in programs]
NAMES = [program.name for _, program in CASES]


ON_THE_CPU = {
    group: each_operation(p for p in programs if CPU not in p.refused) for group, programs in GROUPS.items()
}


def cases(condition: Callable[[Program], object]) -> list:
    """Rows that the CPU runs and for which ``condition`` holds."""
    return [
        pytest.param(group, program, id=program.name)
        for group, programs in ON_THE_CPU.items()
        for program in programs
        if program.runs and condition(program)
    ]


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("coverage")


def level_of(program: Program, *, broken: bool) -> int:
    """What LLVM makes of these rows is tested elsewhere, and what is changed on purpose need not be fast."""
    return 3 if not broken and in_sample(program, 64) else 0


def is_changed(program: Program) -> bool:
    """Whether it is changed on purpose, too."""
    return bool(program.breaks) and in_sample(program, 16)


@pytest.fixture(scope="session")
def device(folder) -> Device:
    return Device(build_runtime(folder))


@pytest.fixture(scope="session")
def built(folder, device):
    """Compiles a program for the CPU together with its group; alone when the group as a whole fails."""

    @cache
    def whole(group: str, broken: bool, level: int) -> Module | None:
        together = [
            p
            for p in ON_THE_CPU[group]
            if (is_changed(p) or not broken) and level_of(p, broken=broken) == level
        ]
        place = folder / f"{group}.{'broken' if broken else 'whole'}.{level}"
        try:
            return device.load(compile_for(CPU, module_text(together, broken=broken), place, opt_level=level))
        except Exception as error:
            print(f"{group}: {error}", file=sys.stderr)
            return None

    def give(group: str, program: Program, *, broken: bool = False) -> Module:
        if module := whole(group, broken, level_of(program, broken=broken)):
            return module
        alone = folder / f"{program.name}.{'broken' if broken else 'whole'}"
        return device.load(compile_for(CPU, module_text([program], broken=broken), alone))

    return give


def test_names_are_unique():
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize("target", GPUS)
@pytest.mark.parametrize("group", GROUPS)
def test_compiles(group, target):
    """All rows of a group at once for each chip that it needs; one by one when that fails."""
    programs = rows_for(group, target)
    failing = {}
    for chip in dict.fromkeys(chip_of(p, target) for p in programs):
        together = [p for p in programs if chip_of(p, target) == chip]
        try:
            device_ir(chip, module_text(together), opt_level=3)
        except Exception as error:
            failing[f"{group} for {chip}"] = str(error)
            failing |= {p.name: said for p in together if (said := failure(p, chip))}
    assert failing == {}


def failure(program: Program, chip: str) -> str:
    """Why a program alone does not compile; empty when it does."""
    try:
        device_ir(chip, module_text([program]), opt_level=3)
    except Exception as error:
        return str(error)
    return ""


def refusals() -> list:
    """Programs by what is said of them: one compile serves all that are refused alike."""
    found: dict[tuple[str, str, str], list[Program]] = {}
    for group, program in CASES:
        for target, reason in program.refused.items():
            found.setdefault((group, target, reason), []).append(program)
    cases, seen = [], set()
    for (group, target, reason), programs in found.items():
        # The chips of a vendor differ in what they refuse, hardly in how.
        alike = (reason, target[:2])
        marks = [nightly] if alike in seen else []
        seen.add(alike)
        name = f"{target}-{programs[0].name}"
        cases.append(pytest.param(group, target, reason, programs, id=name, marks=marks))
    return cases


@pytest.mark.parametrize(("group", "target", "reason", "programs"), refusals())
def test_is_refused_with_the_reason_in_the_table(folder, group, target, reason, programs):
    # Alone as well, nightly; one program is not compiled twice.
    for together in (programs, programs[:1])[: len(programs) if ALL_ROWS else 1]:
        with pytest.raises(StepError) as caught:
            compile_for(target, module_text(together), folder / f"{programs[0].name}.{target}")
        error = caught.value
        said = [d.message for d in error.diagnostics if reason in d.message]
        # What is refused before anything is lowered is refused op by op; a pass stops at the first.
        assert reason in str(error) or len(said) >= (
            1 if "a compiler pass failed" in str(error) else len(together)
        )


@pytest.mark.parametrize(("group", "program"), cases(lambda p: True))
def test_is_right_on_the_cpu(built, capfd, group, program):
    module = built(group, program)
    for fibers in (False, True):
        capfd.readouterr()
        check(program, run(program, module, fibers=fibers))
        if program.prints:
            module.device._c.fflush(None)
            assert capfd.readouterr().out == program.prints


@pytest.mark.parametrize(("group", "program"), cases(is_changed))
def test_a_change_of_the_program_is_noticed(built, group, program):
    module = built(group, program, broken=True)
    with pytest.raises(AssertionError):
        check(program, run(program, module))


def test_the_document_is_current():
    assert table.DOCUMENT.read_text() == table.render(), "run python tests/op_coverage/table.py"
