"""The manual page and the reference: made from the parser, whole, and understood by man."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpubuild.cli import reference
from gpubuild.cli.reference import all_commands, manual, page

ROOT = Path(__file__).parents[3]


def test_every_command_and_option_is_in_it() -> None:
    text = manual().replace(r"\-", "-")
    commands = all_commands()
    assert {"build", "cache export", "watch", "man"} <= {c.name for c in commands}
    for command in commands:
        assert f".SS gpubuild {command.name}\n" in text
        for argument in command.arguments:
            assert rf"\fB{argument.spelling}\fR".replace("…", r"\[u2026]") in text


@pytest.mark.parametrize("reader", ["mandoc", "groff"])
def test_readers_find_nothing_wrong(reader: str, tmp_path: Path) -> None:
    if shutil.which(reader) is None:
        pytest.skip(f"no {reader} here")
    (tmp_path / "gpubuild.1").write_text(manual())
    how = ["-T", "lint", "-W", "warning"] if reader == "mandoc" else ["-man", "-Tutf8", "-ww"]
    done = subprocess.run(
        [reader, *how, tmp_path / "gpubuild.1"], capture_output=True, text=True, check=False
    )
    complaints = done.stdout if reader == "mandoc" else done.stderr
    # No date on purpose: the same version gives the same page.
    kept = [line for line in complaints.splitlines() if "missing date" not in line]
    assert kept == []
    if reader == "groff":
        assert "--keep-going" in re.sub("\x1b\\[[0-9;]*m|.\b", "", done.stdout)


def test_lines_cannot_be_taken_for_requests() -> None:
    known = {".TH", ".SH", ".SS", ".PP", ".TP", ".nf", ".fi"}
    for line in manual().splitlines():
        assert not line.startswith("'")
        assert not line.startswith(".") or line.split()[0] in known
        assert line.isascii()


def test_the_reference_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference.md").read_text() == page(), (
        "run python -m gpubuild.cli.reference docs/reference.md"
    )


def test_every_variable_that_is_read_is_told_of() -> None:
    told = set(re.findall(r"[A-Z_]{4,}", " ".join((*reference.OF_GPUBUILD, *reference.OF_PROGRAMS))))
    sources = [ROOT / "gpubuild" / "settings.py", ROOT / "gpubuild" / "environment.py"]
    read = set(re.findall(r"\bGPUBUILD_[A-Z_]+\b", "".join(p.read_text() for p in sources)))
    for path in (ROOT / "gpubuild" / "runtime").glob("*/*.c"):
        read |= set(re.findall(r'getenv\("(GPUBUILD_\w+)"\)', path.read_text()))
    assert "GPUBUILD_DEVICE" in read
    assert read - told == set()
