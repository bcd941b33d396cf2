import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from gpubuild.errors import ToolNotFoundError
from gpubuild.settings import Settings
from gpubuild.toolchain import compiler as compiler_module
from gpubuild.toolchain import distribution
from gpubuild.toolchain import find as find_module
from gpubuild.toolchain import fingerprint as own
from gpubuild.toolchain.compiler import UnusableCompilerError, _still_holds, examine, find_system_compiler
from gpubuild.toolchain.find import NAMES, Toolchain
from gpubuild.toolchain.memo import Memo
from gpubuild.toolchain.run import run_tool

HERE = Settings.from_environ()
BARE = Settings()  # nothing set, nothing on the search path


def executable(path: Path, text: str = "#!/bin/sh\necho fake 1.0\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def memo_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memo") / "tools.json"  # zig is large: digest it once


OPTIONAL = ("clang-linker-wrapper", "cuda-linker")


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpubuild.toolchain.distribution._find_installed", lambda name: None)
    monkeypatch.setattr("gpubuild.toolchain.clang_linker_wrapper._CUDA_PATH", Path("/nonexistent"))
    monkeypatch.setattr("gpubuild.toolchain.host_math._LIBRARY", "libm-that-is-not-installed.so")


@pytest.mark.parametrize("name", [n for n in NAMES if n not in OPTIONAL])
def test_every_required_tool_is_found_without_a_system(name: str, memo_path: Path) -> None:
    tool = Toolchain(BARE, memo_path).require(name)
    assert tool.path.exists()
    assert len(tool.fingerprint) == 64
    assert tool.version
    assert tool.source


def test_fingerprints_are_the_same_with_and_without_a_memo(memo_path: Path) -> None:
    Toolchain(BARE, memo_path).describe_all()
    fresh = {row.name: row.fingerprint for row in Toolchain(BARE).describe_all()}
    assert {row.name: row.fingerprint for row in Toolchain(BARE, memo_path).describe_all()} == fresh


def test_ptxas_and_lld_are_never_taken_from_the_search_path(tmp_path: Path, memo_path: Path) -> None:
    for name in ("ptxas", "ld.lld", "ar", "zig"):
        executable(tmp_path / name)
    decoys = Toolchain(replace(BARE, search_path=(tmp_path,)), memo_path)
    for name in ("ptxas", "ld.lld", "ar"):
        assert decoys.require(name) == Toolchain(BARE, memo_path).require(name)


@pytest.mark.parametrize(("name", "field"), [("ptxas", "ptxas"), ("ld.lld", "lld")])
def test_an_override_is_taken_and_its_content_is_its_identity(tmp_path: Path, name: str, field: str) -> None:
    path = tmp_path / "mine"
    shutil.copy2(os.path.realpath(sys.executable), path)
    settings = replace(BARE, **{field: path})
    first = Toolchain(settings).require(name)
    assert first.command == (str(path),)
    assert first.version.startswith("Python 3.")
    assert first.source.startswith("GPUBUILD_")
    with path.open("ab") as stream:
        stream.write(b"changed")
    assert Toolchain(settings).require(name).fingerprint != first.fingerprint
    script = replace(BARE, **{field: executable(tmp_path / "script")})  # whatever it starts, today
    with pytest.raises(
        ToolNotFoundError, match=r"GPUBUILD_\w+ names .*script, .* is a script, not a program"
    ):
        Toolchain(script).require(name)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("ptxas", "GPUBUILD_PTXAS"),
        ("ld.lld", "GPUBUILD_LLD"),
        ("libdevice", "GPUBUILD_LIBDEVICE"),
        ("cc", "GPUBUILD_CC"),
        ("cxx", "GPUBUILD_CXX"),
    ],
)
def test_a_wrong_override_is_an_error_not_a_fallback(tmp_path: Path, name: str, variable: str) -> None:
    toolchain = Toolchain(Settings.from_environ({variable: str(tmp_path / "nothing")}))
    with pytest.raises(ToolNotFoundError, match=f"{variable} names .*nothing") as caught:
        toolchain.require(name)
    assert caught.value.hint


