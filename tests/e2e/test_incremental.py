"""What is rebuilt and what is not, with the real tool chain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from e2e.command import SAXPY, build_project, gpubuild, project_file, run_on_cpu, saxpy_project, seed, write

COMPILES = {f"saxpy/compile/saxpy_kernels/{t}" for t in ("sm_60", "sm_90", "gfx90a", "cpu")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has been built once; tests copy it, cache and all."""
    project = saxpy_project(tmp_path_factory.mktemp("built") / "project")
    outcome = gpubuild("build", "--json", cwd=project, seeded=True, code=0)
    assert which(outcome.statuses(), "ran") == outcome.statuses().keys() - {"runtime"}
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A copy at another path, with the times of its files kept."""
    return Path(shutil.copytree(built, tmp_path / "copy", symlinks=True))


def build(project: Path, *arguments: str, seeded: bool = False) -> dict[str, str]:
    outcome = gpubuild("build", "--json", *arguments, cwd=project, seeded=seeded, code=0)
    return outcome.statuses()


def which(statuses: dict[str, str], *wanted: str) -> set[str]:
    return {step for step, status in statuses.items() if status in wanted}


def test_a_comment_and_a_touch_recompile_nothing(project: Path) -> None:
    source = project / "saxpy.mlir"
    source.write_text("// a comment\n" + source.read_text().replace("%sum", "%total"))
    os.utime(project / "main.c")
    statuses = build(project)
    assert which(statuses, "ran") == {"outline/saxpy.mlir"}
    assert which(statuses, "hit-local") == set()


def test_one_kernel_edit(project: Path) -> None:
    source = project / "saxpy.mlir"
    source.write_text(source.read_text().replace("arith.mulf", "arith.addf", 1))
    statuses = build(project)
    assert which(statuses, "ran") == COMPILES | {
        "outline/saxpy.mlir",
        "saxpy/bundle/saxpy_kernels",
        "saxpy/link",
    }
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 1  # the program notices
    source.write_text(source.read_text().replace("arith.addf", "arith.mulf", 1))
    assert which(build(project), "ran") == set()  # the old results are still in the cache
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 0


def test_moving_a_source_compiles_nothing(project: Path) -> None:
    (project / "kernels").mkdir()
    (project / "saxpy.mlir").rename(project / "kernels" / "axpy.mlir")
    (project / "targets.yaml").write_text(SAXPY.replace("saxpy.mlir", "kernels/axpy.mlir"))
    assert which(build(project), "ran", "hit-local") == {"outline/kernels/axpy.mlir"}


def test_order_and_spelling_of_the_project_file_rebuild_nothing(project: Path) -> None:
    (project / "targets.yaml").write_text(
        """\
# the same in other words
programs:
  saxpy:
    targets: [sm_60, sm_90, gfx90a, cpu]
    sources:
      - saxpy.mlir
      - main.c
targets:
  cpu: {kind: cpu}
  gfx90a: {chip: gfx90a}
  sm_90: {fast_math: false, opt_level: 3}
  sm_60: {}
