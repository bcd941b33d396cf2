"""Files that a linker reads beside its inputs are recorded, except those of the C library."""

import shutil
import subprocess
from pathlib import Path

import pytest
from unit.engine.steps import Tools, run_step, system_tools

from gpubuild.engine.cc.link import link_error, undefined_hint
from gpubuild.errors import InputChangedError, StepError
from gpubuild.model.digest import digest_file
from gpubuild.model.step import LinkParams, StepKind


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """``main.o``, which needs ``libvalue.a``, and a linker script."""
    tools = system_tools()
    (tmp_path / "main.c").write_text("int value(void);\nint main(void) { return value(); }\n")
    (tmp_path / "value.c").write_text("int value(void) { return 0; }\n")
    for name in ("main", "value"):
        subprocess.run([*tools["cc"], "-c", f"{name}.c", "-o", f"{name}.o"], cwd=tmp_path, check=True)
    subprocess.run([*tools["ar"], "rc", "libvalue.a", "value.o"], cwd=tmp_path, check=True)
    (tmp_path / "versions.map").write_text("{ global: main; local: *; };\n")
    return tmp_path


def read_by_link(
    made: Path, params: LinkParams, tools: Tools | None = None, archive: Path | None = None
) -> dict[str, str]:
    inputs = {"object.0": made / "main.o", **({"archive.1": archive} if archive else {})}
    tools = tools or system_tools()
    ran = run_step(made / "step", StepKind.LINK, params, inputs, ("executable",), tools)
    return {path: str(digest) for path, digest in ran.result.result.discovered}


def test_libraries_and_what_flags_name(made: Path) -> None:
    params = LinkParams(
        libraries=("value", "m"), flags=(f"-L{made}", f"-Wl,--version-script={made}/versions.map")
    )
    names = (made / "libvalue.a", made / "versions.map")
    assert read_by_link(made, params) == {str(name): digest_file(name) for name in names}


def test_a_file_that_flags_have_the_linker_write(made: Path) -> None:
    """A flag names it, and it changes during the link."""
    params = LinkParams(flags=(f"-Wl,-Map={made}/program.map",))
    assert read_by_link(made, params, archive=made / "libvalue.a") == {}
    assert (made / "program.map").exists()


def test_a_linker_that_a_flag_chooses(made: Path) -> None:
    """It is not the one in the compiler's fingerprint."""
    gold = shutil.which("ld.gold", path="/usr/bin")
    if gold is None:
        pytest.skip("this machine has one linker")
    (made / "bin").mkdir()
    shutil.copy(gold, made / "bin/ld.gold")
    params = LinkParams(flags=(f"-B{made}/bin", "-fuse-ld=gold"))
    read = read_by_link(made, params, archive=made / "libvalue.a")
    assert read[str(made / "bin/ld.gold")] == digest_file(made / "bin/ld.gold")
    assert gold in read_by_link(made, LinkParams(flags=("-fuse-ld=gold",)), archive=made / "libvalue.a")


def test_a_file_that_no_linker_lists(made: Path) -> None:
    specs = made / "own.specs"
    specs.write_text("*link:\n+ -z now\n\n")
    params = LinkParams(flags=(f"-specs={specs}",))
    assert read_by_link(made, params, archive=made / "libvalue.a") == {str(specs): digest_file(specs)}


def test_the_c_library_is_the_compilers(made: Path) -> None:
    assert read_by_link(made, LinkParams(libraries=("m",), flags=(f"{made}/value.o", "-pthread"))) == {
        f"{made}/value.o": digest_file(made / "value.o")
    }


def test_inputs_that_name_other_files(made: Path) -> None:
    value, archive = made / "value.o", made / "names.a"
    archive.write_text(f"INPUT({value})\n")
    assert read_by_link(made, LinkParams(), archive=archive) == {str(value): digest_file(value)}
    with pytest.raises(StepError, match=r"names.a names other files"):
        read_by_link(made, LinkParams(), keeps_no_list(made), archive)
    archive.unlink()
    subprocess.run([*system_tools()["ar"], "rcTP", archive, value], cwd=made, check=True)
    with pytest.raises(StepError, match=r"names.a is a thin archive"):
        read_by_link(made, LinkParams(), archive=archive)
    assert read_by_link(made, LinkParams(), archive=made / "libvalue.a") == {}


def script(made: Path, line: str) -> tuple[str, ...]:
    """A compiler that runs ``line`` first."""
    (made / "cc").write_text(f'#!/bin/sh\n{line}\nexec {system_tools()["cc"][0]} "$@"\n')
    (made / "cc").chmod(0o755)
    return (str(made / "cc"),)