def test_an_override_that_is_a_bare_name_is_looked_up_in_path(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    compiler = executable(tmp_path / "bin" / "my-cc")
    path = f"relative:{tmp_path / 'earlier'}:{tmp_path / 'bin'}"
    settings = Settings.from_environ({"PATH": path, "GPUBUILD_CC": "my-cc", "GPUBUILD_LLD": "./my-cc"})
    assert settings.cc == compiler
    assert settings.lld == Path("my-cc").absolute()
    _, looked_for = Toolchain(settings).evidence()
    assert {str(compiler), str(tmp_path / "earlier/my-cc")} <= looked_for  # one that comes there goes first


@pytest.mark.usefixtures("nothing_installed")
def test_what_is_missing_says_what_to_do() -> None:
    toolchain = Toolchain(BARE)
    rows = toolchain.describe_all()
    assert [row.name for row in rows] == list(NAMES)
    for row in rows:
        assert row.needed_by
        assert row.found == (row.name == "gpubuild")
        if not row.found:
            assert row.fix and row.problem
            with pytest.raises(ToolNotFoundError, match=f"{row.name} was not found: ") as caught:
                toolchain.require(row.name)
            assert "install" in caught.value.hint
    with pytest.raises(KeyError):
        toolchain.find("nvcc")


# --- The system's compiler ---

SYSTEM_CC, _ = find_system_compiler("cc", HERE.search_path, Memo(None))
needs_cc = pytest.mark.skipif(SYSTEM_CC is None, reason="no system compiler here")


def test_a_shim_script_is_refused_with_the_reason(tmp_path: Path, memo_path: Path) -> None:
    executable(tmp_path / "cc", '#!/bin/sh\nexec /usr/bin/cc "$@"\n')
    toolchain = Toolchain(replace(BARE, search_path=(tmp_path,)), memo_path)
    tool = toolchain.require("cc")
    assert tool.command[1:] == ("cc",)
    assert tool.path.name == "zig"
    (row,) = (r for r in toolchain.describe_all() if r.name == "cc")
    assert "is a script, not a compiler" in row.problem


@pytest.mark.parametrize(
    ("program", "name", "message"),
    [("/bin/true", "ccache", "ccache"), ("/bin/false", "tool", "fails on `--version`")],
)
def test_a_program_that_is_no_compiler_is_refused(
    tmp_path: Path, program: str, name: str, message: str
) -> None:
    shutil.copy(program, tmp_path / name)
    (tmp_path / "cc").symlink_to(name)
    with pytest.raises(UnusableCompilerError, match=message):
        examine("cc", tmp_path / "cc", Memo(None))


@needs_cc
@pytest.mark.parametrize(
    ("hidden", "message"),
    [({"crt1.o"}, "has no crt1.o"), ({"libc.so", "libc.a", "libc_nonshared.a"}, "has no libc to link with")],
)
def test_a_compiler_without_a_c_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, hidden: set[str], message: str
) -> None:
    first = compiler_module._first
    monkeypatch.setattr(
        compiler_module, "_first", lambda file, *places: [] if file in hidden else first(file, *places)
    )
    with pytest.raises(UnusableCompilerError, match=message):
        examine("cc", SYSTEM_CC.path, Memo(None))


@needs_cc
def test_a_compiler_without_headers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compiler_module._PROBE, "cc", ("c", b"#include <there_is_no_such.h>\n"))
    with pytest.raises(UnusableCompilerError, match="there_is_no_such"):
        examine("cc", SYSTEM_CC.path, Memo(None))


@needs_cc
def test_fingerprint_covers_the_parts_of_a_compiler() -> None:
    memo = Memo(None)
    path = SYSTEM_CC.path
    before = examine("cc", path, memo).fingerprint
    fact = memo.fact("cc", path)
    roles = [role for role, _ in fact["files"]]
    assert {"driver", "as", "ld", "crt1.o", "crti.o"} <= set(roles)
    for number, role in enumerate(roles):
        changed = dict(fact, files=[list(f) for f in fact["files"]])
        changed["files"][number][1] = "/bin/sh"
        memo.learn("cc", path, changed)
        assert examine("cc", path, memo).fingerprint != before, role


@needs_cc
def test_a_remembered_compiler_is_examined_again_when_a_part_is_gone() -> None:
    memo = Memo(None)
    path = SYSTEM_CC.path
    good = examine("cc", path, memo)
    for wrong in (
        None,
        {},
        {"version": 1},
        {"version": "1", "files": [["x", "/gone"]], "header": "/bin/sh"},
        {"version": "1", "files": [["x", "/bin/sh"]], "header": "/bin/sh"},
    ):
        memo.learn("cc", path, wrong)
        assert examine("cc", path, memo) == good


