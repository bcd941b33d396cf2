"""Parser: what is accepted, and what is suggested when it is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpubuild.cli.main import main
from gpubuild.cli.parser import parse
from gpubuild.errors import UsageError


def test_build_options() -> None:
    line = "build a b -f p.yaml -j4 -t sm_90 -t cpu --build-dir out --no-cache -k -n"
    options = parse(line.split())
    assert options.programs == ["a", "b"]
    assert (options.file, options.build_dir) == (Path("p.yaml"), Path("out"))
    assert (options.jobs, options.targets) == (4, ["sm_90", "cpu"])
    assert (options.no_cache, options.keep_going, options.dry_run, options.json) == (True, True, True, False)


def test_what_follows_two_dashes_is_the_programs() -> None:
    options = parse(["run", "edges", "-j2", "--", "-j", "in.ppm", "--", "x"])
    assert options.programs == ["edges"]
    assert options.jobs == 2
    assert options.program_arguments == ["-j", "in.ppm", "--", "x"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["biuld"], "there is no command 'biuld' (did you mean 'build'?)", "COMMAND is one of build, run, "),
        (["biuld"], "did you mean 'build'?", "gpubuild --help"),
        (["cache"], "required: ACTION", "ACTION is one of stats, "),
        (["build", "-C", "kernels"], "unrecognized arguments: -C", "`gpubuild -C DIR build`"),
        (["build", "--jbos=3"], "did you mean '--jobs'?", "gpubuild build --help"),
        (["compile", "k.mlir", "-t", "sm_90", "--emit", "lvm"], "did you mean 'llvm'?", "compile --help"),
        (["cache", "stat"], "did you mean 'stats'?", "gpubuild cache --help"),
        (["build", "-j0"], "expected a whole number from 1 to 4096", "build --help"),
        (["build", "--build-dir="], "--build-dir: expected a path, got nothing", "build --help"),
        (["build", "--no"], "--no", "build --help"),  # no abbreviations: they break when options are added
        (["compile", "k.mlir", "--emit", "asm"], "-t/--target", "compile --help"),
    ],
)
def test_mistakes(arguments: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(arguments)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, usage in ((["help"], "usage: gpubuild [-h]"), (["help", "run"], "usage: gpubuild run ")):
        with pytest.raises(SystemExit) as ended:
            parse(arguments)
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(usage)


@pytest.mark.parametrize("arguments", [["--version"], ["build", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    packages = "yaml networkx mlir llvmlite rich elftools msgpack SCons argcomplete asyncio"
    heavy = [*packages.split(), "multiprocessing"]
    code = (
        "import sys; from gpubuild.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


def test_watch_run_is_for_one_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command line is not watched: no edit fixes it."""
    (tmp_path / "main.c").touch()
    (tmp_path / "targets.yaml").write_text(
        "version: 1\ntargets: {cpu: {}}\nprograms: {a: {sources: [main.c]}}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "--run", "a", "b"]) == 2
    assert "error: watch --run is for one program, not 2: a b" in capsys.readouterr().err
