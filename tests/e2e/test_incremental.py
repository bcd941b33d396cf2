"""What is rebuilt and what is not, with the real tool chain."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from e2e.command import SAXPY, gpubuild, run_on_cpu, saxpy_project

COMPILES = {f"saxpy/compile/saxpy_kernels/{t}" for t in ("sm_60", "sm_90", "gfx90a", "cpu")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has been built once; tests copy it, cache and all."""
    project = saxpy_project(tmp_path_factory.mktemp("built") / "project")
    outcome = gpubuild("build", "--json", cwd=project)
    assert outcome.code == 0, outcome.err + outcome.out
    assert set(outcome.statuses().values()) == {"ran"}
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A copy at another path, with the times of its files kept."""
    return Path(shutil.copytree(built, tmp_path / "copy", symlinks=True))


def build(project: Path, *arguments: str) -> dict[str, str]:
    outcome = gpubuild("build", "--json", *arguments, cwd=project)
    assert outcome.code == 0, outcome.err + outcome.out
    return outcome.statuses()


def which(statuses: dict[str, str], *wanted: str) -> set[str]:
    return {step for step, status in statuses.items() if status in wanted}


def test_the_program_runs_on_the_cpu(built: Path) -> None:
    outcome = run_on_cpu(built / "build/saxpy/saxpy")
    assert (outcome.code, outcome.out) == (0, "saxpy: OK (n = 1048576, max error 0)\n")


def test_artefacts_are_where_they_should_be(built: Path) -> None:
    folder = built / "build/saxpy"
    names = {p.name for p in folder.iterdir()}
    for target, suffixes in {
        "sm_60": ("ll", "ptx", "cubin"),
        "sm_90": ("ll", "ptx", "cubin"),
        "gfx90a": ("ll", "s", "hsaco"),
        "cpu": ("ll", "s", "so"),
    }.items():
        assert {f"saxpy_kernels.{target}.{suffix}" for suffix in suffixes} <= names
    assert {"saxpy", "saxpy_kernels.binary.mlir", "host.mlir", "host.ll", "host.o"} <= names


def test_second_build_is_up_to_date(built: Path) -> None:
    assert set(build(built).values()) == {"up-to-date"}


def test_removed_build_folder_is_all_hits(project: Path) -> None:
    before = (project / "build/saxpy/saxpy").read_bytes()
    shutil.rmtree(project / "build")
    statuses = build(project)
    assert which(statuses, "ran") == {"preprocess/main.c"}
    assert set(statuses.values()) == {"ran", "hit-local"}
    assert (project / "build/saxpy/saxpy").read_bytes() == before


def test_another_checkout_with_the_same_cache_compiles_nothing(built: Path, tmp_path: Path) -> None:
    other = saxpy_project(tmp_path / "elsewhere" / "deeper")
    statuses = build(other, "--cache-dir", str(built / "cache"))
    assert which(statuses, "ran") == {"preprocess/main.c"}
    assert (other / "build/saxpy/saxpy").read_bytes() == (built / "build/saxpy/saxpy").read_bytes()


def test_without_the_cache_the_bytes_are_the_same(built: Path, tmp_path: Path) -> None:
    other = saxpy_project(tmp_path / "fresh")
    environment = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    old = os.umask(0o077)
    try:
        outcome = gpubuild("build", "--no-cache", "-j1", cwd=other, env=environment)
    finally:
        os.umask(old)
    assert outcome.code == 0, outcome.err
    assert not (other / "cache").exists()
    for name in sorted(p.name for p in (built / "build/saxpy").iterdir()):
        assert (other / "build/saxpy" / name).read_bytes() == (built / "build/saxpy" / name).read_bytes(), (
            name
        )


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
        "saxpy/host",
        "saxpy/link",
    }
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 1  # the program notices
    source.write_text(source.read_text().replace("arith.addf", "arith.mulf", 1))
    assert which(build(project), "ran") == set()  # the old results are still in the cache
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 0


def test_a_host_only_edit_compiles_no_device_code(project: Path) -> None:
    source = project / "main.c"
    source.write_text(source.read_text().replace("saxpy: %s", "SAXPY: %s"))
    assert which(build(project), "ran") == {"preprocess/main.c", "cc/main.c", "saxpy/link"}
    assert run_on_cpu(project / "build/saxpy/saxpy").out.startswith("SAXPY: OK")


def test_one_targets_option_touches_that_target(project: Path) -> None:
    yaml = project / "targets.yaml"
    yaml.write_text(SAXPY.replace("sm_90: {}", "sm_90: {opt_level: 1}"))
    statuses = build(project)
    assert which(statuses, "ran", "hit-local") & COMPILES == {"saxpy/compile/saxpy_kernels/sm_90"}


def test_a_new_target_compiles_only_itself(project: Path) -> None:
    yaml = project / "targets.yaml"
    yaml.write_text(SAXPY.replace("sm_60: {}", "sm_60: {}, sm_75: {}"))
    statuses = build(project)
    ran = {s for s in which(statuses, "ran") if "/compile/" in s}
    assert ran == {"saxpy/compile/saxpy_kernels/sm_75"}


@pytest.mark.parametrize("name", ["saxpy", "saxpy_kernels.sm_90.cubin", "host.o"])
@pytest.mark.parametrize("damage", ["delete", "flip"])
def test_damaged_outputs_are_restored(project: Path, name: str, damage: str) -> None:
    path = project / "build/saxpy" / name
    content = path.read_bytes()
    if damage == "delete":
        path.unlink()
    else:
        path.write_bytes(content[:100] + bytes([content[100] ^ 1]) + content[101:])
    statuses = build(project)
    assert which(statuses, "ran") == set()
    assert len(which(statuses, "hit-local")) == 1
    assert path.read_bytes() == content