version: 1
"""
    )
    assert set(build(project).values()) == {"up-to-date"}


def test_renaming_a_program_compiles_nothing(project: Path) -> None:
    (project / "targets.yaml").write_text(SAXPY.replace("  saxpy:", "  axpy:"))
    assert which(build(project), "ran") == set()
    assert run_on_cpu(project / "build/axpy/axpy").code == 0
    assert not (project / "build/saxpy").exists(), "nobody knows it any more"


def test_taking_a_target_away_and_back_compiles_nothing(project: Path) -> None:
    (project / "targets.yaml").write_text(SAXPY.replace("sm_60: {}, ", ""))
    assert not {s for s in which(build(project), "ran", "hit-local") if "/compile/" in s}
    (project / "targets.yaml").write_text(SAXPY)
    assert which(build(project), "ran") == set()


def test_host_code_in_mlir_compiles_no_device_code(project: Path) -> None:
    source = project / "saxpy.mlir"
    source.write_text(source.read_text().replace("arith.constant 256 : index", "arith.constant 128 : index"))
    outcome = gpubuild("build", "--json", cwd=project)
    assert which(outcome.statuses(), "ran") == {"outline/saxpy.mlir", "saxpy/host", "saxpy/link"}
    reasons = {s["id"]: s["reason"] for s in outcome.document["steps"]}
    assert reasons["saxpy/host"].startswith("host code changed: @saxpy, ")
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 0


def test_one_module_of_two(tmp_path: Path) -> None:
    """An edit of one kernel leaves the other module of the same file alone."""
    project = saxpy_project(tmp_path / "p", SAXPY.replace("sm_60: {}, sm_90: {}, ", ""))
    source = project / "saxpy.mlir"
    text = source.read_text()
    start, end = text.index("  gpu.module"), text.index("  // Called from")
    module = text[start:end]
    source.write_text(text[:start] + module + module.replace("@saxpy", "@other") + text[end:])
    build(project, seeded=True)
    source.write_text(source.read_text().replace("arith.mulf", "arith.divf", 1))
    outcome = gpubuild("build", "--json", cwd=project)
    assert which(outcome.statuses(), "ran") == {
        "outline/saxpy.mlir", "saxpy/link", "saxpy/bundle/saxpy_kernels",
        *(f"saxpy/compile/saxpy_kernels/{t}" for t in ("gfx90a", "cpu")),
    }  # fmt: skip
    reasons = {s["id"]: s["reason"] for s in outcome.document["steps"]}
    assert reasons["saxpy/compile/saxpy_kernels/cpu"] == (
        "gpu.module @saxpy_kernels changed: @saxpy, 1 op differs"
    )


def test_a_target_that_is_not_selected_does_not_reach_the_link(tmp_path: Path) -> None:
    """With ``select_object`` the host object holds one target's code: others are cut off there."""
    yaml = (
        "version: 1\ntargets: {sm_60: {}, sm_90: {}}\nprograms:\n"
        "  saxpy: {sources: [saxpy.mlir, main.c], offload: select_object, select: sm_60}\n"
    )
    project = saxpy_project(tmp_path / "p", yaml)
    build(project, seeded=True)
    (project / "targets.yaml").write_text(yaml.replace("sm_90: {}", "sm_90: {opt_level: 0}"))
    ran = which(build(project), "ran")
    assert "saxpy/compile/saxpy_kernels/sm_90" in ran
    assert "saxpy/compile/saxpy_kernels/sm_60" not in ran
    assert "saxpy/link" not in ran


def test_a_swapped_tool_rebuilds_its_targets_only(project: Path, tmp_path: Path) -> None:
    """Another ptxas, with its size and modification time kept: the fingerprint is of content."""
    from gpubuild.settings import Settings
    from gpubuild.toolchain.find import Toolchain

    found = Toolchain(Settings()).require("ptxas").path
    ptxas = tmp_path / "ptxas"
    shutil.copy2(found, ptxas)
    env = {"GPUBUILD_PTXAS": str(ptxas)}
    gpubuild("build", "--json", cwd=project, env=env, code=0)
    old = ptxas.stat()
    with ptxas.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        last = stream.read(1)
        stream.seek(-1, os.SEEK_END)
        stream.write(bytes([last[0] ^ 1]))  # the tail of the section table: nothing that is executed
    os.utime(ptxas, ns=(old.st_atime_ns, old.st_mtime_ns))
    outcome = gpubuild("build", "--json", cwd=project, env=env)
    compiles = {s for s in which(outcome.statuses(), "ran") if "/compile/" in s}
    assert compiles == {"saxpy/compile/saxpy_kernels/sm_60", "saxpy/compile/saxpy_kernels/sm_90"}
    reasons = {s["id"]: s["reason"] for s in outcome.document["steps"]}
    assert reasons["saxpy/compile/saxpy_kernels/sm_60"].startswith("ptxas changed (still ")


