"""Checked CPU kernels: what is reported, what is not, and how a program ends."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from e2e.command import Outcome, build_project, execute, gpubuild, project_file, without_settings, write
from kernels.checked.program import ALL, SAMPLE, main_c, marks, source

FOUND = 66  # the exit code of a program in which something was found
KINDS = {
    "access out of bounds": "bounds",
    "view out of bounds": "bounds",
    "data race": "race",
    "divergent barrier": "barrier",
    "read of uninitialised workgroup memory": "uninitialized",
}
REPORT = re.compile(r"gpubuild: check: (.*) in kernel @\w+ of module @kernels\n  at \w+\.mlir:(\d+):\d+: ")
SMALL = """\
module attributes {gpu.container_module} {
  gpu.module @small {
    gpu.func @fill(%a: memref<?xi32>) kernel {
      %i = gpu.global_id x
      %v = arith.index_cast %i : index to i32
      memref.store %v, %a[%i] : memref<?xi32>
      gpu.return
    }
  }
  func.func @fill() {
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %t = gpu.wait async
    %a, %t1 = gpu.alloc async [%t] (%c64) : memref<?xi32>
    %t2 = gpu.launch_func async [%t1] @small::@fill
      blocks in (%c1, %c1, %c1) threads in (%c64, %c1, %c1) args(%a : memref<?xi32>)
    gpu.wait [%t2]
    return
  }
}
"""
TARGETS = """\
version: 1
targets:
  plain: {chip: x86-64-v2}
  checked: {chip: x86-64-v2, sanitize: [uninitialized, race, bounds, barrier]}
  simple: {chip: x86-64-v2, opt_level: 0, sanitize: [uninitialized, race, bounds, barrier]}
programs:
  cases: {sources: [cases.mlir, main.c], targets: [simple]}  # LLVM would take most of the time
  sample: {sources: [sample.mlir, sample.c], targets: [checked]}
  small: {sources: [small.mlir, small.c], targets: [plain, checked]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    files = {"cases.mlir": source(), "main.c": main_c(), "sample.mlir": source(SAMPLE)}
    files |= {"sample.c": main_c(SAMPLE), "small.mlir": SMALL}
    files["small.c"] = "void fill(void);\nint main(void) { fill(); return 3; }\n"
    build_project(folder, TARGETS, files)
    return folder


def run(project: Path, program: str, *cases: str, **environment: str) -> Outcome:
    """Run it from another folder: sources are found from the executable."""
    executable, clean = project / "build" / program / program, without_settings()
    return execute(executable, *cases, cwd="/", env=clean | environment, code=None)


@pytest.mark.parametrize(
    ("program", "name"), [*(("cases", name) for name in ALL), *(("sample", name) for name in SAMPLE)]
)
def test_reports(project: Path, program: str, name: str) -> None:
    """Exactly the marked lines are reported, the same for one thread and for several."""
    alone = run(project, program, name, GPUBUILD_CPU_THREADS="1")
    reported = {(KINDS[what], int(line)) for what, line in REPORT.findall(alone.err)}
    assert reported == marks(name, SAMPLE if program == "sample" else ALL), alone.err
    for text in ALL[name].says:
        assert text.replace("cases.mlir", f"{program}.mlir") in alone.err
    assert alone.code == (FOUND if reported else 0)
    assert ("no problems found in 1 launch" in alone.err) is not bool(reported)
    several = run(project, program, name, GPUBUILD_CPU_THREADS="4")
    assert _without_addresses(several.err) == _without_addresses(alone.err)
    assert several.code == alone.code


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "ADDRESS", text)


