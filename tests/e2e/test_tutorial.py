"""docs/tutorial.md: every command as it stands, every line of output as it is shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from e2e.command import ROOT

MARK = "--end-of-command--"


def _sessions() -> list[tuple[str, str]]:
    """Commands with the output that the page shows, in order."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text(), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
    return found


def _pattern(shown: str) -> str:
    """A line of … alone stands for any lines, … in a line for anything in it."""
    lines = []
    for line in shown.splitlines():
        if line == "…":
            lines.append(r"(?:.*\n)*?")
        else:
            # Columns are as wide as what is in them.
            parts = [re.sub(r"(?:\\ )+", " +", re.escape(part)) for part in line.split("…")]
            lines.append(".*".join(parts) + r"\n")
    return "".join(lines)


def test_every_command_shows_what_the_page_shows(tmp_path: Path) -> None:
    sessions = _sessions()
    assert len(sessions) > 15
    launcher = tmp_path / "bin" / "gpubuild"
    launcher.parent.mkdir()
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m gpubuild "$@"\n')
    launcher.chmod(0o755)
    script = "".join(f"{command}\necho {MARK}\n" for command, _ in sessions)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUBUILD_")}
    environment["PATH"] = f"{launcher.parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    outputs = done.stdout.split(f"{MARK}\n")
    assert len(outputs) == len(sessions) + 1
    for (command, shown), output in zip(sessions, outputs, strict=False):
        assert re.fullmatch(_pattern(shown), output), f"$ {command}\n{output}\n--- the page:\n{shown}"
