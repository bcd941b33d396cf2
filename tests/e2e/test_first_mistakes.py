"""Mistakes of a first hour, in a project that `gpubuild init` made: each message says what to do."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from e2e.command import execute, gpubuild, seed

ON_TENSORS = "  func.func @t(%t: tensor<4xf32>) -> tensor<4xf32> {return %t : tensor<4xf32>}"


@dataclass(frozen=True)
class Mistake:
    """Texts on stderr after a command, and edits before it (file: old, new; ``None`` is all of it)."""

    texts: Sequence[str]
    edits: Mapping[str, tuple[str | None, str]] = field(default_factory=dict)
    arguments: str = "build"
    environment: dict[str, str] = field(default_factory=dict)


MISTAKES = {
    "pass": Mistake(
        ("failed: scale/outline/scale.mlir\n", "targets.yaml:12:22: note", "did you mean canonicalize?"),
        edits={"targets.yaml": ("  scale:", "  scale:\n    passes: {source: builtin.module(canonicalise)}")},
    ),
    "tensors": Mistake(
        ("scale.mlir:16:53: error: 'func.return' works on tensors", "hint: set `pipeline: linalg`"),
        edits={"scale.mlir": ("  func.func", f"{ON_TENSORS}\n  func.func")},
    ),
    "linalg on tensors": Mistake(
        ("scale.mlir:17:6: error: 'linalg.fill' works on tensors", "hint: set `pipeline: linalg`"),
        edits={
            "scale.mlir": (
                "  func.func",
                "  func.func @t(%f: f32, %t: tensor<4xf32>) -> tensor<4xf32> {\n"
                "%r = linalg.fill ins(%f : f32) outs(%t : tensor<4xf32>) -> tensor<4xf32>\n"
                "return %r : tensor<4xf32> }\n  func.func",
            )
        },
        arguments="build -t cpu",
    ),
    "launches in a tensor pipeline": Mistake(
        ("scale.mlir:23:11: error: ops with unknown", "in a program without `pipeline:`"),
        edits={"targets.yaml": ("  scale:", "  scale:\n    pipeline: linalg")},
    ),
    "incomplete pipeline": Mistake(
        ("cannot lower what your pass pipeline left: arith.cmpi", "add passes that lower it"),
        edits={"targets.yaml": ("  scale:", "  scale:\n    passes: {nvvm: builtin.module(cse)}")},
        arguments="build -t sm_90",
    ),
    "printf": Mistake(
        ("'%d' asks for an integer, and argument 1 is f32 (use %f)", "hint: correct the format"),
        edits={"scale.mlir": ("gpu.return", 'gpu.printf "%d %d\\n", %factor, %i : f32, index\ngpu.return')},
        arguments="build -t cpu",
    ),
    "printf count": Mistake(
        ("asks for 2 arguments, and there are 1 (give 2, or write %% for a percent sign)",),
        edits={"scale.mlir": ("gpu.return", 'gpu.printf "%f %d\\n", %factor : f32\ngpu.return')},
        arguments="build -t cpu",
    ),
    "workgroup memory": Mistake(
        ("scale.mlir:4:65: error: the kernel has 81,920 bytes of workgroup memory", "can have 49,152"),
        edits={
            "scale.mlir": (
                "%n: index) kernel {",
                "%n: index) workgroup(%b: memref<20480xf32, 3>) kernel {\n"
                "memref.store %factor, %b[%n] : memref<20480xf32, 3>",
            )
        },
        arguments="build -t sm_90",
    ),
    "product": Mistake(
        ("targets.yaml:6:3", "the chip of h100 is sm_90: write that"),
        edits={"targets.yaml": ("sm_90", "h100")},
    ),
    "chip beside a misspelt key": Mistake(
        ("unknown NVIDIA chip 'sm_91' (did you mean", "unknown key 'opt_levl' (did you mean 'opt_level'?)"),
        edits={"targets.yaml": ("sm_90: {}", "sm_91: {opt_levl: 2}")},
    ),
    "product of AMD": Mistake(
        ("targets.yaml:7:15", "the chip of MI300X is gfx942"),
        edits={"targets.yaml": ("gfx90a: {}", "big: {chip: MI300X}")},
    ),
    "module": Mistake(
        ("targets.yaml:12:15: error: no source of program scale has", "did you mean 'scale_kernels'?"),
        edits={"targets.yaml": ("  scale:", "  scale:\n    modules: {scale_kernel: {opt_level: 2}}")},
    ),
    "empty": Mistake(("scale.mlir is empty",), edits={"scale.mlir": (None, "\n")}),
    "undefined in C": Mistake(
        ("nothing defines nothing", "main.c:23:3: error: nothing defines nothing"),
        edits={"main.c": ("return wrong", "nothing(); return wrong")},
        arguments="build -t cpu",
    ),
    "suggestion": Mistake(("unrecognized arguments: --release\n",), arguments="build --release"),
    "suggested": Mistake(("--explan (did you mean '--explain'?)",), arguments="build --explan"),
    "two files": Mistake(("-f is given twice",), arguments="build -f targets.yaml -f b.yaml"),
    "build folder": Mistake(
        ("refusing to build into", "the project's folder"), arguments="build --build-dir ."
    ),
    "arguments": Mistake(
        ("arguments: --size", "of the program follow `--`"), arguments="run -t cpu --size 3"
    ),
    "CUDA": Mistake(
        ("targets.yaml:12:35: error: expected a source file (.mlir .mlirbc .c", "kernels are MLIR, not CUDA"),
        edits={"targets.yaml": ("main.c]", "main.c, kernels.cu]")},
    ),
    "not built": Mistake(
        ("cannot read nowhere/scale", "hint: build it first"), arguments="inspect nowhere/scale"
    ),
    "export": Mistake(
        ("cannot write nowhere/cache.tar: No such file", "hint: name a file in a folder that exists"),
        arguments="cache export nowhere/cache.tar",
    ),
    "import": Mistake(
        ("cannot read cache.tar: No such file", "hint: `gpubuild cache export FILE` writes such a file"),
        arguments="cache import cache.tar",
    ),
    "jobs": Mistake(("a whole number from 1 to 4096",), environment={"GPUBUILD_JOBS": "foo"}),
    "no target for here": Mistake(("a build with -t has the named targets only",), arguments="run -t sm_90"),
    "CFLAGS": Mistake(
        ("warning: CC, CFLAGS in the environment: not read",),
        edits={"main.c": ("return wrong", "return  wrong")},
        arguments="build -t cpu",
        environment={"CFLAGS": "-O0", "CC": "gcc"},
    ),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("first")
    gpubuild("init", "demo", cwd=folder, code=0)
    return folder / "demo"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_message_says_what_to_do(project: Path, name: str) -> None:
    mistake = MISTAKES[name]
    before = {file: (project / file).read_bytes() for file in mistake.edits}
    for file, (old, new) in mistake.edits.items():
        text = before[file].decode()
        changed = new if old is None else text.replace(old, new, 1)
        (project / file).write_bytes(changed.encode(errors="surrogateescape"))
    try:
        done = gpubuild(*mistake.arguments.split(), cwd=project, env=mistake.environment, seeded=True)
    finally:
        for file, data in before.items():
            (project / file).write_bytes(data)
    assert done.code == (0 if name == "CFLAGS" else done.code or 1)
    for text in mistake.texts:
        assert text in done.err + done.out


def test_variables_that_are_not_read_are_in_the_document(project: Path, tmp_path: Path) -> None:
    seed(tmp_path)
    arguments = ["build", "-t", "cpu", "--json", "--cache-dir", tmp_path / "cache", "--build-dir", "fresh"]
    done = gpubuild(*arguments, cwd=project, env={"CFLAGS": "-O0"})
    (warning,) = json.loads(done.out)["summary"]["warnings"]
    assert warning["message"].startswith("CFLAGS in the environment: not read; GPUBUILD_CC")


def test_a_traceback_of_load_ends_with_the_location_and_the_hint(tmp_path: Path) -> None:
    (tmp_path / "k.mlir").write_text("func.func @f( {\n")
    for file, last in (("k.mlir", "k.mlir:1:"), ("kk.mlir", "kk.mlir (did you mean 'k.mlir'?)")):
        command = [sys.executable, "-c", f"import gpubuild; gpubuild.load('{file}')"]
        done = execute(*command, cwd=tmp_path, code=None)
        assert last in done.err.partition("gpubuild.errors.")[2]


def test_a_recipe_for_an_existing_project(project: Path) -> None:
    before = (project / "targets.yaml").read_bytes()
    done = gpubuild("init", "--ci", "github", cwd=project)
    assert (done.code, done.out) == (0, "wrote .github/workflows/gpubuild.yml\n")
    assert (project / "targets.yaml").read_bytes() == before
    assert "exists; nothing was written" in gpubuild("init", "--ci", "github", cwd=project).err


def test_a_folder_in_place_of_the_executable(project: Path) -> None:
    (project / "other" / "scale" / "scale").mkdir(parents=True)
    done = gpubuild("build", "-t", "cpu", "--build-dir", "other", cwd=project, seeded=True, code=1)
    assert "hint: remove the folder other/scale/scale" in done.err


def test_options_in_front_of_the_command(project: Path) -> None:
    for options in ("-v", "--jobs 3", "-q -f targets.yaml"):
        gpubuild(*options.split(), "build", "-n", cwd=project, seeded=True, code=0)
    gpubuild("-j3", "--jobs=2", "build", "-n", cwd=project, code=0)
