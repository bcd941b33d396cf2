"""SCons: ``Tool("gpubuild")`` on a real project."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.command import ROOT, Outcome, gpubuild, run_on_cpu

from gpubuild.buildlog import read_log

SCONSTRUCT = """\
env = Environment(tools=["default", "gpubuild"])
program = env.GpuProgram("scale", "targets.yaml")
env.Alias("scale", program)
"""
OK = "scale: OK (0 of 1000 elements wrong)\n"


def scons(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> Outcome:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUBUILD_")} | (env or {})
    done = subprocess.run(
        [sys.executable, "-m", "SCons", "-Q", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scons")
    assert gpubuild("init", "demo", cwd=folder).code == 0
    project = folder / "demo"
    (project / "SConstruct").write_text(SCONSTRUCT)
    outcome = scons("-j2", cwd=project)
    assert (outcome.code, outcome.err) == (0, "")
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A copy at another path, with everything SCons and the build know of it."""
    return Path(shutil.copytree(built, tmp_path / "demo", symlinks=True))


def done(outcome: Outcome) -> set[str]:
    """What SCons ran; the build must have worked."""
    assert outcome.code == 0, outcome.out + outcome.err
    return {
        line.removeprefix("gpubuild: ") for line in outcome.out.splitlines() if line.startswith("gpubuild: ")
    }


def test_it_builds_and_is_then_up_to_date(built: Path) -> None:
    assert run_on_cpu(built / "build/scale/scale").out == OK
    assert "up to date" in scons(cwd=built).out


def test_a_copy_is_up_to_date_too(project: Path) -> None:
    assert "up to date" in scons(cwd=project).out


def test_same_bytes_and_same_cache_as_the_command(built: Path, project: Path) -> None:
    shutil.rmtree(project / "build")
    statuses = gpubuild("build", "--json", "--cache-dir", str(built / "cache"), cwd=project).statuses()
    assert set(statuses.values()) == {"hit-local"}
    for path in (built / "build/scale").iterdir():
        assert (project / "build/scale" / path.name).read_bytes() == path.read_bytes()


def test_there_is_a_node_for_each_module_and_target(project: Path) -> None:
    tree = scons("-n", "--tree=prune", "build/scale/scale", cwd=project).out
    for name in ("scale_kernels.sm_60.cubin", "scale_kernels.gfx90a.hsaco", "scale_kernels.cpu.so"):
        assert f"build/scale/{name}" in tree
    assert "build/scale/scale_kernels.binary.mlir" in tree
    assert "build/scale/host.o" in tree
    (project / "build/scale/scale_kernels.sm_60.cubin").unlink()
    assert done(scons("build/scale/scale_kernels.sm_60.cubin", cwd=project)) == {
        "compile @scale_kernels for sm_60 (scale)"
    }


def test_a_deleted_output_is_restored_alone(project: Path) -> None:
    cubin = project / "build/scale/scale_kernels.sm_90.cubin"
    content = cubin.read_bytes()
    cubin.unlink()
    assert done(scons(cwd=project)) == {"compile @scale_kernels for sm_90 (scale)"}
    assert cubin.read_bytes() == content


def test_a_comment_recompiles_nothing(project: Path) -> None:
    source = project / "scale.mlir"
    source.write_text("// a comment\n" + source.read_text())
    assert done(scons(cwd=project)) == {"split scale.mlir"}


def test_a_kernel_edit_and_back(project: Path) -> None:
    edit(project / "scale.mlir", "arith.mulf", "arith.addf")
    ran = done(scons("-j2", cwd=project))
    assert {f"compile @scale_kernels for {t} (scale)" for t in ("sm_60", "sm_90", "gfx90a", "cpu")} <= ran
    assert "compile main.c" not in ran
    logged = read_log(project / "build/.gpubuild/builds.jsonl").builds[-1]
    assert "scale/compile/scale_kernels/sm_90" in {step.id for step in logged.steps}
    assert run_on_cpu(project / "build/scale/scale").code == 1
    edit(project / "scale.mlir", "arith.addf", "arith.mulf")
    # Whatever the user's other nodes go by, ours go by content: times say nothing of what caches give.
    edit(project / "SConstruct", "env = ", 'Decider("timestamp-newer")\nenv = ')
    for path in (project / "build/scale").iterdir():
        os.utime(path, (4e9, 4e9))
    done(scons(cwd=project))
    assert run_on_cpu(project / "build/scale/scale").out == OK


