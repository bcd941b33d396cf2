"""Every op of the table: compiled for each target, run on the CPU, compared with NumPy."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from zlib import crc32

import pytest
from e2e.cpu_harness import Device, Module, build_runtime
from kernels.operations.groups import GROUPS
from kernels.program import CPU, GPUS, Program, module_text
from op_coverage import table
from op_coverage.compiling import check, chip_of, compile_for, run

from gpubuild.errors import StepError

# Like those of i32 and f32, of a whole subgroup, but for a number.
OFTEN_ALIKE = (
    "_i8",
    "_i16",
    "_i64",
    "_f16",
    "_bf16",
    "_f64",
    *(f"_width{n}" for n in (1, 2, 4, 7, 8, 16, 31)),
)
CASES = [(group, program) for group, programs in GROUPS.items() for program in programs]
NAMES = [program.name for _, program in CASES]


def cases(*targets: str, refused: bool) -> list:
    return [
        pytest.param(group, program, target, id=f"{program.name}-{target}")
        for group, program in CASES
        for target in targets
        if (target in program.refused) is refused
    ]


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("coverage")


def level_of(program: Program, target: str, *, broken: bool) -> int:
    """What is changed on purpose need not be fast. LLVM takes most of the time, and what it makes of
    programs that are alike but for a number is alike: of those every eighth is optimised."""
    if broken:
        return 0
    alike = target == CPU and program.name.endswith(OFTEN_ALIKE)
    return 0 if alike and crc32(program.name.encode()) % 8 else 3


@pytest.fixture(scope="session")
def device(folder) -> Device:
    return Device(build_runtime(folder))


@pytest.fixture(scope="session")
def built(folder, device):
    """Compiles a program together with its group; alone when the group as a whole fails."""

    @cache
    def whole(group: str, target: str, chip: str, broken: bool, level: int) -> tuple[Path | None, bool]:
        together = [
            p
            for p in GROUPS[group]
            if target not in p.refused
            and chip_of(p, target) == chip
            and (p.breaks or not broken)
            and level_of(p, target, broken=broken) == level
        ]
        place = folder / f"{group}.{target}.{'broken' if broken else 'whole'}.{level}"
        text = module_text(together, broken=broken)
        try:
            return compile_for(chip, text, place, opt_level=level), True
        except Exception as error:
            print(f"{group} for {target}: {error}", file=sys.stderr)
            return None, False

    @cache
    def loaded(place: Path) -> Module:
        return device.load(place)

    def give(group: str, program: Program, target: str, *, broken: bool = False) -> Module | None:
        level = level_of(program, target, broken=broken)
        place, good = whole(group, target, chip_of(program, target), broken, level)
        if not good:
            alone = folder / f"{program.name}.{target}.{'broken' if broken else 'whole'}"
            chip = CPU if target == CPU else chip_of(program, target)
            place = compile_for(chip, module_text([program], broken=broken), alone)
        return loaded(place) if place is not None else None

    return give


def test_names_are_unique():
    assert len(NAMES) == len(set(NAMES))


@pytest.mark.parametrize(("group", "program", "target"), cases(*GPUS, refused=False))
def test_compiles(built, group, program, target):
    built(group, program, target)


def refusals() -> list:
    """Programs by what is said of them: one compile serves all that are refused alike."""
    found: dict[tuple[str, str, str], list[Program]] = {}
    for group, program in CASES:
        for target, reason in program.refused.items():
            found.setdefault((group, target, reason), []).append(program)
    return [
        pytest.param(*key, programs, id=f"{key[1]}-{programs[0].name}") for key, programs in found.items()
    ]


@pytest.mark.parametrize(("group", "target", "reason", "programs"), refusals())
def test_is_refused_with_the_reason_in_the_table(folder, group, target, reason, programs):
    for together in (programs, programs[:1])[: len(programs)]:  # one program is not compiled twice
        with pytest.raises(StepError) as caught:
            compile_for(target, module_text(together), folder / f"{programs[0].name}.{target}")
        error = caught.value
        said = [d.message for d in error.diagnostics if reason in d.message]
        # What is refused before anything is lowered is refused op by op; a pass stops at the first.
        assert reason in str(error) or len(said) >= (
            1 if "a compiler pass failed" in str(error) else len(together)
        )


@pytest.mark.parametrize(
    ("group", "program", "target"), [c for c in cases(CPU, refused=False) if c.values[1].runs]
)
def test_is_right_on_the_cpu(built, capfd, group, program, target):
    module = built(group, program, target)
    for fibers in (False, True):
        capfd.readouterr()
        check(program, run(program, module, fibers=fibers))
        if program.prints:
            module.device._c.fflush(None)
            assert capfd.readouterr().out == program.prints


@pytest.mark.parametrize(
    ("group", "program", "target"),
    [c for c in cases(CPU, refused=False) if c.values[1].breaks and c.values[1].runs],
)
def test_a_change_of_the_program_is_noticed(built, group, program, target):
    module = built(group, program, target, broken=True)
    with pytest.raises(AssertionError):
        check(program, run(program, module))


def test_the_document_is_current():
    assert table.DOCUMENT.read_text() == table.render(), "run python tests/op_coverage/table.py"
