"""The command line on a real project: what `gpubuild init` makes."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import pytest
import yaml
from e2e.command import ROOT, Outcome, edit, gpubuild, project_file
from variants import few

from gpubuild.cli.parser import parse

EXPECTED = "scale: OK (0 of 1000 elements wrong)\n"
CPU = {"GPUBUILD_DEVICE": "cpu"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    gpubuild("init", "demo", cwd=folder, code=0)
    project = folder / "demo"
    outcome = gpubuild("build", "--trace", "trace.json", cwd=project, seeded=True, code=0)
    assert outcome.err == ""
    last = outcome.out.splitlines()[-1]
    assert last.startswith("11 steps: 10 ran, 1 from the cache in ")
    assert last.endswith("→ build/scale/scale")
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "demo", symlinks=True))


def test_a_new_project_builds_and_runs(built: Path) -> None:
    outcome = gpubuild("run", cwd=built, env=CPU)
    assert (outcome.code, outcome.out) == (0, EXPECTED)
    outcome = gpubuild("run", "--all", cwd=built, env=CPU, code=0)
    assert outcome.out == "scale  ok  OK (0 of 1000 elements wrong)\n1 program: 1 ok\n"


def test_a_wrong_result_is_noticed(project: Path) -> None:
    (project / "expected.txt").write_text("scale: OK (7 of 1000 elements wrong)\n")
    outcome = gpubuild("run", "--all", cwd=project, env=CPU, code=1)
    assert "FAILED  line 1: expected" in outcome.out


def test_second_build_says_so_in_one_line(built: Path) -> None:
    outcome = gpubuild("build", cwd=built)
    assert outcome.out.startswith("11 steps: 11 up to date in ")
    assert outcome.out.count("\n") == 1
    assert gpubuild("build", "-q", cwd=built).out == ""
    assert gpubuild("build", "-v", cwd=built).out.count("up-to-date") == 11


def test_json_is_all_there_is_on_stdout(project: Path) -> None:
    edit(project / "main.c", "elements wrong", "elements are wrong")
    outcome = gpubuild("build", "--json", cwd=project)
    assert outcome.err == ""
    assert outcome.document["summary"]["ok"] is True
    assert outcome.document["programs"] == [{"name": "scale", "executable": "build/scale/scale"}]
    ran = {s["id"]: s["reason"] for s in outcome.document["steps"] if s["status"] == "ran"}
    assert ran == {
        "preprocess/main.c": "main.c changed",
        "cc/main.c": "what the preprocessor makes of main.c changed",
        "scale/link": "the object of cc/main.c changed",
    }


def test_a_failed_build_is_a_document_too(project: Path) -> None:
    edit(project / "scale.mlir", "arith.mulf %factor, %old : f32", "arith.mulf %factor, %i : f32")
    outcome = gpubuild("build", "--json", cwd=project, code=1)
    assert outcome.document["summary"]["failed"] == 1
    (failed,) = [s for s in outcome.document["steps"] if s["status"] == "failed"]
    assert "scale.mlir:" in failed["error"]["text"]
    assert "scale.mlir:" in outcome.err


def test_explain(project: Path) -> None:
    edit(project / "targets.yaml", "sm_90: {}", "sm_90: {opt_level: 1}")
    outcome = gpubuild("build", "--explain", cwd=project)
    (line,) = [text for text in outcome.out.splitlines() if "compile/scale_kernels/sm_90" in text]
    assert "option opt_level changed: 3 → 1" in line
    assert len(outcome.out.splitlines()) == 12


def test_trace_names_every_step(built: Path) -> None:
    events = json.loads((built / "trace.json").read_text())["traceEvents"]
    assert len([e for e in events if e["ph"] == "X"]) == 11
    assert all(e["dur"] > 0 and e["ts"] >= 0 for e in events if e["ph"] == "X")


MAIN = """\
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) printf("<%s>", argv[i]);
  fflush(stdout);
  if (argc == 1) raise(SIGPIPE);  // Python programs ignore it; others must not inherit that
  return atoi(argv[argc - 1]);
}
"""


def test_arguments_exit_code_and_signals_are_the_programs(project: Path) -> None:
    (project / "main.c").write_text(MAIN)
    outcome = gpubuild("run", "scale", "--", "-j", "--", "a b", "7", cwd=project)
    assert (outcome.code, outcome.out) == (7, "<-j><--><a b><7>")
    assert gpubuild("run", cwd=project).code == -signal.SIGPIPE


def test_wrong_names_are_corrected(built: Path) -> None:
    for arguments, near in (
        (["build", "scael"], "did you mean 'scale'?"),
        (["run", "scael"], "did you mean 'scale'?"),
        (["build", "-t", "sm_9"], "did you mean 'sm_90'?"),
        (["compile", "scale.mlri", "-t", "cpu", "--emit", "asm"], "scale.mlir?"),
    ):
        outcome = gpubuild(*arguments, cwd=built, code=2)
        assert near in outcome.err


def test_colour_is_for_terminals_and_who_asks(project: Path) -> None:
    (project / "targets.yaml").write_text("version: 1\nprogrms: {}\n")
    for env in ({}, {"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}):
        assert ("\x1b[" in gpubuild("build", cwd=project, env=env).err) == (env == {"FORCE_COLOR": "1"})


@pytest.mark.parametrize(
    ("target", "emit", "name", "start"),
    few(
        [
            ("sm_60", "fatbin", "scale_kernels.sm_60.fatbin", b"\x50\xed\x55\xba"),
            ("gfx90a", "obj", "scale_kernels.gfx90a.hsaco", b"\x7fELF"),
            ("sm_60", "mlir", "scale_kernels.mlir", b"module"),
            ("gfx90a", "binary", "scale_kernels.binary.mlir", b"module"),
            ("sm_60", "llvm", "scale_kernels.sm_60.ll", b"; ModuleID"),
            ("sm_60", "offload", "scale_kernels.sm_60.bc", b"BC\xc0\xde"),
            ("sm_60", "assembly", "scale_kernels.sm_60.ptx", b"//\n// Generated by LLVM NVPTX"),
            ("sm_60", "bin", "scale_kernels.sm_60.cubin", b"\x7fELF"),
            ("cpu", "obj", "scale_kernels.cpu.so", b"\x7fELF"),
        ],
        4,
    ),
)
def test_compile(built: Path, tmp_path: Path, target: str, emit: str, name: str, start: bytes) -> None:
    source = built / "scale.mlir"
    gpubuild("compile", source, "-t", target, "--emit", emit, cwd=tmp_path, code=0)
    assert [p.name for p in tmp_path.iterdir()] == [name]
    data = (tmp_path / name).read_bytes()
    assert data.startswith(start)
    if emit in ("llvm", "assembly", "bin", "obj"):
        assert data == (built / "build/scale" / name).read_bytes()  # as a build makes it


def test_compile_writes_objects_of_the_format_asked_for(built: Path, tmp_path: Path) -> None:
    command = ("compile", built / "scale.mlir", "-t", "sm_60", "--emit")
    gpubuild(*command, "binary", "--format", "assembly", cwd=tmp_path, code=0)
    assert 'assembly = "//' in (tmp_path / "scale_kernels.binary.mlir").read_text()
    for words, message in (
        (("bin", "--format", "assembly"), "--format is for --emit binary"),
        (("fatbin", "-t", "gfx90a"), "targets of kind rocdl have no objects of format fatbin (use bin, "),
        (("offlod",), "did you mean 'offload'?"),
    ):
        outcome = gpubuild(*command, *words, cwd=tmp_path)
        assert outcome.code == 2 and message in outcome.err


def test_compile_to_stdout(built: Path) -> None:
    for chip, line in (("sm_90", ".target sm_90"), ("gfx90a", ".amdhsa_kernel scale")):
        outcome = gpubuild("compile", "scale.mlir", "-t", chip, "--emit", "asm", "-o", "-", cwd=built)
        assert outcome.err == ""
        assert line in outcome.out


def test_compile_takes_the_canonical_text_of_a_module(built: Path, tmp_path: Path) -> None:
    (module,) = (built / "build/.gpubuild/sources").glob("*/module.0.mlir")
    gpubuild("compile", module, "-t", "sm_60", "--emit", "obj", "-o", "k.cubin", cwd=tmp_path, code=0)
    cubin = built / "build/scale/scale_kernels.sm_60.cubin"
    assert (tmp_path / "k.cubin").read_bytes() == cubin.read_bytes()


def test_inspect(built: Path, tmp_path: Path) -> None:
    outcome = gpubuild("inspect", "--json", "build/scale/scale", cwd=built)
    (module,) = outcome.document["modules"]
    assert module["name"] == "scale_kernels"
    assert {o["target"] for o in module["objects"]} == {"sm_60", "sm_90", "gfx90a", "cpu"}
    assert gpubuild("inspect", "build/scale/scale", "--extract", tmp_path, "-q", cwd=built).out == ""
    cubin = (built / "build/scale/scale_kernels.sm_60.cubin").read_bytes()
    assert cubin in [p.read_bytes() for p in tmp_path.iterdir()]
    outcome = gpubuild("inspect", "build/scale/scale", "--disassemble", "-t", "sm_60", cwd=built)
    assert ".target sm_60" in outcome.out  # the PTX, whatever there is for the rest
    assert "gfx90a" not in outcome.out
    outcome = gpubuild("inspect", "build/scale/scale", "-t", "sm_61", cwd=built)
    assert (outcome.code, "targets: cpu, gfx90a, sm_60, sm_90" in outcome.err) == (2, True)
    outcome = gpubuild("inspect", "main.c", cwd=built, code=2)
    assert outcome.out == ""


def test_inspect_several_files(built: Path, tmp_path: Path) -> None:
    files = [f"build/scale/scale_kernels.{name}" for name in ("sm_60.cubin", "gfx90a.hsaco")]
    outcome = gpubuild("inspect", *files, cwd=built)
    assert [line for line in outcome.out.splitlines() if line in files] == files
    documents = gpubuild("inspect", *files, "--json", cwd=built).document["files"]
    assert documents == [gpubuild("inspect", file, "--json", cwd=built).document for file in files]
    both = ["build/scale/scale", "build/scale/scale_kernels.sm_60.ptx"]
    outcome = gpubuild("inspect", *both, "--disassemble", "-t", "sm_60", cwd=built)
    heads = [line for line in outcome.out.splitlines() if line.startswith("; ")]
    for file in both:
        assert [head for head in heads if head.startswith(f"; {file}: @") and "sm_60 (assembly)" in head]
    gpubuild("inspect", *files, "--extract", tmp_path, "-q", cwd=built, code=0)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".cubin", ".hsaco"]
    outcome = gpubuild("inspect", *files, "-t", "sm_61", cwd=built)
    assert (outcome.code, "targets: gfx90a, sm_60" in outcome.err) == (2, True)


def test_a_dry_run_says_scanned(project: Path) -> None:
    (project / "main.c").write_text((project / "main.c").read_text() + "int more(void) { return 1; }\n")
    lines = gpubuild("build", "-n", cwd=project).out.splitlines()
    assert lines[-1].startswith("11 steps: 1 scanned, 8 up to date, 2 would run in "), lines
    assert any(line.startswith("scanned     preprocess/main.c") for line in lines), lines
    assert not any("ran" in line.split() for line in lines), lines


def test_cache_export_takes_one_file(built: Path, tmp_path: Path) -> None:
    for arguments in ((tmp_path / "a.tar",), ("-o", tmp_path / "b.tar")):
        gpubuild("cache", "export", *arguments, "-q", cwd=built, code=0)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
    for arguments in ((), (tmp_path / "a.tar", "-o", tmp_path / "b.tar")):
        outcome = gpubuild("cache", "export", *arguments, cwd=built)
        assert (outcome.code, "name the one file that cache export writes" in outcome.err) == (2, True)


def test_doctor(tmp_path: Path) -> None:
    outcome = gpubuild("doctor", "--json", cwd=tmp_path, code=0)
    tools = {t["name"]: t for t in outcome.document["tools"]}
    assert tools["ptxas"]["found"]
    assert len(tools["mlir"]["fingerprint"]) == 64
    assert list(tmp_path.iterdir()) == []
    assert outcome.document["targets"] == []
    targets = "sm_90: {}, mi200: {chip: gfx90a}, cpu: {}"
    (tmp_path / "targets.yaml").write_text(project_file("p: {sources: [p.mlir]}", targets=targets))
    assert "targets.yaml has errors" in gpubuild("doctor", cwd=tmp_path).err  # there is no p.mlir
    (tmp_path / "p.mlir").touch()
    without = {"GPUBUILD_PTXAS": str(tmp_path / "missing")}
    document = gpubuild("doctor", "--json", cwd=tmp_path, env=without).document
    assert {t["name"]: (t["found"], t["missing"]) for t in document["targets"]} == {
        "sm_90": (False, ["ptxas"]),
        "mi200": (True, []),
        "cpu": (True, []),
    }
    shown = gpubuild("doctor", cwd=tmp_path, env=without, code=2).out
    assert re.search(r"^missing  sm_90 +nvvm  sm_90 +needs ptxas$", shown, re.MULTILINE)
    assert re.search(r"^ok       cpu +cpu +.* ld.lld, libdevice$", shown, re.MULTILINE)


def test_clean_and_cache(project: Path) -> None:
    gpubuild("clean", cwd=project, code=0)
    assert not (project / "build").exists()
    gpubuild("build", "-q", cwd=project, code=0)
    before = gpubuild("cache", "stats", "--json", cwd=project).document
    assert before["records"] > 0
    assert before["size_bytes"] > 0
    freed = gpubuild("cache", "clear", "--json", cwd=project).document
    assert freed["freed_bytes"] > 0
    assert gpubuild("cache", "stats", "--json", cwd=project).document["blobs"] == 0
    gpubuild("build", cwd=project, code=0)


def dumped(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[2] for path in folder.iterdir())


def test_ir_of_every_stage_can_be_had(project: Path) -> None:
    before = (project / "build/scale/scale").read_bytes()
    outcome = gpubuild("build", "--dump-ir", "ir", "-t", "sm_90", "-t", "cpu", "--json", cwd=project)
    statuses = outcome.statuses()
    assert statuses["scale/compile/scale_kernels/sm_90"] == "ran"
    assert statuses["cc/main.c"] == "up-to-date"
    steps = project / "ir/scale/compile/scale_kernels"
    assert sorted(path.name for path in steps.iterdir()) == ["cpu", "sm_90"]
    device = {path.name: path.read_text() for path in (steps / "sm_90").iterdir()}
    assert "gpu.global_id" in device["01-input.mlir"]
    # A file has the name of the pass that made it; passes that change nothing leave none.
    passes = {name.partition("-")[2]: text for name, text in device.items()}
    assert "scf" not in passes["lower-to-blocks.mlir"]
    assert "llvm.func @scale" in passes["convert-to-nvvm.mlir"]
    llvm = [text for name, text in device.items() if name.endswith(".ll")]
    assert any("define ptx_kernel void @scale" in text for text in llvm)
    assert {"lower-host.mlir", "optimise.ll"} <= set(dumped(project / "ir/scale/host"))
    # Nothing is different for it, and a later dump replaces the files.
    gpubuild("build", "--dump-ir", "ir", cwd=project, code=0)
    assert (project / "build/scale/scale").read_bytes() == before
    assert {path.name: path.read_text() for path in (steps / "sm_90").iterdir()} == device
    assert set(gpubuild("build", "--json", cwd=project).statuses().values()) == {"up-to-date"}


def test_ir_of_a_failed_step_can_be_had(project: Path) -> None:
    passes = "builtin.module(canonicalize)"  # which leave the kernel as it is
    outcome = gpubuild(
        *("compile", "scale.mlir", "-t", "sm_90", "--emit", "asm", "-o", "-"),
        *("--passes", passes, "--dump-ir", "ir"),
        cwd=project,
    )
    assert outcome.code != 0
    assert "gpu.func" in outcome.err
    (left,) = (project / "ir").rglob("*-input.mlir")
    assert "gpu.func @scale" in left.read_text()


def test_ir_is_not_written_where_it_cannot_be(project: Path) -> None:
    (project / "ir").write_text("a file")
    outcome = gpubuild("build", "--dump-ir", "ir", cwd=project, code=2)  # before any step is tried
    assert "cannot write IR into" in outcome.err
    assert "choose another folder with --dump-ir" in outcome.err
    gpubuild("build", cwd=project, code=0)


def test_check(built: Path, tmp_path: Path) -> None:
    project = tmp_path / "demo"
    shutil.copytree(built, project, symlinks=True, ignore=shutil.ignore_patterns("build"))
    outcome = gpubuild("check", cwd=project)
    assert outcome == Outcome(0, "1 program, 1 gpu.module, 4 targets, 11 steps: no errors\n", "")
    assert not list((project / "build").glob("scale"))  # nothing compiled
    source = (project / "scale.mlir").read_text()
    (project / "scale.mlir").write_text(source.replace("gpu.return", "gpu.retrun"))
    outcome = gpubuild("check", cwd=project, code=1)
    assert re.search(r"^scale.mlir:\d+:\d+: error: custom op 'gpu.retrun' is unknown$", outcome.err, re.M)
    assert outcome.out == "1 error\n"
    (failed,) = (s for s in gpubuild("check", "--json", cwd=project).document["steps"] if "error" in s)
    assert failed["id"] == "outline/scale.mlir"
    (found,) = failed["error"]["diagnostics"]
    line = source[: source.index("gpu.return")].count("\n") + 1
    assert (found["file"], found["line"], found["column"]) == ("scale.mlir", line, 7)
    (project / "targets.yaml").write_text((project / "targets.yaml").read_text().replace("sm_60", "sm_61x"))
    outcome = gpubuild("check", cwd=project)
    assert (outcome.code, "sm_61x" in outcome.err) == (2, True)


def test_the_hook_for_pre_commit_runs_check() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert parse(hook["entry"].split()[1:]).parser.prog == hook["entry"]
    assert re.search(hook["files"], "kernels/a.mlir")
    assert re.search(hook["files"], "targets.yaml")
    assert not re.search(hook["files"], "main.c")


@pytest.mark.parametrize("command", few(["build", "check", "run", "test", "install"], 2))
def test_messages_for_ci_services(project: Path, command: str) -> None:
    edit(project / "scale.mlir", "memref.store", "memref.stre")
    more = ["--prefix", "p"] if command == "install" else []
    outcome = gpubuild(command, *more, "--message-format", "github", cwd=project, code=1)
    [annotation] = [line for line in outcome.err.splitlines() if line.startswith("::")]
    assert re.fullmatch(
        r"::error file=scale.mlir,line=\d+,col=9,endColumn=20,title=gpubuild%3A invalid MLIR"
        r"::custom op 'memref.stre' is unknown%0Ahint: did you mean memref.store.*",
        annotation,
    )
    assert "\n          ^\n" in outcome.err, "the text stays"
    if command == "build":
        outcome = gpubuild(command, "--message-format=sarif:out.sarif", cwd=project, code=1)
        assert "::error" not in outcome.err
        [run] = json.loads((project / "out.sarif").read_text())["runs"]
        [result] = run["results"]
        assert result["ruleId"] == "step"
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "scale.mlir"


def test_a_document_of_a_command_without_errors(built: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.sarif"
    for command in ("build", "run"):  # nothing to do; replaced by the program
        outcome = gpubuild(command, "--message-format", f"sarif:{file}", cwd=built, env=CPU, code=0)
        [run] = json.loads(file.read_text())["runs"]
        assert run["results"] == []
        assert run["invocations"][0]["executionSuccessful"] is True
        file.unlink()
    outcome = gpubuild("build", "--message-format", f"sarif:{tmp_path}/no/folder", cwd=built)
    assert (outcome.code, "error: cannot write" in outcome.err) == (2, True)


def test_messages_about_the_command_line(tmp_path: Path) -> None:
    for words, message in (
        (["build", "--jbos", "3", "--message-format", "github"], "unrecognized arguments: --jbos"),
        (["build", "--message-format", "github"], "cannot read the project file"),
        (["build", "--message-format", "sarif"], "name the file to write, as sarif:errors.sarif"),
        (["build", "--message-format", "xml"], "expected text, github or sarif:FILE"),
    ):
        outcome = gpubuild(*words, cwd=tmp_path, code=2)
        assert message in outcome.err
        assert outcome.err.count("::error ") == ("github" in words)