def test_an_option_recompiles_its_target_and_explain_says_so(project: Path) -> None:
    edit(project / "targets.yaml", "sm_90: {}", "sm_90: {opt_level: 1}")
    outcome = scons("--debug=explain", cwd=project)
    assert {r for r in done(outcome) if r.startswith("compile")} == {
        "compile @scale_kernels for sm_90 (scale)"
    }
    (old,) = [line for line in outcome.out.splitlines() if "old: compile @scale_kernels for sm_90" in line]
    (new,) = [line for line in outcome.out.splitlines() if "new: compile @scale_kernels for sm_90" in line]
    assert ("opt_level=3" in old, "opt_level=1" in new) == (True, True)


def test_a_header_is_a_dependency(project: Path) -> None:
    (project / "factor.h").write_text("#define FACTOR 3.0f\n")
    edit(project / "main.c", "#include <stdio.h>", '#include <stdio.h>\n#include "factor.h"')
    edit(project / "main.c", "3.0f, &x", "FACTOR, &x")
    done(scons(cwd=project))
    assert run_on_cpu(project / "build/scale/scale").out == OK
    assert "up to date" in scons(cwd=project).out
    (project / "factor.h").write_text("#define FACTOR 4.0f\n")
    assert done(scons(cwd=project)) == {"preprocess main.c", "compile main.c", "link scale"}
    assert run_on_cpu(project / "build/scale/scale").code == 1


def test_dry_run_builds_nothing(project: Path) -> None:
    shutil.rmtree(project / "build")
    outcome = scons("-n", cwd=project)
    assert "link scale" in done(outcome)
    assert not (project / "build/scale").exists()


def test_clean_removes_what_was_built(project: Path) -> None:
    (project / "build/scale/notes.txt").write_text("mine")
    assert scons("-c", cwd=project).code == 0
    assert [p.name for p in (project / "build/scale").iterdir()] == ["notes.txt"]
    # Reading the project has split and preprocessed the sources again, with the same outcome.
    assert len(done(scons(cwd=project))) == 9
    assert run_on_cpu(project / "build/scale/scale").out == OK


def test_a_mistake_in_a_source_ends_scons_with_its_place(project: Path) -> None:
    edit(project / "scale.mlir", "arith.mulf %factor, %old : f32", "arith.mulf %factor, %i : f32")
    outcome = scons(cwd=project)
    assert outcome.code == 2
    assert "scale.mlir:9:36: error:" in outcome.err
    assert "Traceback" not in outcome.err
    assert scons("-c", cwd=project).code == 0  # what cannot be planned can be cleaned


def test_a_failing_step_fails_alone_under_k(project: Path) -> None:
    edit(project / "targets.yaml", "sm_90: {}", 'sm_90: {passes: "builtin.module(no-such-pass)"}')
    edit(project / "targets.yaml", "gfx90a: {}", "gfx90a: {opt_level: 1}")
    outcome = scons("-k", cwd=project)
    assert outcome.code != 0
    assert "no-such-pass" in outcome.err
    assert "scons: *** [build/scale/scale_kernels.sm_90.ll] Error 1" in outcome.err
    assert "compile @scale_kernels for gfx90a (scale)" in outcome.out
    assert not (project / "build/scale/scale_kernels.sm_90.cubin").exists()
    edit(project / "targets.yaml", 'sm_90: {passes: "builtin.module(no-such-pass)"}', "sm_90: {}")
    assert scons(cwd=project).code == 0
    assert run_on_cpu(project / "build/scale/scale").out == OK


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"scale", ', '"scael", ', "did you mean 'scale'?"),
        ('"targets.yaml"', '"target.yaml"', "target.yaml: error: cannot read the project file"),
    ],
)
def test_mistakes_in_the_sconstruct(project: Path, old: str, new: str, message: str) -> None:
    edit(project / "SConstruct", old, new)
    outcome = scons(cwd=project)
    assert outcome.code == 2
    assert message in outcome.err
    assert f'File "{project}/SConstruct", line 2' in outcome.err
    assert "Traceback" not in outcome.err