@pytest.fixture
def own_gcc(tmp_path: Path) -> tuple[Path, Path]:
    """The system's gcc in a folder of its own, and the folder where it looks for its programs."""
    driver = shutil.which("gcc", path="/usr/bin")
    if driver is None:
        pytest.skip("no gcc in /usr/bin")
    cc1 = subprocess.run([driver, "-print-prog-name=cc1"], capture_output=True, text=True, check=True)
    parts = Path(cc1.stdout.strip()).parent
    own = tmp_path / "lib/gcc" / parts.parent.name / parts.name
    own.mkdir(parents=True)
    for part in parts.iterdir():
        (own / part.name).symlink_to(part)
    (tmp_path / "bin").mkdir()
    shutil.copy(Path(driver).resolve(), tmp_path / "bin/gcc")
    return tmp_path / "bin/gcc", own


@pytest.mark.parametrize("before", ["another", "none"])
def test_a_linker_that_a_link_leads_to_is_swapped(own_gcc: tuple[Path, Path], before: str) -> None:
    """`/usr/bin/ld` is a link on most systems, and its target can change."""
    compiler, folder = own_gcc
    linkers = [folder.parent / name for name in ("bfd", "gold")]
    for linker in linkers:
        linker.write_bytes(b"\x7fELF" + linker.name.encode())
    if before == "another":
        (folder / "ld").symlink_to(linkers[0])
    memo = Memo(None)
    first = examine("cc", compiler, memo)
    assert examine("cc", compiler, memo) == first
    assert str(folder / "ld") in memo.seen  # a receipt looks at the link, too, and at where one may come
    (folder / "ld").unlink(missing_ok=True)
    (folder / "ld").symlink_to(linkers[1])
    assert examine("cc", compiler, memo).fingerprint != first.fingerprint


def test_another_version_beside_a_compilers_files(own_gcc: tuple[Path, Path]) -> None:
    """Clang takes the newest."""
    compiler, folder = own_gcc
    memo = Memo(None)
    examine("cc", compiler, memo)
    assert str(folder.parent) in memo.seen
    (folder.parent / "999").mkdir()
    assert not _still_holds(memo.fact("cc", compiler))


# --- gpubuild itself ---


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our own package in a folder that can be changed."""
    copy = tmp_path / "gpubuild"
    shutil.copytree(find_module._PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(find_module, "_PACKAGE", copy)
    return copy


def test_our_own_code_is_a_tool(copy: Path) -> None:
    before = Toolchain(BARE).require("gpubuild").fingerprint
    with (copy / "cli" / "__init__.py").open("a") as stream:
        stream.write("# what is printed changes no output of a step\n")
    assert Toolchain(BARE).require("gpubuild").fingerprint == before
    for file in ("engine/dispatch.py", "model/step.py", "settings.py"):
        with (copy / file).open("a") as stream:
            stream.write("# changed\n")
        after = Toolchain(BARE).require("gpubuild").fingerprint
        assert after != before, file
        before = after


def test_our_own_code_is_read_again_only_where_it_changed(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []

    def tree_fingerprint(root: Path, files: Iterable[str]) -> str:
        read.append(root)
        return distribution.tree_fingerprint(root, files)

    monkeypatch.setattr(own, "tree_fingerprint", tree_fingerprint)

    def fingerprint() -> str:
        return Toolchain(BARE, memo=copy.parent / "tools.json").require("gpubuild").fingerprint

    first = fingerprint()
    assert fingerprint() == first
    assert len(read) == 2  # the copy is so new that another edit could leave its stat data unchanged
    monkeypatch.setattr(own, "is_settled", lambda stat, at: True)
    assert [fingerprint() for _ in range(3)] == [first] * 3
    assert len(read) == 3
    changed = copy / "engine" / "dispatch.py"
    stat = changed.stat()
    changed.write_bytes(changed.read_bytes().replace(b"run", b"nur", 1))
    os.utime(changed, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert fingerprint() != first
    (copy / "model" / "new.py").touch()
    assert len({first, fingerprint(), fingerprint()}) == 2
    assert len(read) == 5


# --- zig ---


def test_zig_gets_a_cache_in_the_closed_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the user; where that cannot be written, one in /tmp."""
    fake = executable(tmp_path / "zig", "#!/bin/sh\nenv\n")
    folder = tmp_path / "cache" / "gpubuild" / "zig"
    (tmp_path / "file").write_bytes(b"")
    for home, expected in (("cache", folder), ("file", f"/tmp/gpubuild-{os.getuid()}/zig")):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
        environment = run_tool((fake,), cwd=tmp_path).stdout.decode().splitlines()
        assert f"ZIG_GLOBAL_CACHE_DIR={expected}" in environment
        assert f"ZIG_LOCAL_CACHE_DIR={expected}" in environment
    assert folder.is_dir()
