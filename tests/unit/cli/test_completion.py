"""Completion in bash, as a shell asks for it, and in fish where it is installed."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpubuild.build.state import BuildState, StepRecord
from gpubuild.cli.main import main
from gpubuild.cli.parser import SHELLS
from gpubuild.model.digest import digest_bytes
from gpubuild.model.step import ActionResult

YAML = """\
version: 1
targets: {sm_90: {}, cpu: {}}
programs:
  saxpy: {sources: [a.mlir]}
  softmax: {sources: [a.mlir]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    (folder / "targets.yaml").write_text(YAML)
    (folder / "a.mlir").write_text("")
    (folder / "folder").mkdir()
    private = folder / "build" / ".gpubuild"
    private.mkdir(parents=True)
    state = BuildState(private / "state.json", folder)
    for step in ("saxpy/compile/blur/sm_90", "saxpy/link"):
        state.remember(step, StepRecord(key=digest_bytes(b""), parts={}, result=ActionResult(blobs=())))
    state.save()
    (folder / "bin").mkdir()
    launcher = folder / "bin" / "gpubuild"
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpubuild "$@"\n')
    launcher.chmod(0o755)
    return folder


def in_shell(project: Path, shell: str, script: str) -> str:
    environment = {**os.environ, "PATH": f"{project / 'bin'}:/usr/bin:/bin", "HOME": str(project)}
    done = subprocess.run(
        [shell, "-c", script], cwd=project, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout


# What is typed, and what is offered.
LINES = {
    "bu": ["build"],
    "build s": ["saxpy", "softmax"],
    "build saxpy ": ["softmax"],  # not the one that is given
    "build saxpy -t ": ["sm_90", "cpu"],
    "build --target=s": ["sm_90"],
    "build --keep": ["--keep-going"],
    "build --keep-going --keep": [],  # once is enough
    "build -t cpu --targ": ["--target"],  # but this may be repeated
    "cache stats --js": ["--json"],
    "graph --module ": ["blur"],
    "explain saxpy/l": ["saxpy/link"],
    "completion ": list(SHELLS),
    "build -f missing.yaml s": [],
    "inspect a.": ["a.mlir"],
    "build --build-dir f": ["folder/"],
    "build -j ": [],
}


def test_bash(project: Path) -> None:
    script = 'eval "$(gpubuild completion bash)"; compopt() { :; }; COMP_TYPE=9\n'
    for line in (f"gpubuild {line}" for line in LINES):
        script += f"COMPREPLY=(); COMP_LINE={shlex.quote(line)}; COMP_POINT={len(line)}\n"
        script += '_python_argcomplete gpubuild; printf "%s;" "${COMPREPLY[@]}"; echo\n'
    offered = [answer.strip(";").split(";") for answer in in_shell(project, "bash", script).splitlines()]
    assert dict(zip(LINES, offered, strict=True)) == {line: found or [""] for line, found in LINES.items()}


def test_fish(project: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish here")
    script = "gpubuild completion fish | source; complete -C 'gpubuild build s'; complete -C 'gpubuild insp'"
    assert in_shell(project, "fish", script).split()[:4] == ["saxpy", "softmax", "inspect", "list"]


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_accept_their_scripts(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    assert main(["completion", shell]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out)
    done = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
