"""Bad input: each mistake has its own message and exit code, and nothing half-built stays."""

# ruff: noqa: E501  (programs inside strings)

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path

import pytest
from e2e import command
from e2e.command import SAXPY, Outcome, edit, project_file, saxpy_project, write

from gpubuild.support import text as columns

gpubuild = partial(command.gpubuild, seeded=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return saxpy_project(tmp_path / "project")


def failed_build(project: Path, *arguments: str) -> Outcome:
    """Build, check that it failed and that nothing of the program is left."""
    outcome = gpubuild("build", *arguments, cwd=project)
    assert outcome.code != 0
    assert "Traceback" not in outcome.err
    assert not (project / "build/saxpy/saxpy").exists()
    assert not list((project / "build/.gpubuild/work").glob("*/*")) if (project / "build").exists() else True
    return outcome


def caret(shown: str, message: str) -> str:
    """The character above the caret of the message: ``shown`` as a terminal has it, cell by cell."""
    lines = shown[shown.index(message) :].splitlines()
    cells = "".join(c * columns.width(c) for c in lines[1])
    return cells[len(lines[2]) - 1 :]


def test_carets_are_right_behind_characters_of_any_width(project: Path) -> None:
    """In MLIR, which counts bytes, in C, and in YAML, which counts characters."""
    edit(project / "main.c", "int main(", '\tint l = sizeof "é漢" + undeclared;\nint main(')
    assert caret(failed_build(project, "-t", "cpu").err, "main.c:").startswith("undeclared")
    edit(
        project / "saxpy.mlir",
        "%ax = arith.mulf",
        '%t = arith.constant {"漢é" = 1} 1 : i32 %u = arith.negf %nope : f32\n%ax = arith.mulf',
    )
    assert caret(failed_build(project).err, "saxpy.mlir:").startswith("%nope")
    (project / "targets.yaml").write_text(SAXPY + '    link: {flags: ["é漢"], chp: 1}\n')
    assert caret(failed_build(project).err, "targets.yaml:").startswith("chp")


def test_a_source_that_became_a_pipe(project: Path) -> None:
    gpubuild("build", "-t", "cpu", cwd=project, code=0)
    (project / "saxpy.mlir").unlink()
    os.mkfifo(project / "saxpy.mlir")
    outcome = gpubuild("build", "-t", "cpu", cwd=project, code=2)  # does not wait for a writer
    assert "source 'saxpy.mlir' is neither a file nor a folder" in outcome.err


UNSELECTABLE = """\
module attributes {gpu.container_module} {
  gpu.module @saxpy_kernels {
    llvm.func @bad(%to: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {
      llvm.call_intrinsic "llvm.nvvm.griddepcontrol.wait"() : () -> ()
      llvm.return
    }
  }
}
"""


def test_a_kernel_that_llvm_cannot_select(project: Path) -> None:
    (project / "saxpy.mlir").write_text(UNSELECTABLE)
    (project / "targets.yaml").write_text(SAXPY.replace("sm_60: {}, sm_90: {}, gfx90a: {}, cpu", "sm_60"))
    outcome = failed_build(project)
    assert outcome.code == 1
    place = "saxpy.mlir:4:7: error: 'llvm.call_intrinsic' in kernel @bad: the error disappears"
    for part in ("saxpy_kernels", "sm_60", "Cannot select", place, "reproduce:"):
        assert part in outcome.err


def test_one_failing_target_does_not_hide_the_others(project: Path) -> None:
    """All are tried with one worker and without -k; what they share is shown once.

    ptxas and LLVM's assembler know lines of what they read; the message is about the user's.
    """
    line = '      llvm.inline_asm has_side_effects "nonsense.op;", "" : () -> ()'
    edit(project / "saxpy.mlir", "      %ax = ", f"{line}\n      %ax = ")
    outcome = failed_build(project, "-j1")
    assert outcome.code == 1
    assert "\nfailed: saxpy/compile/saxpy_kernels/{sm_60,sm_90,gfx90a,cpu}\n" in outcome.out
    assert "targets sm_60, sm_90, stage ptxas" in outcome.err
    assert outcome.err.count("error: Not a name of any known instruction: 'nonsense'\n") == 1
    assert "target gfx90a, stage lld" in outcome.err
    assert "target cpu cannot compile 'llvm.inline_asm'" in outcome.err
    assert outcome.err.count("saxpy.mlir:11:") == 4  # ptxas says two things about the line
    assert outcome.err.count(f"\n    {line}\n          ^\n") == 4


UNSUPPORTED = """\
module attributes {gpu.container_module} {
  gpu.module @saxpy_kernels {
    gpu.func @saxpy(%x: f32, %to: memref<?xf32>, %i: index) kernel {
      %y = spirv.FNegate %x : f32
      memref.store %y, %to[%i] : memref<?xf32>
      gpu.return
    }
  }
}
"""


def test_what_a_target_cannot_lower_is_shown_in_the_users_file(project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub/k.mlir").write_text(UNSUPPORTED)
    (project / "targets.yaml").write_text(SAXPY.replace("saxpy.mlir", "sub/k.mlir"))
    outcome = failed_build(project, "-t", "sm_90")
    assert "sub/k.mlir:4:12: error: 'spirv.FNegate' op was not lowered\n" in outcome.err
    assert "\n        %y = spirv.FNegate %x : f32\n             ^\n" in outcome.err


HOSTILE = r"""
module attributes {gpu.container_module} {
  gpu.module @"k\1B[31m\C2\9B\0Ax" {
    gpu.func @"f\1B[2J"(%a: memref<4xf32>) kernel {
      gpu.return
    }
  }
  func.func @main() -> i32 {
    %c1 = arith.constant 1 : index
    %m = memref.alloc() : memref<4xf32>
    gpu.launch_func @"k\1B[31m\C2\9B\0Ax"::@"f\1B[2J"
        blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%m : memref<4xf32>)
    %z = arith.constant 0 : i32
    return %z : i32
  }
}
"""


def test_names_and_lines_of_files_do_not_steer_the_terminal(tmp_path: Path) -> None:
    """Neither in what was built, nor in what was not, nor in what the program says of itself."""
    module, shown = "k\x1b[31m\x9b\nx", r"k\x1b[31m\u009b\nx"
    write(tmp_path, {"targets.yaml": project_file("app: {sources: [a.mlir]}"), "a.mlir": HOSTILE})
    program = {"GPUBUILD_TRACE": "1", "GPUBUILD_DEVICE": "cpu"}
    outcomes = {
        "built": gpubuild("build", "-v", cwd=tmp_path),
        "up to date": gpubuild("build", "-v", cwd=tmp_path),
        "explained": gpubuild("explain", f"app/compile/{module}/cpu", cwd=tmp_path),
        "inspected": gpubuild("inspect", "build/app/app", cwd=tmp_path),
        "traced": gpubuild("run", cwd=tmp_path, env=program),
        "graph": gpubuild("graph", "--format", "dot", cwd=tmp_path),
        "json": gpubuild("build", "--json", cwd=tmp_path),
    }
    assert module in {step["module"] for step in outcomes["json"].document["steps"]}
    for what in ("built", "up to date", "explained", "inspected"):
        assert shown in outcomes[what].out, what
    assert r"f\x1b[2J" in outcomes["traced"].err
    (tmp_path / "a.mlir").write_text("wrong \x1b]0;title\x07\x9b2J\n")
    outcomes["source line"] = gpubuild("build", cwd=tmp_path)
    assert r"wrong \x1b]0;title\x07\u009b2J" in outcomes["source line"].err
    (tmp_path / "targets.yaml").write_text('version: 1\n"k\\x1b[2J\\x9b": 1\n')
    outcomes["configuration"] = gpubuild("build", cwd=tmp_path)
    assert r"unknown key 'k\x1b[2J\u009b'" in outcomes["configuration"].err
    for what, outcome in outcomes.items():
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", outcome.out + outcome.err), what


ENDED = "the pass pipeline ended the compiler (SIGABRT)"
PIPELINES = [
    ("source", "no-such", "'no-such' does not refer to a registered pass or pass pipeline"),
    ("source", "gpu-to-llvm{no-such=1}", "gpu-to-llvm does not accept the options `no-such=1`"),
    ("source", "gpu.module(convert-gpu-to-rocdl{runtime=X})", "does not accept the options `runtime=X`"),
    ("source", "rocdl-attach-target{abi=700}", f"{ENDED}|Invalid ABI version"),
    ("source", "gpu-to-llvm{intersperse-sizes-for-kernels=1}", "sizes for the Vulkan runtime"),
    (
        "source",
        "rocdl-attach-target,gpu-module-to-binary{format=isa}",
        "gpubuild carries out gpu-module-to-binary{format=isa opts= section= toolkit=}, without its",
    ),
    ("host", "gpu-module-to-binary{format=zzz}", ENDED),
    ("cpu", "nvvm-attach-target{O=9}", ENDED),
    ("cpu", "gpu-lower-to-nvvm-pipeline{opt-level=1}", "sets opt-level=1, and target cpu has 3"),
    ("cpu", "gpu-lower-to-nvvm-pipeline{opt-level=3 cubin-format=isa}", "without its options"),
]


def test_an_error_of_a_pass_pipeline_names_its_line(project: Path) -> None:
    text, places = SAXPY[: SAXPY.index("  saxpy:")], []
    for number, (key, pipeline, _) in enumerate(PIPELINES):
        text += f"  p{number}:\n    sources: [saxpy.mlir, main.c]\n    passes:\n"
        text += f"      {key}: {f'builtin.module({pipeline})'!r}\n"
        places.append(f"targets.yaml:{text.count(chr(10))}:{9 + len(key)}: note: the pass pipeline\n")
    (project / "targets.yaml").write_text(text)
    outcome = failed_build(project, "-k", "-t", "cpu")
    assert outcome.code == 1
    assert [place for place in places if place not in outcome.err] == []
    errors = outcome.err.split("\n\n")
    for place, (_, pipeline, message) in zip(places, PIPELINES, strict=True):
        said = [error for error in errors if all(text in error for text in (place, *message.split("|")))]
        assert said, (pipeline, outcome.err)
    assert "report it" not in outcome.err


# Mistakes that a build finds: each error names the program, the module, the kernel, the place and the target.

LAUNCHED = """\
gpu.module @kernels {
  gpu.func @scale(%a: memref<?xf32>) kernel {
    gpu.return
  }
}
"""
LAUNCH = "gpu.launch_func @kernels::@scale blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)"
ARGUMENT = " args(%m : memref<?xf32>)"


def launching(launch: str, kernel: str = LAUNCHED) -> str:
    """A file whose line 11 is the launch."""
    return f"""module attributes {{gpu.container_module}} {{
{kernel}func.func @main(%n: index, %m: memref<?xf32>) {{
  %c1 = arith.constant 1 : index
  %c2000 = arith.constant 2000 : index
  // here
  {launch}
  return
}}
}}
"""


KNOWN = LAUNCHED.replace("kernel {", "kernel attributes {known_block_size = array<i32: SIZE, 1, 1>} {")
PART = """%t = gpu.thread_id x
    %c9 = arith.constant 9 : index
    %some = arith.cmpi ult, %t, %c9 : index
    scf.if %some { gpu.barrier }
    gpu.return"""
DIVERGENT = KNOWN.replace("SIZE", "64").replace("gpu.return", PART)
FOREIGN = LAUNCHED.replace("gpu.return", "%x = nvvm.read.ptx.sreg.tid.x : i32\n    gpu.return")
# The file, its line, and what an error says; everything else is the same for all.
MISTAKES = {
    "oversized": (launching(LAUNCH.replace("threads in (%c1", "threads in (%c2000") + ARGUMENT), 11,
                  "a workgroup of 2000 x 1 x 1 has more than 1024 work-items"),
    "known": (KNOWN.replace("SIZE", "2048"), 2, "a workgroup of 2048 x 1 x 1 has more than 1024 work-items"),
    "mismatch": (launching(LAUNCH + ARGUMENT, KNOWN.replace("SIZE", "64")), 11,
                 "known_block_size is 64 x 1 x 1, and this launch has 1 x 1 x 1"),
    "count": (launching(LAUNCH), 11, "got 0 kernel operands but expected 1"),
    "type": (launching(LAUNCH + " args(%n : index)"), 11, "type of function argument 0 does not match"),
    "kernel": (launching(LAUNCH.replace("@scale", "@scala") + ARGUMENT), 11, "kernel function '@kernels::@scala' is undefined"),
    "module": (launching(LAUNCH.replace("@kernels", "@kernel") + ARGUMENT), 11, "kernel container 'kernel' is undefined"),
    "barrier": (DIVERGENT, 6, "work-item (0, 0, 0) waits here at gpu.barrier, but work-item (9, 0, 0)"),
    "foreign": (FOREIGN, 3, "'nvvm.read.ptx.sreg.tid.x' is an instruction of NVIDIA GPUs"),
}  # fmt: skip


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("mistakes")
    for name, (text, _, _) in MISTAKES.items():
        (folder / f"{name}.mlir").write_text(text)
    programs = {f"app_{name}": {"sources": [f"{name}.mlir"]} for name in MISTAKES}
    programs["other_count"] = programs["app_count"]
    document = {"version": 1, "targets": {"mine": {"kind": "rocdl", "chip": "gfx90a"}}, "programs": programs}
    (folder / "targets.yaml").write_text(json.dumps(document))
    done = gpubuild("build", "-k", cwd=folder, code=1)
    return done.err


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_name_everything(errors: str, name: str) -> None:
    _, line, says = MISTAKES[name]
    (error,) = [text for text in errors.split("\nerror: ") if f"{name}.mlir:{line}:" in text]
    assert says in error
    users = "programs app_count, other_count" if name == "count" else f"program app_{name}"
    assert f"({users}, " in error
    assert "kernel" in error.replace("@kernels", "")
    assert ("@scala" if name == "kernel" else "@scale") in error
    assert ("@kernel" if name == "module" else "@kernels") in error
    if name == "foreign":  # the others are wrong for every target
        assert "module @kernels, kernel @scale, target mine, stage" in error