def test_beside_ordinary_objects_and_in_a_subfolder(project: Path) -> None:
    """What other builders make is linked in; here all of it lies beside a SConscript."""
    sub = project / "sub"
    sub.mkdir()
    for name in ("scale.mlir", "main.c", "targets.yaml"):
        shutil.move(project / name, sub / name)
    edit(
        sub / "main.c",
        "int main(void) {",
        "int extra(void);\nint main(void) {\n  if (extra() != 7) return 9;",
    )
    (sub / "extra.cpp").write_text(
        '#include <vector>\nextern "C" int extra() { return std::vector<int>(7).size(); }\n'
    )
    (project / "SConstruct").write_text('SConscript("sub/SConscript")\n')
    (sub / "SConscript").write_text(
        'env = Environment(tools=["default", "gpubuild"], GPUBUILD_DIR="#out", CXXFLAGS="-O1")\n'
        'program = env.GpuProgram("scale", "targets.yaml", objects=env.Object("extra.cpp"))\n'
        'assert program[0].path == "out/scale/scale", program[0]\n'
    )
    outcome = scons("out", cwd=project)
    assert outcome.code == 0, outcome.err
    assert run_on_cpu(project / "out/scale/scale").out == OK
    assert "up to date" in scons("out", cwd=project).out
    edit(sub / "extra.cpp", "(7)", "(8)")
    assert done(scons("out", cwd=project)) == {"link scale"}
    assert run_on_cpu(project / "out/scale/scale").code == 9


def test_an_interrupt_leaves_nothing_half_made(project: Path) -> None:
    for name in ("build", "cache"):
        shutil.rmtree(project / name)
    with subprocess.Popen(
        [sys.executable, "-m", "SCons", "-Q", "-j2"],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode != 0
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert scons(cwd=project).code == 0
    assert run_on_cpu(project / "build/scale/scale").out == OK


SHOWN = """
import sys
for path in ("build/scale/scale", "build/scale/scale_kernels.cpu.so", "build/scale/host.o"):
    made = File(path)
    action = made.get_executor().get_contents()
    depends = sorted(str(n) for n in made.depends)
    print("NODE", path, action, sorted(map(str, made.sources)), depends, made.precious)
for node in Glob("build/.gpubuild/sources/*/*") + Glob("build/.gpubuild/runtime/*"):
    if node.has_builder():
        print("NODE", node, node.get_executor().get_contents(), len(node.depends))
print("PLANNED", "gpubuild.config.load" in sys.modules)
"""


def nodes(outcome: Outcome) -> list[str]:
    return [line for line in outcome.out.splitlines() if line.startswith("NODE")]


def planned(outcome: Outcome) -> bool:
    assert outcome.code == 0, outcome.out + outcome.err
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("PLANNED")]
    return line == "PLANNED True"


@pytest.fixture
def sketched(project: Path) -> Path:
    """A project whose nodes the next `scons` need not plan."""
    (project / "SConstruct").write_text(SCONSTRUCT + SHOWN)
    outcome = scons(cwd=project)
    assert planned(outcome)
    assert (project / "build/.gpubuild/scons-sketch").exists()
    return project


def test_with_nothing_changed_nothing_is_planned_and_signatures_are_the_same(sketched: Path) -> None:
    quick = scons("--debug=explain", cwd=sketched)
    assert not planned(quick)
    assert "up to date" in quick.out
    (sketched / "build/.gpubuild/scons-sketch").unlink()
    whole = scons("--debug=explain", cwd=sketched)
    assert planned(whole)
    assert "up to date" in whole.out
    assert len(nodes(whole)) > 5
    assert nodes(quick) == nodes(whole)


def test_a_step_of_a_sketch_runs_when_scons_wants_it(sketched: Path) -> None:
    """SCons has forgotten everything: all steps are its to run, in job threads, none has work."""
    (sketched / ".sconsign.dblite").unlink()
    outcome = scons("-j3", cwd=sketched)
    assert not planned(outcome)  # when the SConstruct was read
    assert len(done(outcome)) == 11
    outcome = scons(cwd=sketched)
    assert not planned(outcome)
    assert "up to date" in outcome.out