def test_tiers(project: Path) -> None:
    """Checks do not push kernels into a slower tier than they need."""
    document = gpubuild("inspect", project / "build" / "cases" / "cases", "--json", cwd=project).document
    (module,) = document["modules"]
    (item,) = module["objects"]
    assert item["sanitize"] == ["bounds", "race", "barrier", "uninitialized"]
    image = project / "build" / "cases" / "kernels.simple.so"
    alone = gpubuild("inspect", image, "--json", cwd=project).document["modules"][0]["objects"][0]
    assert alone["sanitize"] == item["sanitize"]
    tiers = {kernel["name"]: kernel["tier"] for kernel in item["kernels"]}
    expected = {name: case.tier for name, case in ALL.items() if case.tier}
    assert {name: tiers[name] for name in expected} == expected


def test_the_text_of_a_report(project: Path) -> None:
    done = run(project, "cases", "second_dimension")
    ((_, line),) = marks("second_dimension")
    lines = source().splitlines()
    launch = next(n for n, text in enumerate(lines, 1) if "@kernels::@second_dimension" in text)
    launched = f"cases.mlir:{launch}:{lines[launch - 1].index('gpu.launch_func') + 1}"
    assert done.err == (
        "gpubuild: check: access out of bounds in kernel @second_dimension of module @kernels\n"
        f"  at cases.mlir:{line}:7: memref.store\n"
        "            memref.store %one, %m[%c1, %c8] : memref<16x8xf32> // bounds\n"
        "            ^\n"
        "  index 8 of dimension 1, which has 8 elements\n"
        "  by work-item (0, 0, 0) of workgroup (0, 0, 0)\n"
        "  program cases, target simple (x86-64-v2, shared object), launched at "
        f"{launched} (gpu.launch_func in @case_second_dimension)\n"
        "gpubuild: check: problems found: bounds: 1 (1 times) in 1 launch "
        "checked for bounds, race, barrier, uninitialized\n"
    )
    assert done.out == "done\n"  # the program continues without the store


def test_one_report_for_each_location(project: Path) -> None:
    twice = run(project, "cases", "store_past_end", "store_past_end", "never_written")
    assert twice.err.count("access out of bounds in kernel") == 1
    assert "bounds: 1 (28 times), uninitialized: 1 (64 times) in 3 launches" in twice.err


def test_suppressions(project: Path, tmp_path: Path) -> None:
    ((_, line),) = marks("store_past_end")
    rules = tmp_path / "rules"
    for rule in ("bounds store_past_end", "* store_*", f"bounds *cases.mlir:{line}:*"):
        rules.write_text(f"# why\n\n{rule}  # and why\n")
        done = run(project, "cases", "store_past_end", GPUBUILD_CHECK_SUPPRESSIONS=str(rules))
        assert done.code == 0
        assert "no problems found in 1 launch" in done.err
        assert "14 times suppressed" in done.err
    for rule in ("race *", "bounds store_at_end", f"bounds cases.mlir:{line}"):
        rules.write_text(f"{rule}\n")
        assert run(project, "cases", "store_past_end", GPUBUILD_CHECK_SUPPRESSIONS=str(rules)).code == FOUND


@pytest.mark.parametrize("text", ["leak *\n", "bounds\n", "bounds a b\n"])
def test_malformed_suppressions(project: Path, tmp_path: Path, text: str) -> None:
    rules = tmp_path / "rules"
    rules.write_text(f"# first\n{text}")
    done = run(project, "cases", "store_at_end", GPUBUILD_CHECK_SUPPRESSIONS=str(rules))
    assert done.code == 1
    assert f"{rules}:2: not a suppression; a line is KIND PATTERN" in done.err


@pytest.mark.parametrize("path", ["/no/such/file", "/"])
def test_missing_suppressions(project: Path, path: str) -> None:
    done = run(project, "cases", "store_at_end", GPUBUILD_CHECK_SUPPRESSIONS=path)
    assert (done.code, done.err) == (
        1,
        f"gpubuild: GPUBUILD_CHECK_SUPPRESSIONS={path}: the file cannot be read\n  program: cases\n",
    )


