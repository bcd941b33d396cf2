"""The quick answer to ``build``: it must read arguments as the whole parser does, or not at all."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from gpubuild.cli import quick
from gpubuild.cli.options import FLAG, OPTIONS, WORDS
from gpubuild.cli.parser import parse
from gpubuild.errors import UsageError

PIECES = (
    ["app"], ["b"], ["-q"], ["-v"], ["-k"], ["--keep-going"], ["--json"], ["--explain"], ["--no-cache"],
    ["-j", "4"], ["-j4"], ["-j", "0"], ["-j0"], ["-jx"], ["--jobs=3"], ["--jobs", "-1"], ["-j"],
    ["-t", "cpu"], ["-t", "sm_90"], ["--target=cpu"], ["-t"], ["-tcpu"], ["-tsm_90"],
    ["-f", "x/targets.yaml"], ["--file=y.yaml"], ["-f="], ["--file="], ["-f", ""],
    ["--profile", "a"], ["--profile=b"], ["--profile", "/"], ["--set", "a=1"], ["--set=b=2"], ["-D", "N=1"],
    ["-DN"], ["-DN=1"], ["-D=N"], ["--define", "N"],
    ["--build-dir", "out"], ["--build-dir=out"], ["--cache-dir", "c"],
    ["-n"], ["--trace", "t.json"], ["--", "x"], ["--nonsense"], ["--jso"], ["-kq"], ["-h"],
)  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_arguments_mean_what_the_parser_says(count: int) -> None:
    understood = 0
    stride = 61 if count == 3 else 1  # no factor of the number of pieces: each meets each
    for pieces in itertools.islice(itertools.product(PIECES, repeat=count), 0, None, stride):
        arguments = [argument for piece in pieces for argument in piece]
        found = quick.parse(arguments)
        if found is None:
            continue
        understood += 1
        try:
            options = parse(["build", *arguments])
        except UsageError as error:
            raise AssertionError(f"{arguments}: the parser says: {error}") from error
        assert found.get("programs", []) == options.programs, arguments
        for name, (_, takes, *_) in OPTIONS.items():
            value = vars(options)[name]
            if name not in found:
                assert value in (False, None, 0, [], Path("targets.yaml")), arguments
            elif takes == FLAG:
                assert value is True, arguments
            else:
                assert found[name] == (value if takes == WORDS else [str(value)]), arguments
    assert understood >= 15**count / 2 / stride


@pytest.mark.parametrize(
    "arguments",
    [
        ["--trace", "x"],
        ["--message-format", "github"],
        ["app", "app"],
        ["-t", "a", "-t", "a"],
        ["--build-dir", "a/../b"],
        ["-j", "0"],
    ],
)
def test_the_unusual_is_left_to_the_whole_command(arguments: list[str]) -> None:
    assert quick.parse(arguments) is None


@pytest.mark.parametrize(
    ("file", "home", "found"),
    [
        ("a/b/c", "/nowhere", "targets.yaml"),
        ("a/b", "/nowhere", "../targets.yaml"),
        (".", "/nowhere", "../../../targets.yaml"),
        (".", "", "../../../targets.yaml"),
        (".", "a", "targets.yaml"),  # the search ends below the home folder
        ("a", "a", "targets.yaml"),
        ("a/b", "a/b/c", "targets.yaml"),
    ],
)
def test_the_project_file_of_a_folder_above(
    file: str, home: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / file / "targets.yaml").touch()
    monkeypatch.setenv("HOME", home if home.startswith("/") or not home else str(tmp_path / home))
    monkeypatch.chdir(tmp_path / "a/b/c")
    assert quick.find_project() == found


def test_a_folder_that_all_can_write_to_is_not_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "targets.yaml").touch()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert quick.find_project() == "../targets.yaml"
    tmp_path.chmod(0o777)
    assert quick.find_project() == "targets.yaml"


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from gpubuild.cli import main, quick; quick.answer(['app']);"
        "print(*sorted(m.partition('.')[0] for m in sys.modules))"
    )
    path = f"import sys; sys.path.insert(0, {str(Path(quick.__file__).parents[2])!r})"
    command = [sys.executable, "-I", "-S", "-c", f"{path}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    heavy = {
        "networkx", "sqlite3", "mlir", "llvmlite", "rich", "yaml", "argparse", "dataclasses",
        "pathlib", "subprocess", "threading", "inspect", "concurrent", "shutil",
    }  # fmt: skip
    assert not heavy & set(done.stdout.split())