def keeps_no_list(made: Path) -> Tools:
    refuse = 'echo "unknown: --dependency-file" >&2; exit 1'
    return {"cc": script(made, f'case "$*" in *dependency-file*) {refuse};; esac')}


def test_a_linker_that_keeps_no_list(made: Path) -> None:
    present = (f"{made}/libvalue.a",)
    params = LinkParams(libraries=("value",), flags=(f"-L{made}",), present=present)
    read = read_by_link(made, params, keeps_no_list(made))
    assert read == {f"{made}/libvalue.a": digest_file(made / "libvalue.a")}


# ---- messages of linkers ----


GNU = """/usr/bin/ld: object0.o: in function `run':
(.text+0x15): undefined reference to `_mlir_ciface_frame'
/usr/bin/ld: (.text+0x25): undefined reference to `n::area(int, char const*)'
/usr/bin/ld: (.text+0x25): undefined reference to `_mlir_ciface_frame'
collect2: error: ld returned 1 exit status
"""
LLD = """ld.lld: error: undefined symbol: _mlir_ciface_frame
>>> referenced by object0.o
ld.lld: error: undefined symbol: n::area(int, char const*)
"""


@pytest.mark.parametrize("output", [GNU, LLD])
def test_names_are_found_once(output: str) -> None:
    message = link_error(output, "").message
    assert message == "cannot link: nothing defines _mlir_ciface_frame, n::area(int, char const*)"


def test_long_lists_are_cut() -> None:
    output = "".join(f"ld.lld: error: undefined symbol: f{n}\n" for n in range(10, 21))
    assert link_error(output, "").message.endswith("f17 and 3 more")


@pytest.mark.parametrize(
    ("symbol", "advice"),
    [("main", "int main(void)"), ("_mlir_ciface_frame", "llvm.emit_c_interface"), ("area", "sources:")],
)
def test_advice_fits_the_symbol(symbol: str, advice: str) -> None:
    assert advice in undefined_hint([symbol])


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        ("/usr/bin/ld: cannot find -lnope: No such file or directory", "install the library nope, or"),
        ("ld.lld: error: unable to find library -lnope", "install the library nope, or"),
        (
            "error: unable to find dynamic system library 'nope' using strategy",
            "install the library nope, or",
        ),
        ("cc: error: unrecognized command-line option '--nope'", "correct `link: flags:`"),
        ("clang: error: unknown argument: '--nope'", "correct `link: flags:`"),
        ("ld: out of memory", ""),
    ],
)
def test_a_library_or_a_flag_that_the_linker_does_not_know(output: str, hint: str) -> None:
    error = link_error(output, output)
    assert error.message == "cannot link"
    assert error.hint.startswith(hint) if hint else not error.hint


@pytest.mark.parametrize(
    ("output", "name", "advice"),
    [
        ("ld: b.o: in `main':\n(.text+0x0): multiple definition of `main'; a.o: first", "main", "one main"),
        ("ld.lld: error: duplicate symbol: scale\n>>> defined at a.c\n", "scale", "rename"),
    ],
)
def test_symbols_defined_more_than_once(output: str, name: str, advice: str) -> None:
    error = link_error(output, "")
    assert error.message == f"cannot link: {name} is defined more than once"
    assert advice in error.hint


def test_a_folder_of_libraries_relative_to_the_project() -> None:
    output = "/usr/bin/ld: cannot find -lx: No such file or directory"
    assert "list lib/libx.a under sources:" in link_error(output, "", ("-s", "-Llib")).hint
    assert link_error(output, "", ("-L/opt/lib",)).hint.startswith("install the library x")


@pytest.fixture
def large(made: Path) -> dict[str, Path]:
    """Objects of a program, one of them of 32 MiB."""
    (made / "big.c").write_text("char big[1 << 25] = {1};\n")
    subprocess.run([*system_tools()["cc"], "-c", "big.c"], cwd=made, check=True)
    return {"object.0": made / "main.o", "object.1": made / "value.o", "object.2": made / "big.o"}


def test_large_objects_are_not_copied(made: Path, large: dict[str, Path]) -> None:
    ran = run_step(made / "step", StepKind.LINK, LinkParams(), large, ("executable",), system_tools())
    assert len(ran.outputs["executable"]) > 1 << 25
    linked = [path.name for path in (made / "step/job/tmp").iterdir() if path.is_symlink()]
    assert linked == ["object2.o"]


def test_a_large_object_that_changes_meanwhile(made: Path, large: dict[str, Path]) -> None:
    tools = system_tools() | {"cc": script(made, f"printf x >> {made}/big.o")}
    with pytest.raises(InputChangedError, match=r"big\.o changed while"):
        run_step(made / "step", StepKind.LINK, LinkParams(), large, ("executable",), tools)