def test_a_corrupt_cache_entry_is_named(project: Path) -> None:
    objects = sorted((project / "cache/cas").glob("*/*"), key=lambda p: p.stat().st_size)
    for blob in objects:
        blob.chmod(0o600)
        data = blob.read_bytes()
        if data.startswith(b"!<arch>"):  # the runtime, which takes longest to compile
            continue
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if data else b"x")
    shutil.rmtree(project / "build")
    outcome = gpubuild("build", "--json", cwd=project, code=0)
    ran = [s for s in outcome.document["steps"] if s["status"] == "ran" and s["kind"] != "preprocess"]
    assert ran
    assert {s["reason"] for s in ran} == {"first build; its entry in the cache was corrupt: set aside"}
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 0


GENERATED = """\
version: 1
targets: {cpu: }
generate:
  tables:
    command: [python3, tools/gen.py, table.c, table.h]
    inputs: [tools/gen.py, data/*.txt]
    outputs: [table.c, table.h]
  broken: {command: [tools/broken.sh], outputs: [never.c]}
programs:
  p: {sources: [main.c, table.c]}
  q: {sources: [q.c, never.c]}
"""
GENERATOR = """\
import glob, os, sys
n = sum(int(open(path).read()) for path in glob.glob("data/*.txt"))
assert not os.path.exists("main.c"), "only inputs are here"
open(sys.argv[1], "w").write('#include "table.h"\\nint table(void) { return N; }\\n')
open(sys.argv[2], "w").write(f'#define N {n}\\nint table(void);\\n')
"""


def test_generated_sources(tmp_path: Path) -> None:
    files = {
        "targets.yaml": GENERATED,
        "tools/gen.py": GENERATOR,
        "tools/broken.sh": "#!/bin/sh\necho nothing here\n",
        "data/n.txt": "7",
        "main.c": '#include <stdio.h>\n#include "table.h"\n'
        'int main(void) { printf("%d %d\\n", N, table()); return 0; }\n',
        "q.c": "int main(void) { return 0; }\n",
    }
    write(tmp_path, files)
    (tmp_path / "tools/broken.sh").chmod(0o755)

    def printed() -> str:
        return run_on_cpu(tmp_path / "build/p/p").out

    assert which(build(tmp_path, "p", seeded=True), "ran") > {"generate/tables", "preprocess/main.c"}
    assert printed() == "7 7\n"
    # The same content in other bytes of the tool: the sources are the same, and nothing else runs.
    (tmp_path / "tools/gen.py").write_text("# a comment\n" + GENERATOR)
    assert which(build(tmp_path, "p"), "ran") == {"generate/tables"}
    (tmp_path / "data/m.txt").write_text("1")  # a new file that matches
    assert "generate/tables" in which(build(tmp_path, "p"), "ran")
    assert printed() == "8 8\n"
    (tmp_path / "data/m.txt").unlink()
    assert "generate/tables" in which(build(tmp_path, "p"), "ran", "hit-local")
    assert printed() == "7 7\n"
    shutil.rmtree(tmp_path / "build/.gpubuild/generated")
    assert which(build(tmp_path, "p"), "hit-local") == {"generate/tables"}
    failed = gpubuild("build", cwd=tmp_path, code=1)
    assert "the command of `generate:` did not write never.c" in failed.err
    assert "nothing here" in failed.err
    (tmp_path / "tools/broken.sh").write_text("#!/bin/sh\nexit 3\n")
    assert "generating never.c failed: broken.sh exited with 3" in gpubuild("build", cwd=tmp_path).err


