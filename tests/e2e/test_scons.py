"""SCons: ``Tool("gpubuild")`` on a real project."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from e2e.built_examples import built_examples
from e2e.command import ROOT, edit, gpubuild, run_on_cpu, seed
from e2e.scons_project import OK, copy_of_the_project, done, scons, the_project
from variants import few

from gpubuild.build.log import read_log

# An edit of main.c.
EXTRA = ("int main(void) {", "int extra(void);\nint main(void) {\n  if (extra() != 7) return 9;")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return copy_of_the_project(tmp_path)


def test_it_builds_and_a_copy_is_up_to_date_too(project: Path) -> None:
    assert run_on_cpu(project / "build/scale/scale").out == OK
    assert "up to date" in scons(cwd=project).out


def test_same_bytes_and_same_cache_as_the_command(project: Path) -> None:
    built = the_project()
    shutil.rmtree(project / "build")
    statuses = gpubuild("build", "--json", cwd=project).statuses()
    assert set(statuses.values()) == {"hit-local"}
    for path in (built / "build/scale").iterdir():
        assert (project / "build/scale" / path.name).read_bytes() == path.read_bytes()


def test_there_is_a_node_for_each_module_and_target(project: Path) -> None:
    tree = scons("-n", "--tree=prune", "build/scale/scale", cwd=project).out
    for name in ("scale_kernels.sm_60.cubin", "scale_kernels.gfx90a.hsaco", "scale_kernels.cpu.so"):
        assert f"build/scale/{name}" in tree
    assert "build/scale/scale_kernels.images.o" in tree
    assert "build/scale/host.o" in tree
    (project / "build/scale/scale_kernels.sm_60.cubin").unlink()
    assert done(scons("build/scale/scale_kernels.sm_60.cubin", cwd=project)) == {
        "compile @scale_kernels for sm_60 (scale)"
    }


def test_without_a_cache(project: Path) -> None:
    edit(project / "SConstruct", '"gpubuild"]', '"gpubuild"], GPUBUILD_CACHE=False')
    for name in ("build", "cache"):
        shutil.rmtree(project / name)
    ran = done(scons("build/scale/scale_kernels.sm_60.cubin", cwd=project))
    assert "compile @scale_kernels for sm_60 (scale)" in ran
    assert not (project / "cache").exists()


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


def test_a_source_with_a_dollar_in_its_name(project: Path) -> None:
    (project / "main.c").rename(project / "a$main.c")
    edit(project / "targets.yaml", "main.c", "a$main.c")
    assert done(scons(cwd=project))
    assert "up to date" in scons(cwd=project).out


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


MISTAKES = {
    '"scael", "targets.yaml"': "did you mean 'scale'?",
    '"scale", "target.yaml", GPUBUILD_DIR="#one"': "target.yaml: error: cannot read the project file",
    '"scale", ["scale.mlir", "main.c"]': "a project file is expected, not scale.mlir, main.c",
    '"scale", "build", GPUBUILD_DIR="#two"': "a project file is expected, not build",
    '["scale"], "targets.yaml"': "the name of a program is a text, not ['scale']",
    '"scale", "targets.yaml", opt_level=2': "there is no argument 'opt_level'",
    '"scale", GPUBUILD_DIRS="#x"': "did you mean 'GPUBUILD_DIR'?",
    '"scale", GPUBUILD_DEFINES=["A"]': "GPUBUILD_DEFINES is a dictionary such as",
}


def test_mistakes_in_the_sconstruct(project: Path) -> None:
    """Each ends SCons; all but the last are caught."""
    *caught, last = (f"env.GpuProgram({arguments})" for arguments in MISTAKES)
    lines = [f"try: {call}\nexcept SystemExit as end: print('code', end.code)" for call in caught]
    lines = ['env = Environment(tools=["default", "gpubuild"])', *lines, last]
    (project / "SConstruct").write_text("\n".join(lines))
    outcome = scons(cwd=project)
    assert (outcome.code, outcome.out) == (2, "code 2\n" * len(caught))
    assert "Traceback" not in outcome.err
    for number, (text, said) in enumerate(
        zip(MISTAKES.values(), outcome.err.split("scons: *** ")[1:], strict=True), 1
    ):
        assert text in said
        assert f'File "{project}/SConstruct", line {2 * number}' in said


def test_beside_ordinary_objects_and_in_a_subfolder(project: Path) -> None:
    """What other builders make is linked in; here all of it lies beside a SConscript."""
    sub = project / "sub"
    sub.mkdir()
    for name in ("scale.mlir", "main.c", "targets.yaml", "cache"):
        shutil.move(project / name, sub / name)
    edit(sub / "main.c", *EXTRA)
    (sub / "extra.cpp").write_text(
        '#include <vector>\nextern "C" int extra() { return std::vector<int>(7).size(); }\n'
    )
    (project / "SConstruct").write_text('SConscript("sub/SConscript")\n')
    (sub / "SConscript").write_text(
        'env = Environment(tools=["default", "gpubuild"], CXXFLAGS="-O1")\n'
        'ours = env.Object("extra.cpp")\n'
        'program = env.GpuProgram("scale", "targets.yaml", objects=ours, GPUBUILD_DIR="#out")\n'
        'assert program[0].path == "out/scale/scale", program[0]\n'
    )
    with (project / "SConstruct").open("a") as stream:
        stream.write('CacheDir("scons-cache")\n')
    outcome = scons("out", cwd=project)
    assert outcome.code == 0, outcome.err
    assert run_on_cpu(project / "out/scale/scale").out == OK
    # SCons would ask its cache before it is known which libraries a link reads.
    cached = [path.read_bytes() for path in (project / "scons-cache").rglob("*") if path.is_file()]
    assert (project / "sub/extra.o").read_bytes() in cached
    assert (project / "out/scale/scale").read_bytes() not in cached
    assert "up to date" in scons("out", cwd=project).out
    edit(sub / "extra.cpp", "(7)", "(8)")
    assert done(scons("out", cwd=project)) == {"link scale"}
    assert run_on_cpu(project / "out/scale/scale").code == 9


@pytest.mark.parametrize("product", few(["shared", "static", "object"]))
def test_a_library_is_linked_by_scons(project: Path, product: str) -> None:
    text, _, _ = (project / "targets.yaml").read_text().partition("    tests:\n")
    (project / "targets.yaml").write_text(
        text.replace("[scale.mlir, main.c]", f"[scale.mlir]\n    product: {product}")
    )
    (project / "extra.c").write_text("int extra(void) { return 7; }\n")
    edit(project / "main.c", *EXTRA)
    (project / "SConstruct").write_text(
        'env = Environment(tools=["default", "gpubuild"], LIBS=["m", "dl", "pthread"])\n'
        'library = env.GpuProgram("scale", "targets.yaml", objects=env.Object("extra.c", CCFLAGS="-fPIC"))\n'
        'env.Program("app", ["main.c", library], RPATH=[library[0].dir.abspath])\n'
    )
    outcome = scons(cwd=project)
    assert outcome.code == 0, outcome.err
    assert run_on_cpu(project / "app").out == OK
    assert "up to date" in scons(cwd=project).out
    edit(project / "extra.c", "7", "8")
    assert done(scons(cwd=project))
    assert run_on_cpu(project / "app").code == 9


def test_a_project_in_a_repository_is_refused(project: Path, tmp_path: Path) -> None:
    """Each of its sources could be here or there; programs are built from those beside the project file."""
    shutil.copy(project / "SConstruct", tmp_path)
    outcome = scons("-Y", str(project), cwd=tmp_path)
    assert outcome.code == 2
    assert f"targets.yaml exists only in a repository, as {project}/targets.yaml" in outcome.err


def test_an_interrupt_leaves_nothing_half_made(project: Path) -> None:
    for name in ("build", "cache"):
        shutil.rmtree(project / name)
    seed(project)
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


def test_the_repositorys_own_sconstruct_checks_examples(tmp_path: Path) -> None:
    """Two of them, of which one prints something else; README's quick start does all."""
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(ROOT / "SConstruct", copy)
    project = yaml.safe_load((ROOT / "targets.yaml").read_text())
    project["programs"] = {name: project["programs"][name] for name in ("reduction", "saxpy")}
    (copy / "targets.yaml").write_text(json.dumps(project))
    for name in project["programs"]:
        shutil.copytree(ROOT / "examples" / name, copy / "examples" / name)
    shutil.copytree(built_examples() / "cache", copy / "cache")
    (copy / "examples/saxpy/expected.txt").write_text("saxpy: OK (n = 7, max error 0)\n")
    outcome = scons("-j2", "run", cwd=copy)
    assert outcome.code != 0
    assert re.search(r"^reduction +ok  ", outcome.out, re.M), outcome.out + outcome.err
    assert re.search(r"^saxpy +FAILED  line 1: expected", outcome.out, re.M)
    assert "2 programs: 1 ok, 1 failed (saxpy)" in outcome.out