def test_what_changed_after_a_sketch_is_noticed(sketched: Path) -> None:
    sketch = sketched / "build/.gpubuild/scons-sketch"
    split = sketched / "build/.gpubuild/sources/scale.mlir/index.json"

    def steps(env: dict[str, str] | None = None) -> set[str]:
        assert sketch.exists()  # and held before what is noticed now
        outcome = scons(cwd=sketched, env=env)
        assert planned(outcome)
        return done(outcome)

    source = sketched / "scale.mlir"
    source.write_text("// a comment\n" + source.read_text())
    assert steps() == {"split scale.mlir"}
    edit(sketched / "targets.yaml", "sm_90: {}", "sm_90: {opt_level: 1}")
    assert "compile @scale_kernels for sm_90 (scale)" in steps()
    (sketched / "build/scale/scale_kernels.cpu.so").unlink()
    assert steps() == {"compile @scale_kernels for cpu (scale)"}
    split.unlink()
    steps()
    assert split.exists()
    split.with_name("foreign.txt").touch()
    steps()
    split.with_name("foreign.txt").unlink()
    steps()
    sketch.write_bytes(sketch.read_bytes()[:-100])
    assert steps() == set()
    assert steps({"GPUBUILD_LIBDEVICE": str(libdevice(sketched / "other.bc"))}) != set()


def libdevice(copy: Path) -> Path:
    """Another libdevice than the installed one."""
    import nvidia

    (found,) = [p for f in nvidia.__path__ for p in Path(f).glob("cuda_nvcc/nvvm/libdevice/libdevice.10.bc")]
    copy.write_bytes(found.read_bytes() + b"\0\0\0\0")
    old = found.stat()
    os.utime(copy, ns=(old.st_atime_ns, old.st_mtime_ns))
    return copy


def test_a_header_edited_after_a_sketch_is_noticed(project: Path) -> None:
    (project / "SConstruct").write_text(SCONSTRUCT + SHOWN)
    (project / "factor.h").write_text("#define FACTOR 3.0f\n")
    edit(project / "main.c", "#include <stdio.h>", '#include <stdio.h>\n#include "factor.h"')
    edit(project / "main.c", "3.0f, &x", "FACTOR, &x")
    scons(cwd=project)
    assert not planned(scons(cwd=project))
    (project / "factor.h").write_text("#define FACTOR 4.0f\n")
    assert {"compile main.c", "link scale"} <= done(scons(cwd=project))
    assert run_on_cpu(project / "build/scale/scale").code == 1
    assert not planned(scons(cwd=project))


def test_objects_of_others_and_a_second_project_need_the_whole_project(sketched: Path) -> None:
    (sketched / "extra.c").write_text("int extra(void) { return 7; }\n")
    text = SCONSTRUCT.replace('"targets.yaml")', '"targets.yaml", objects=env.Object("extra.c"))')
    (sketched / "SConstruct").write_text(text + SHOWN)
    for ran in ({"link scale"}, set()):
        outcome = scons(cwd=sketched)
        assert planned(outcome)
        assert done(outcome) == ran
        assert not (sketched / "build/.gpubuild/scons-sketch").exists()
    (sketched / "SConstruct").write_text(SCONSTRUCT + SHOWN)
    assert done(scons(cwd=sketched)) == {"link scale"}
    assert not planned(scons(cwd=sketched))
    shutil.copy(sketched / "targets.yaml", sketched / "other.yaml")
    (sketched / "SConstruct").write_text(SCONSTRUCT + 'env.GpuProgram("scale", "other.yaml")\n')
    outcome = scons(cwd=sketched)
    assert outcome.code == 2
    assert "would both build in" in outcome.err


def test_cleaning_from_a_sketch(sketched: Path) -> None:
    assert not planned(scons("-c", cwd=sketched))
    assert not any((sketched / "build/scale").iterdir())
    assert len(done(scons(cwd=sketched))) == 9
    assert run_on_cpu(sketched / "build/scale/scale").out == OK


def test_the_repositorys_own_sconstruct_checks_every_example(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("SConstruct", "targets.yaml"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "examples", copy / "examples")
    outcome = scons("-j2", "run", cwd=copy)
    assert outcome.code == 0, outcome.out + outcome.err
    names = sorted(p.name for p in (copy / "examples").iterdir())
    lines = outcome.out.splitlines()
    assert lines[-1] == f"{len(names)} programs: {len(names)} ok"
    assert sorted(line.split()[0] for line in lines if "  ok  " in line) == names
    (copy / "examples/saxpy/expected.txt").write_text("saxpy: OK (n = 7, max error 0)\n")
    outcome = scons("run", cwd=copy)
    assert outcome.code != 0
    assert re.search(r"^saxpy +FAILED  line 1: expected", outcome.out, re.M)
