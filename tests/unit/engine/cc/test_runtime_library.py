"""The runtime's archive: complete and reproducible, compiled by a build or in a wheel."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.cc.archives import built_archive
from unit.engine.steps import COMPILERS, ZIG, Tools, failing_step, run_step

import gpubuild
from gpubuild.cli.main import main
from gpubuild.model.step import RuntimeParams, StepKind
from gpubuild.settings import Settings
from gpubuild.toolchain import runtime_library
from gpubuild.toolchain.find import Toolchain
from gpubuild.toolchain.run import run_tool
from gpubuild.toolchain.runtime_library import GLIBC, MACHINES, NEVER_HOT, sources


@pytest.fixture(params=["system", "zig"])
def tools(request: pytest.FixtureRequest) -> Tools:
    return COMPILERS[request.param]()


RUNTIME = {
    "x/a.c": '#include "y/a.h"\nint rt_a(void) { return rt_b() + A; }\n',
    "y/b.c": '#include "y/a.h"\nint rt_b(void) { return 2; }\n',
    "x/c.S": '.text\n.globl rt_c\nrt_c:\n  ret\n.section .note.GNU-stack,"",@progbits\n',
    "y/a.h": "#define A 1\nint rt_b(void);\n",
}


def test_runtime_archive_has_every_source_and_no_paths(tmp_path: Path, tools: Tools) -> None:
    one = run_step(tmp_path / "1", StepKind.RUNTIME, RuntimeParams(), RUNTIME, ("archive",), tools)
    two = run_step(tmp_path / "x/2", StepKind.RUNTIME, RuntimeParams(), RUNTIME, ("archive",), tools)
    archive = one.outputs["archive"]
    assert archive == two.outputs["archive"]
    assert archive.startswith(b"!<arch>\n")
    for word in (b"rt_a", b"rt_b", b"rt_c", b"a.c.o", b"b.c.o", b"c.S.o"):
        assert word in archive
    assert str(tmp_path).encode() not in archive


@pytest.mark.parametrize("made", [True, False])
def test_doctor_reports_an_absent_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], made: bool
) -> None:
    archive = tmp_path / "library.a"
    archive.write_bytes(b"x" * made)
    monkeypatch.setattr(runtime_library, "prebuilt", lambda *_: archive if made else tmp_path / "none.a")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUBUILD_CC", raising=False)
    main(["doctor"])
    assert ("no archive of the runtime library" in capsys.readouterr().out) == (not made)


def test_what_is_never_hot_is_there() -> None:
    names = sources()
    assert [start for start in NEVER_HOT if not any(name.startswith(start) for name in names)] == []


def test_a_runtime_that_does_not_compile_says_which_file(tmp_path: Path, tools: Tools) -> None:
    sources = {**RUNTIME, "y/b.c": "int rt_b(void) { return }\n"}
    error = failing_step(tmp_path, StepKind.RUNTIME, RuntimeParams(), sources, ("archive",), tools)
    assert "y/b.c" in error.message
    assert "doctor" in error.hint
    assert error.output


@pytest.fixture(scope="module")
def wheel() -> dict[str, Path]:
    return {machine: built_archive(machine) for machine in MACHINES}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of our own."""
    original, ignore = Path(gpubuild.__file__).parent, shutil.ignore_patterns("__pycache__", "prebuilt")
    return Path(shutil.copytree(original, tmp_path / "copy" / "gpubuild", ignore=ignore))


def test_archives_of_wheels_are_equal_wherever_they_are_built(
    wheel: dict[str, Path], package: Path, tmp_path: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    folders = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-m", "gpubuild.toolchain.runtime_library"]
    environment = {**folders, "TZ": "Asia/Kathmandu"}
    subprocess.run(command, cwd=package.parent, env=environment, umask=0o077, check=True)
    machine = os.uname().machine
    (other,) = package.glob(f"runtime/prebuilt/{machine}/*.a")
    assert other.name == wheel[machine].name
    assert other.read_bytes() == wheel[machine].read_bytes()
    assert b"/tmp" not in other.read_bytes()


@pytest.mark.parametrize("machine", MACHINES)
def test_archives_of_wheels_need_no_newer_glibc(machine: str, wheel: dict[str, Path], tmp_path: Path) -> None:
    """Its libraries of that version define all that the archive refers to, else this does not link."""
    command = (
        *(ZIG, "cc", "-target", f"{machine}-linux-gnu.{GLIBC}", "-fno-sanitize=undefined"),
        *("-shared", "-Wl,-z,defs", "-Wl,--whole-archive", wheel[machine], "-Wl,--no-whole-archive"),
        *("-lm", "-ldl", "-lpthread", "-o", tmp_path / "all.so"),
    )
    run_tool(command, cwd=tmp_path).check("link")
    with (tmp_path / "all.so").open("rb") as stream:
        needed = ELFFile(stream).get_section_by_name(".gnu.version_r").iter_versions()
        versions = {aux.name for _, auxiliaries in needed for aux in auxiliaries}
    newest = max(tuple(map(int, re.findall(r"\d+", name))) for name in versions)
    assert (2, 4) < newest <= tuple(map(int, GLIBC.split(".")))


def test_the_archive_is_used_while_its_sources_are_unchanged(
    wheel: dict[str, Path], package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = os.uname().machine
    monkeypatch.setattr(runtime_library, "_PACKAGE", package)
    monkeypatch.setattr(runtime_library, "FOLDER", package / "runtime")
    assert set(Toolchain(Settings()).runtime_files()) == set(sources())
    archive = package / "runtime" / "prebuilt" / machine / wheel[machine].name
    archive.parent.mkdir(parents=True)
    shutil.copy(wheel[machine], archive)
    assert Toolchain(Settings()).runtime_files() == {"archive": archive}
    assert "archive" not in Toolchain(Settings(cc=Path("/usr/bin/cc"))).runtime_files()
    with (package / "runtime" / "abi" / "mgpu.c").open("a") as stream:
        stream.write("\n")
    assert set(Toolchain(Settings()).runtime_files()) == set(sources())


def test_a_built_archive_is_not_compiled_again(tmp_path: Path) -> None:
    made = run_step(tmp_path, StepKind.RUNTIME, RuntimeParams(), {"archive": b"!<arch>\n"}, ("archive",), {})
    assert made.outputs["archive"] == b"!<arch>\n"