def test_commands_that_read_what_others_make(tmp_path: Path) -> None:
    text = (
        "version: 1\ntargets: {cpu: }\ngenerate:\n"
        "  first: {command: [cp, n.txt, a.h], inputs: [n.txt], outputs: [a.h]}\n"
        "  second: {command: [cp, a.h, b.h], inputs: [a.h], outputs: [b.h]}\n"
        "programs: {p: {sources: [main.c]}}\n"
    )
    (tmp_path / "targets.yaml").write_text(text)
    (tmp_path / "n.txt").write_text("#define N 3\n")
    (tmp_path / "main.c").write_text('#include "b.h"\nint main(void) { return N; }\n')
    build(tmp_path, "p", seeded=True)
    assert run_on_cpu(tmp_path / "build/p/p").code == 3
    (tmp_path / "n.txt").write_text("#define N 4\n")
    assert {"generate/first", "generate/second"} < which(build(tmp_path, "p"), "ran")
    assert run_on_cpu(tmp_path / "build/p/p").code == 4
    # What no command makes any more is not found any more.
    (tmp_path / "targets.yaml").write_text(text.replace("  second", "  # second"))
    failed = gpubuild("build", cwd=tmp_path, code=1)
    assert "main.c:1:10: error: b.h: No such file or directory" in failed.err
    (tmp_path / "targets.yaml").write_text(text.replace("inputs: [n.txt]", "inputs: [b.h]"))
    assert "input 'b.h' does not exist" in gpubuild("build", cwd=tmp_path).err


def test_a_workspace(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("version: 1\nworkspace: [a, b/targets.yaml]\n")
    text = "version: 1\ntargets: {cpu: }\nprograms: {p: {sources: [main.c], tests: {ok: {exit_code: %d}}}}\n"
    for number, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "targets.yaml").write_text(text % number)
        (tmp_path / name / "main.c").write_text(f"int main(void) {{ return {number}; }}\n")
        seed(tmp_path / name)
    built = gpubuild("build", cwd=tmp_path, code=0)
    assert built.err == "project: a/targets.yaml\nproject: b/targets.yaml\n"
    assert (tmp_path / "a/build/p/p").is_file()
    assert (tmp_path / "b/build/p/p").is_file()
    tested = gpubuild("test", "-q", cwd=tmp_path)
    assert (tested.code, tested.out) == (0, "1 case: 1 ok\n1 case: 1 ok\n")
    (tmp_path / "a/main.c").write_text("int main(void) { return 2 }\n")
    (tmp_path / "b/main.c").write_text("int main(void) { return 3; }\n")
    assert gpubuild("build", cwd=tmp_path).err.count("project: ") == 1
    kept = gpubuild("build", "-k", cwd=tmp_path)
    assert (kept.code, kept.err.count("project: ")) == (1, 2)
    for arguments in (("build", "p"), ("run",), ("graph",), ("watch",), ("build", "--build-dir", "out")):
        refused = gpubuild(*arguments, cwd=tmp_path, code=2)
        assert "targets.yaml is a workspace of a, b/targets.yaml" in refused.err
    checked = gpubuild("check", cwd=tmp_path)
    assert (checked.code, checked.out.count("4 steps: no errors")) == (0, 2)
    cleaned = gpubuild("clean", cwd=tmp_path)
    assert (cleaned.code, cleaned.err.count("project: ")) == (0, 2)
    assert not any((tmp_path / name / "build").exists() for name in "ab")
    (tmp_path / "a/targets.yaml").write_text("version: 1\nworkspace: [../b]\n")
    assert "a/targets.yaml is a workspace, too" in gpubuild("build", cwd=tmp_path).err
    (tmp_path / "targets.yaml").write_text("version: 1\nworkspace: [c]\ntargets: {}\n")
    wrong = gpubuild("build", cwd=tmp_path).err
    assert "targets.yaml:2:13: error: there is no project 'c'" in wrong
    assert "targets.yaml:3:1: error: unknown key 'targets' (known: version, workspace)" in wrong


def test_an_interrupt_ends_cases(tmp_path: Path) -> None:
    started = tmp_path / "started"
    case = f"tests: {{slow: {{args: [{started}], timeout: 600}}}}"
    main = (
        "#include <stdio.h>\n#include <unistd.h>\n"
        'int main(int n, char **words) { fclose(fopen(words[1], "w")); sleep(300); return 0; }\n'
    )
    build_project(tmp_path, project_file(f"p: {{sources: [main.c], {case}}}"), {"main.c": main})
    with subprocess.Popen([sys.executable, "-P", "-m", "gpubuild", "test"], cwd=tmp_path) as tests:
        while not started.exists() and tests.poll() is None:
            time.sleep(0.05)
        tests.terminate()
        assert tests.wait(60) == 130
