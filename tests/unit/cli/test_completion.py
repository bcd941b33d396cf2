"""Completion: what may stand at the cursor, and real shells that ask."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpubuild.cli.completion import FILES, FOLDERS, NOTHING, SCRIPTS, candidates
from gpubuild.cli.parser import SHELLS

YAML = """\
version: 1
targets: {sm_90: {}, cpu: {}}
programs:
  saxpy: {sources: [a.mlir]}
  softmax: {sources: [a.mlir]}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "targets.yaml").write_text(YAML)
    (tmp_path / "a.mlir").write_text("")
    (tmp_path / "folder").mkdir()
    private = tmp_path / "build" / ".gpubuild"
    private.mkdir(parents=True)
    steps = {"saxpy/compile/blur/sm_90": {}, "saxpy/link": {}}
    (private / "state.json").write_text(json.dumps({"steps": steps}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def words(line: str) -> list[str]:
    return [word for word, _ in candidates(line.split(" ")).words]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("bu", ["build"]),
        ("build s", ["saxpy", "softmax"]),
        ("build saxpy ", ["softmax"]),  # not the one that is there
        ("build saxpy -t ", ["sm_90", "cpu"]),
        ("build -t sm_90 s", ["saxpy", "softmax"]),
        ("build --target=s", ["--target=sm_90"]),
        ("build --target = s", ["sm_90"]),  # as bash cuts it
        ("build --target =", ["sm_90", "cpu"]),
        ("build --keep", ["--keep-going"]),
        ("build --keep-going --keep", []),  # once is enough
        ("build -t cpu --targ", ["--target"]),  # but this may come again
        ("cache ex", ["export"]),
        ("cache stats --js", ["--json"]),
        ("graph --format m", ["mermaid"]),
        ("graph --module ", ["blur"]),
        ("explain saxpy/l", ["saxpy/link"]),
        ("completion ", list(SHELLS)),
        ("compile k.mlir --emit o", ["obj"]),
        ("build -f missing.yaml s", []),
        ("nonsense ", []),
    ],
)
def test_candidates(project: Path, line: str, expected: list[str]) -> None:
    found = words(line)
    if line == "nonsense ":
        assert "build" in found  # still a command is wanted
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("line", "besides"),
    [
        ("inspect ", FILES),
        ("build -f ", FILES),
        ("build --build-dir ", FOLDERS),
        ("run saxpy -- ", FILES),
        ("compile k.mlir -o ", FILES),
        ("build -j ", NOTHING),
        ("doctor ", NOTHING),
    ],
)
def test_files_and_folders(project: Path, line: str, besides: str) -> None:
    assert candidates(line.split(" ")).besides == besides


def test_every_command_and_option_can_be_completed() -> None:
    # From the parser itself: whatever is added there is known here.
    for command in words(""):
        assert "--help" in words(f"{command} --"), command


def bash(project: Path, line: str) -> list[str]:
    """What bash makes of TAB at the end of ``line``, in its own splitting of words."""
    bin_dir = project / "bin"
    bin_dir.mkdir(exist_ok=True)
    launcher = bin_dir / "gpubuild"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpubuild "$@"\n')
    launcher.chmod(0o755)
    parts = line.replace("=", " = ").split(" ") if "=" in line else line.split(" ")
    parts = [part for part in parts[:-1] if part] + parts[-1:]
    script = (
        f'eval "$(gpubuild completion bash)"\nCOMP_WORDS=({shlex.join(parts)})\nCOMP_CWORD={len(parts) - 1}\n'
        'compopt() { :; }\n_gpubuild\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{bin_dir}:/usr/bin:/bin"}
    done = subprocess.run(
        ["bash", "-euc", script], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash(project: Path) -> None:
    assert bash(project, "gpubuild build s") == ["saxpy", "softmax"]
    assert bash(project, "gpubuild graph --format=m") == ["mermaid"]
    assert bash(project, "gpubuild inspect a.") == ["a.mlir"]
    assert bash(project, "gpubuild build --build-dir f") == ["folder"]


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_accept_their_scripts(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell])
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish(project: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish here")
    bash(project, "gpubuild ")  # makes the launcher
    environment = {**os.environ, "PATH": f"{project / 'bin'}:/usr/bin:/bin", "HOME": str(project)}
    script = "gpubuild completion fish | source; complete -C 'gpubuild build s'; complete -C 'gpubuild insp'"
    done = subprocess.run(
        ["fish", "-c", script], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[:2] == ["saxpy", "softmax"]
    assert lines[2].startswith("inspect\tlist the modules")


def test_zsh(project: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("no zsh here")
    bash(project, "gpubuild ")
    environment = {**os.environ, "PATH": f"{project / 'bin'}:/usr/bin:/bin", "HOME": str(project)}
    script = (
        "compdef() { :; }; _describe() { print -rl -- $found }; _files() { print files }\n"
        'eval "$(gpubuild completion zsh)"\n'
        "words=(gpubuild build s); CURRENT=3; _gpubuild\nwords=(gpubuild inspect ''); CURRENT=3; _gpubuild\n"
    )
    done = subprocess.run(
        ["zsh", "-fc", script], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    assert {"saxpy", "softmax", "files"} <= set(done.stdout.split())
