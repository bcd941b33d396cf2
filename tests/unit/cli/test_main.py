"""Main: every way to end has its exit code, and none a traceback."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpubuild import __version__
from gpubuild.cli import main as module
from gpubuild.cli.main import main
from gpubuild.errors import EXIT_INTERRUPTED, InterruptedBuildError, StepError, UsageError
from gpubuild.execute import local


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(module, "_run", fail)
    return main(["doctor"])


def test_another_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = Path.cwd()
    try:
        assert main(["-C", str(tmp_path), "build"]) == 2
        assert Path.cwd() == tmp_path
        assert main(["-C", "missing", "build"]) == 2
    finally:
        os.chdir(here)
    assert "error: cannot change to missing: No such file or directory\n" in capsys.readouterr().err
    assert main(["-C"]) == 2


# Empty counts as not set: that is how most people run it.
UNBUFFERED = pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])


def run_tool(arguments: list[str], unbuffered: str = "", **options: Any) -> subprocess.CompletedProcess[str]:
    variables = {"PYTHONUNBUFFERED": unbuffered, **options.pop("env", {})}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    command = [sys.executable, "-m", "gpubuild", *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, text=True, check=False, **streams)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (StepError("it broke"), 1, "error: it broke"),
        (UsageError("what?", hint="this"), 2, "error: what?\n  hint: this"),
        (InterruptedBuildError("interrupted"), 130, "interrupted\n"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (RuntimeError("oops"), 3, "internal error: RuntimeError: oops"),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    text: str,
) -> None:
    monkeypatch.delenv("GPUBUILD_DEBUG", raising=False)
    assert ending(monkeypatch, error) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert "Traceback" not in captured.err
    monkeypatch.setenv("GPUBUILD_DEBUG", "1")
    assert ending(monkeypatch, error) == code
    assert ("Traceback" in capsys.readouterr().err) == (code == 3), "internal errors can be looked into"


@pytest.mark.parametrize(
    ("name", "command"),
    [("gpubuild.settings.Settings.from_environ", "doctor"), ("gpubuild.cli.main._nothing_to_do", "build")],
    ids=["while modules are imported", "while looking whether there is anything to do"],
)
def test_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, command: str
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(name, interrupt)
    assert main([command]) == EXIT_INTERRUPTED == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_version_and_bare_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gpubuild {__version__}\n"
    assert main([]) == 0
    assert "gpubuild init demo" in capsys.readouterr().out


def test_sigterm_ends_like_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def wait(*_: object) -> int:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
        return 0

    monkeypatch.setattr(module, "_run", wait)
    assert main(["doctor"]) == 130
    assert signal.getsignal(signal.SIGTERM) is before


@UNBUFFERED
@pytest.mark.parametrize("arguments", [["build", "--help"], ["build", "-f", "none", "--json"]])
def test_a_reader_that_goes_away_is_no_error(arguments: list[str], unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        done = run_tool(arguments, unbuffered, stdout=nobody)
        both = run_tool(arguments, unbuffered, stdout=nobody, stderr=nobody) if "none" in arguments else done
    assert done.returncode == both.returncode == (2 if "none" in arguments else 128 + signal.SIGPIPE)
    assert "none" not in arguments or done.stderr.startswith("none: error: cannot read")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_no_project_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["build", "--json"]) == 2
    captured = capsys.readouterr()
    assert captured.out.startswith('{\n  "schema": 1,')  # scripts get their document all the same
    assert "gpubuild init" in captured.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    command = f"exec '{sys.executable}' -m gpubuild build --help {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr + done.stdout


def test_any_encoding_will_do(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("version: 1\nprograms: {naïve→: {sources: 3}}\n")
    done = run_tool(["build", "--json"], cwd=tmp_path, env={"PYTHONIOENCODING": "ascii:strict"})
    assert done.returncode == 2
    assert "internal error" not in done.stderr


def test_a_current_folder_that_is_no_more(tmp_path: Path) -> None:
    script = (
        "import os, sys; os.rmdir(os.getcwd()); from gpubuild.cli.main import main; sys.exit(main(['build']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: the current folder does not exist\n  hint: ")


@UNBUFFERED
@pytest.mark.parametrize("arguments", [["cache", "stats", "--cache-dir", "cache"], ["--help"]])
def test_a_full_disk_is_not_called_our_mistake(tmp_path: Path, arguments: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = run_tool(arguments, unbuffered, cwd=tmp_path, stdout=full)
    assert done.returncode == 1
    assert done.stderr == "error: cannot write the output: No space left on device\n"


@UNBUFFERED
@pytest.mark.parametrize("full", ["stdout", "stderr"])
def test_a_full_disk_hides_no_error(tmp_path: Path, full: str, unbuffered: str) -> None:
    with Path("/dev/full").open("w") as file:
        done = run_tool(["build", "--json"], unbuffered, cwd=tmp_path, **{full: file})
    assert done.returncode == 2
    if full == "stdout":
        assert done.stderr.startswith("targets.yaml: error: cannot read the project file")
        assert "Traceback" not in done.stderr


def test_a_full_disk_names_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "build/x")

    monkeypatch.setattr(module, "_run", run)
    assert main(["doctor"]) == 1
    assert capsys.readouterr().err == "error: cannot write build/x: No space left on device\n"


@pytest.mark.parametrize(
    "arguments",
    [["inspect", "/nonexistent", "--json"], ["build", "-jx", "--json"], ["doctor", "--json", "--no"]],
)
def test_errors_are_one_json_document_too(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    error = json.loads(shown.out)["error"]
    assert error["exit_code"] == 2
    assert error["message"] in shown.err


def test_an_interrupt_while_a_class_is_made_has_its_exit_code(tmp_path: Path) -> None:
    """As ``python -m``, CPython would end with SIGINT: it remembers interrupts inside ``exec`` of a text."""
    (tmp_path / "interrupted.py").write_text(
        "import sys; from gpubuild.cli import main\n"
        "def stop(arguments): exec('raise KeyboardInterrupt')\n"
        "main._answer = stop; sys.exit(main.main(['build']))"
    )
    done = subprocess.run(
        [sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "\ninterrupted\n")


def test_compile_loads_mlir_before_its_options_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(local, "start_early", started.append)
    words = ["compile", "no-such-file.mlir", "-t", "sm_90"]
    assert main(words) == 2
    assert not started, "it forks in a process that has other work"
    monkeypatch.setattr(sys, "argv", ["gpubuild", *words])
    assert main(words) == 2
    assert started == [1]