def test_fatal_findings_are_not_suppressed(project: Path, tmp_path: Path) -> None:
    """The program would end without a reported problem."""
    (tmp_path / "rules").write_text("* *\n")
    done = run(project, "cases", "subview", GPUBUILD_CHECK_SUPPRESSIONS=str(tmp_path / "rules"))
    assert done.code == FOUND
    assert "view out of bounds in kernel @subview" in done.err
    assert "problems found: bounds: 1 (1 times)" in done.err


def test_choice_between_checked_and_plain(project: Path) -> None:
    """The plain image runs unless checks are requested; without findings the exit code is the program's."""
    assert run(project, "small") == Outcome(3, "", "")
    checked = run(project, "small", GPUBUILD_CHECK="1")
    assert checked.code == 3
    assert checked.err == (
        "gpubuild: check: no problems found in 1 launch checked for bounds, race, barrier, uninitialized\n"
    )
    assert run(project, "small", GPUBUILD_CHECK="0") == Outcome(3, "", "")
    refused = run(project, "cases", "store_at_end", GPUBUILD_CHECK="0")
    assert refused.code == 1
    assert "checked, and GPUBUILD_CHECK=0 excludes checked images" in refused.err


def test_checked_steps_depend_on_locations_and_plain_ones_do_not(project: Path) -> None:
    """A comment moves the code: reports must show the new line. The plain kernel is unchanged."""
    small = project / "small.mlir"
    small.write_text("// moved\n" + SMALL)
    statuses = gpubuild("build", "small", "--json", cwd=project).statuses()
    assert statuses["small/compile/small/checked"] == "ran"
    assert statuses["small/compile/small/plain"] == "up-to-date"


def test_kernels_in_the_llvm_dialect_are_refused(project: Path, tmp_path: Path) -> None:
    text = (
        "gpu.module @low {\n  llvm.func @k(%p: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel} {\n"
        "    llvm.return\n  }\n}\n"
    )
    targets = "checked: {kind: cpu, chip: x86-64-v2, sanitize: [bounds]}"
    yaml = project_file("low: {sources: [low.mlir]}", targets=targets)
    write(tmp_path, {"low.mlir": text, "targets.yaml": yaml})
    done = gpubuild("build", cwd=tmp_path, seeded=True, code=1)
    assert "cannot be compiled for checked (cpu)" in done.err or "which is in the LLVM dialect" in done.err


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"GPUBUILD_CHECK": "yes"}, "GPUBUILD_CHECK=yes: not a switch; allowed are 0 and 1"),
        ({"GPUBUILD_CHECK": "1", "GPUBUILD_DEVICE": "cuda"}, "only CPU kernels can be checked"),
    ],
)
def test_malformed_choice(project: Path, environment: dict[str, str], message: str) -> None:
    done = run(project, "small", **environment)
    assert done.code == 1
    assert message in done.err


def test_handlers_of_exit_run(project: Path, tmp_path: Path) -> None:
    """The exit code is set after everything else, such as writing a profile."""
    profile = tmp_path / "profile.json"
    done = run(project, "cases", "store_past_end", GPUBUILD_PROFILE=str(profile))
    assert done.code == FOUND
    assert "store_past_end" in profile.read_text()


# ---- random kernels ----


SCRIPT = Path(__file__).with_name("checked_random.py")


def test_races_of_kernels_that_lack_a_barrier(tmp_path: Path) -> None:
    done = execute(sys.executable, SCRIPT, tmp_path, code=66)
    document = json.loads(done.out)
    reported = set(re.findall(r"check: data race in kernel @(\w+)", done.err))
    assert done.err.count(" in kernel @") == done.err.count("data race in kernel @")
    assert "last_" in reported
    reported.remove("last_")
    lacking = {name for name in document["names"] if name.endswith("_")}
    assert set(document["wrong"]) <= reported <= lacking
    assert len(reported) >= 4  # or the comparison says nothing
