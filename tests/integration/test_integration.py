"""Whole programs in .mlir, one for each operation: built, run, and checked by FileCheck against NumPy."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from devices import at_hand
from e2e.command import execute, gpubuild
from integration import page, refresh
from integration.expected import PRINTED
from integration.program import FOLDER, Program, programs
from kernels.operations import vendor_survey
from op_coverage import host_ops
from op_coverage.compiling import in_sample
from simulators.cuda_driver import standin

from gpubuild.config.load import load_project
from gpubuild.engine.host import sparse

PROGRAMS = programs()
PROJECT = load_project(FOLDER / "targets.yaml")
# Operations without a program here, and the test that has one.
ELSEWHERE = {op: host_ops.SHOWN[op] for op in ("gpu.binary", *sorted(sparse.OPS))}
COMPANIONS = (
    "affine", "arith", "async", "cf", "complex", "func", "index", "linalg", "math", "memref", "scf", "ub",
    "vector",
)  # fmt: skip
NVIDIA, AMD = ("sm_60", "sm_90"), ("gfx90a", "gfx942")
OLDER, NEWER = NVIDIA
CLUSTERS = [name for name, program in PROJECT.programs.items() if OLDER not in program.targets]
CUDA, HIP, OPENCL = at_hand.cuda(), at_hand.hip(), at_hand.opencl()
SPIRV = "spirv"
ON_THE_STAND_IN = [n for n in PROGRAMS if n == CLUSTERS[0] or in_sample(PROGRAMS[n], 3)]
ON_OPENCL = [n for n in ON_THE_STAND_IN if n not in CLUSTERS]


def build(folder: Path, *targets: str, of: Iterable[str] = tuple(PROGRAMS)) -> Path:
    """The executables of all programs that have one of these targets."""
    for file in (FOLDER / "targets.yaml", *FOLDER.glob("*.mlir")):
        shutil.copy(file, folder)
    wanted = [name for name in of if set(targets) & set(PROJECT.programs[name].targets)]
    chosen = [word for target in targets for word in ("-t", target)]
    outcome = gpubuild("build", "-q", *chosen, *wanted, cwd=folder, seeded=True)
    assert outcome.code == 0, outcome.err
    return folder / "build"


def check(build_dir: Path, program: Program, device: str, scratch: Path, **environment: str) -> None:
    """Run it, and have FileCheck compare."""
    variables = {"PATH": os.environ["PATH"], "GPUBUILD_DEVICE": device}
    variables |= {"GPUBUILD_TRACE": str(int(program.traced))} | environment
    done = execute(build_dir / program.name / program.name, env=variables)
    assert program.traced or done.err == ""
    assert program.refusal(done.out, done.err, scratch) == ""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With code for the stand-in and OpenCL, too: clusters are for sm_90 only."""
    folder = tmp_path_factory.mktemp("integration")
    build(folder, "cpu", OLDER, SPIRV, of=ON_OPENCL)
    build(folder, "cpu", NEWER, of=CLUSTERS)
    return build(folder, "cpu", of=[name for name in PROGRAMS if name not in (*ON_OPENCL, *CLUSTERS)])


def test_every_operation_of_the_gpu_dialect_has_a_program() -> None:
    assert set(vendor_survey.operations("gpu")) - PROGRAMS.keys() == ELSEWHERE.keys()


