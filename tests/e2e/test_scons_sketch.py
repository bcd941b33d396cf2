"""SCons with a sketch of the project: nothing is planned, and nothing that changed is overlooked."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from e2e.command import Outcome, edit, run_on_cpu
from e2e.scons_project import OK, SCONSTRUCT, copy_of_the_project, done, scons

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
def project(tmp_path: Path) -> Path:
    return copy_of_the_project(tmp_path)


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
    assert run_on_cpu(project / "build/scale/scale").out == OK
    again = scons(cwd=project)
    assert ("up to date" in again.out, planned(again)) == (True, False)
    (project / "factor.h").write_text("#define FACTOR 4.0f\n")
    assert done(scons(cwd=project)) == {"preprocess main.c", "compile main.c", "link scale"}
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


def test_a_profile_and_macros(project: Path) -> None:
    """Each variant has a folder, and a sketch that proves nothing for another one."""
    yaml = project / "targets.yaml"
    yaml.write_text(yaml.read_text() + "profiles: {debug: {defaults: {opt_level: 0}}}\n")
    (project / "SConstruct").write_text(
        SCONSTRUCT.replace('"targets.yaml"', 'GPUBUILD_CONFIG="debug", GPUBUILD_DEFINES={"N": 2}')
    )
    outcome = scons(cwd=project)
    assert outcome.code == 0, outcome.err
    assert run_on_cpu(project / "build-debug/scale/scale").out == OK
    assert "up to date" in scons(cwd=project).out
    (project / "SConstruct").write_text((project / "SConstruct").read_text().replace('"N": 2', '"N": 3'))
    assert "preprocess main.c" in scons(cwd=project).out
    both = SCONSTRUCT + 'env.GpuProgram("scale", GPUBUILD_DEFINES={"N": 2})\n'
    (project / "SConstruct").write_text(both)
    assert "two variants of" in scons(cwd=project).err
