"""Every example, built with the real tool chain, prints what its expected.txt says."""

import os
from pathlib import Path

import pytest
from devices import at_hand
from e2e.built_examples import built_examples
from e2e.command import ROOT, Outcome, execute

from gpubuild.config.load import load_project

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/expected.txt"))
PROJECT = load_project(ROOT / "targets.yaml")


def expected(name: str) -> str:
    return (EXAMPLES / name / "expected.txt").read_text()


@pytest.fixture(scope="session")
def build_dir() -> Path:
    return built_examples() / "build"


def run(
    build_dir: Path, name: str, *arguments: str | Path, device: str = "cpu", **environment: str
) -> Outcome:
    variables = {"PATH": os.environ["PATH"], "GPUBUILD_DEVICE": device, **environment}
    return execute(build_dir / name / name, *arguments, cwd=build_dir, env=variables, code=None)


def assert_prints(done: Outcome, name: str) -> None:
    assert done == Outcome(0, expected(name), "")


def test_every_program_is_an_example_and_the_other_way_round() -> None:
    assert sorted(PROJECT.programs) == NAMES
    assert sorted(p.name for p in EXAMPLES.iterdir() if p.is_dir()) == NAMES
    assert all((EXAMPLES / name / "README.md").is_file() for name in NAMES)


def test_saxpy_is_one_module_for_four_targets() -> None:
    assert PROJECT.programs["saxpy"].targets == ("sm_60", "sm_90", "gfx90a", "cpu")


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("name", NAMES)
def test_on_the_cpu(build_dir: Path, name: str, threads: str) -> None:
    assert_prints(run(build_dir, name, GPUBUILD_CPU_THREADS=threads), name)


@pytest.mark.parametrize("name", NAMES)
def test_device_is_chosen_without_being_told(build_dir: Path, name: str) -> None:
    """Whatever this machine has, the answer is the same."""
    assert_prints(run(build_dir, name, device="auto"), name)


@pytest.mark.parametrize("name", NAMES)
def test_every_target_has_its_object(build_dir: Path, name: str) -> None:
    suffix = {"nvvm": "cubin", "rocdl": "hsaco", "cpu": "so"}
    program = PROJECT.programs[name]
    for target in program.targets:
        kind = PROJECT.targets[target].kind
        assert list((build_dir / name).glob(f"*.{target}.{suffix[kind]}")), f"{name} for {target}"


def test_modules_go_to_their_own_targets(build_dir: Path) -> None:
    folder = build_dir / "two_modules"
    objects = {p.name for p in folder.iterdir() if p.suffix in (".cubin", ".hsaco", ".so")}
    assert objects == {
        "fill.sm_60.cubin",
        "fill.sm_90.cubin",
        "fill.gfx90a.hsaco",
        "fill.cpu.so",
        "norm.sm_60.cubin",
        "norm.cpu.so",
    }


def test_edges_filters_a_file(build_dir: Path, tmp_path: Path) -> None:
    """input.ppm is the picture that the program draws for itself."""
    output = tmp_path / "edges.pgm"
    assert_prints(run(build_dir, "edges", EXAMPLES / "edges" / "input.ppm", output), "edges")
    header, pixels = output.read_bytes()[:13], output.read_bytes()[13:]
    assert header == b"P5\n96 64\n255\n"
    assert len(pixels) == 96 * 64
    assert f" {sum(p >= 128 for p in pixels)} on edges" in expected("edges")
    # The rim of the disc (centre 36, 30, radius 20), and its inside.
    assert pixels[30 * 96 + 16] >= 128
    assert pixels[30 * 96 + 36] < 64


@pytest.mark.parametrize("size", ["1 1", "17 1", "1 33", "31 47"])
def test_edges_on_odd_sizes(build_dir: Path, tmp_path: Path, size: str) -> None:
    """The program compares every pixel with its own C version."""
    width, height = map(int, size.split())
    noise = bytes((i * 7919 >> 3) & 255 for i in range(width * height * 3))
    (tmp_path / "in.ppm").write_bytes(f"P6\n{size}\n255\n".encode() + noise)
    done = run(build_dir, "edges", tmp_path / "in.ppm", tmp_path / "out.pgm")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("edges: OK ")


@pytest.mark.cuda
@pytest.mark.skipif(at_hand.cuda() is None, reason="no NVIDIA GPU")
@pytest.mark.parametrize("name", NAMES)
def test_on_cuda(build_dir: Path, name: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")}
    assert_prints(run(build_dir, name, device="cuda", **environment), name)


# One module of two_modules is not compiled for AMD devices.
FOR_AMD = [n for n in NAMES if "gfx90a" in PROJECT.programs[n].targets and n != "two_modules"]


@pytest.mark.hip
@pytest.mark.skipif(at_hand.hip() is None, reason="no AMD GPU")
@pytest.mark.parametrize("name", FOR_AMD)
def test_on_hip(build_dir: Path, name: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "HIP_VISIBLE_DEVICES")}
    assert_prints(run(build_dir, name, device="hip", **environment), name)
