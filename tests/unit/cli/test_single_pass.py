"""``gpubuild pass``: what tests/passes runs, on the command line."""

from pathlib import Path

import pytest

from gpubuild.cli.main import main

KERNEL = """gpu.module @k {
  gpu.func @f(%m: memref<?xf32>) kernel {
    %i = gpu.subgroup_id : index
    %s = gpu.subgroup_size : index
    %x = memref.load %m[%i] : memref<?xf32>
    memref.store %x, %m[%s] : memref<?xf32>
    gpu.return
  }
}
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "k.mlir").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_pass_or_a_range(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pass", "sm_60", "expand-subgroup-ids", "k.mlir"]) == 0
    one = capsys.readouterr().out
    assert "gpu.subgroup_id" not in one and "gpu.subgroup_size" in one
    both = "expand-subgroup-size..expand-subgroup-ids"
    assert main(["pass", "sm_60", both, "k.mlir", "-o", "o.mlir"]) == 0
    assert "gpu.subgroup" not in (here / "o.mlir").read_text()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("gfx90a expand-subgroup-idz k.mlir", "did you mean 'expand-subgroup-ids'?"),
        (
            "sm_60 expand-subgroup-ids..expand-subgroup-size k.mlir",
            "write expand-subgroup-size..expand-subgroup-ids",
        ),
        ("sm_60 expand-subgroup-ids", ""),
        ("mine --list", ""),
    ],
)
def test_mistakes(arguments: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pass", *arguments.split()]) == 2
    assert text in capsys.readouterr().err


def test_names_are_listed_by_the_command_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pass", "gfx90a", "--list"]) == 0
    assert capsys.readouterr().out.split()[1:3] == ["own-passes", "expand-matrices"]
    assert main(["--help"]) == 0
    assert " pass " not in capsys.readouterr().out