def test_every_companion_has_a_program() -> None:
    assert {name.partition(".")[0] for name in PROGRAMS} == {"gpu", *COMPANIONS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_the_operation_it_is_named_after(name: str) -> None:
    assert re.search(rf"(?<![\w.]){re.escape(name.removeprefix('func.'))}(?![\w.])", PROGRAMS[name].code)
    assert PROGRAMS[name].text.startswith(f"// {name}: ")


def test_what_they_print_is_what_numpy_says() -> None:
    assert PRINTED.keys() == PROGRAMS.keys() == PROJECT.programs.keys()
    assert [path.name for path in refresh.stale()] == [], "run python tests/integration/refresh.py"


@pytest.mark.parametrize("name", PROGRAMS)
def test_on_the_cpu(built: Path, tmp_path: Path, name: str) -> None:
    check(built, PROGRAMS[name], "cpu", tmp_path)


@pytest.fixture(scope="module")
def modules(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    for chip, device in ((OLDER, "7.0"), (NEWER, "10.0")):
        ptx = [file for name in ON_THE_STAND_IN for file in sorted((built / name).glob(f"*.{chip}.ptx"))]
        standin.translate(ptx, device, folder)
    return folder


@pytest.mark.parametrize("name", ON_THE_STAND_IN)
def test_on_the_stand_in(built: Path, modules: Path, tmp_path: Path, name: str) -> None:
    """Run PTX on the host in place of the CUDA driver (docs/how-to/gpu-tests.md)."""
    environment = standin.environment("10.0" if name in CLUSTERS else "7.0", modules=modules)
    made = set(modules.iterdir())
    for more in ({}, {"EMU_CUDA_BACKWARDS": "1"}, {"EMU_CUDA_ORDER": "early"}):
        device = environment.pop("GPUBUILD_DEVICE", "cuda")
        check(built, PROGRAMS[name], device, tmp_path, **environment, **more)
    assert set(modules.iterdir()) == made  # all PTX of the programs was translated beforehand


def test_as_a_user_runs_one(built: Path, tmp_path: Path) -> None:
    """As docs/reference/operations.md does, and with what that page shows."""
    shown = page.DOCUMENT.read_text()
    _, name = re.findall(r"gpubuild run -f (tests/integration/targets.yaml) (\S+)", shown)[0]
    options = ("-q", "-t", "cpu", "--build-dir", tmp_path / "build")
    outcome = gpubuild("run", *options, name, cwd=built.parent, env={"GPUBUILD_DEVICE": "cpu"})
    assert outcome.code == 0, outcome.err
    assert PROGRAMS[name].refusal(outcome.out, "", tmp_path) == ""
    address = r"0x[0-9a-f]+"
    printed = [re.sub(address, "0x", line.rstrip()) for line in outcome.out.splitlines()]
    assert "\n".join(printed) in re.sub(address, "0x", shown)


def test_another_number_is_noticed(tmp_path: Path) -> None:
    """Of every line FileCheck looks for, each number counts."""
    program = PROGRAMS["gpu.thread_id"]
    good = (
        "Unranked Memref base@ = 0x1 rank = 2 offset = 0 sizes = [3, 4] strides = [4, 1] data = \n"
        "[[0,   1,   2,   3], \n [10,   11,   12,   13], \n [20,   21,   22,   23]]\n"
    )
    assert program.refusal(good, "", tmp_path) == ""
    for old, new in (("0,   1,", "0,   7,"), ("13]", "12]"), ("23]]", "3]]"), ("[3, 4]", "[4, 3]")):
        assert program.refusal(good.replace(old, new), "", tmp_path) != ""
    assert program.refusal("", "", tmp_path) != ""


@pytest.fixture(scope="module")
def for_gpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("gpus"), *NVIDIA, *AMD)


def with_image(chip: str) -> list[str]:
    """Programs that such a GPU can run: NVIDIA's run what is compiled for older chips, too."""
    usable = {t for t in NVIDIA if chip.startswith("sm_") and number(t) <= number(chip)} | {chip}
    return [name for name in PROGRAMS if usable & set(PROJECT.programs[name].targets)]


def number(chip: str) -> int:
    return int(re.sub(r"\D", "", chip))


@pytest.mark.cuda
@pytest.mark.skipif(CUDA is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("name", with_image(CUDA.chip if CUDA else NVIDIA[-1]))
def test_on_cuda(for_gpus: Path, tmp_path: Path, name: str) -> None:
    kept = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")}
    check(for_gpus, PROGRAMS[name], "cuda", tmp_path, **kept)


@pytest.mark.hip
@pytest.mark.skipif(HIP is None or HIP.chip not in AMD, reason=f"no AMD GPU of {' or '.join(AMD)}")
@pytest.mark.parametrize("name", with_image(AMD[0]))
def test_on_hip(for_gpus: Path, tmp_path: Path, name: str) -> None:
    kept = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "HIP_VISIBLE_DEVICES")}
    check(for_gpus, PROGRAMS[name], "hip", tmp_path, **kept)


@at_hand.NEEDS_OPENCL
@pytest.mark.parametrize("name", ON_OPENCL)
def test_on_opencl(built: Path, tmp_path: Path, name: str) -> None:
    check(built, PROGRAMS[name], "opencl", tmp_path, **(OPENCL or {}))


def test_only_clusters_are_not_for_opencl() -> None:
    assert sorted(n for n, p in PROJECT.programs.items() if SPIRV not in p.targets) == sorted(CLUSTERS)


def test_programs_are_chosen_for_a_device() -> None:
    assert "gpu.cluster_id" in with_image("sm_100")
    assert {"gpu.shuffle", "gpu.subgroup_mma_compute"} <= set(with_image("sm_70"))
    assert "gpu.cluster_id" not in {*with_image("sm_70"), *with_image("gfx90a")}
    assert with_image("gfx1030") == []
