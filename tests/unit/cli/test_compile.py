"""Compile: the project made up from options, and where results go."""

import io
from pathlib import Path

import pytest

from gpubuild.cli.compile import PROGRAM, Result, _choose, deliver, temporary_project
from gpubuild.cli.console import Console
from gpubuild.cli.parser import parse
from gpubuild.errors import UsageError
from gpubuild.targets.target import Sanitize


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.mlir").write_text("")
    (tmp_path / "lib.ll").write_text("")
    return tmp_path


def project(*arguments: str, file: str = "k.mlir"):
    return temporary_project(parse(["compile", file, "--emit", "obj", *arguments]))


def test_options_reach_the_target(here: Path) -> None:
    options = "-t mine --chip sm_90a --features=+ptx80 --opt-level 1 --fast-math --debug --device-lib lib.ll"
    target = project(*options.split(), "--passes", "builtin.module(cse)").targets["mine"]
    assert (target.kind, target.chip, target.features) == ("nvvm", "sm_90a", "+ptx80")
    assert (target.opt_level, target.fast_math, target.debug) == (1, True, True)
    assert (target.device_libs, target.passes) == ((here / "lib.ll",), "builtin.module(cse)")
    checked = project("-t", "cpu", "--sanitize", "race,bounds").targets["cpu"]
    assert checked.sanitize == (Sanitize.BOUNDS, Sanitize.RACE)


def test_defaults_are_those_of_a_project_file() -> None:
    made = project("-t", "sm_60", "-t", "gfx90a", "-t", "sm_60")
    assert list(made.targets) == ["sm_60", "gfx90a"]
    assert made.targets["gfx90a"].opt_level == 3
    assert made.programs[PROGRAM].targets == ("sm_60", "gfx90a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "-t foo",
            "the name 'foo' does not imply the kind of target 'foo'; add --kind nvvm, rocdl, spirv or cpu",
        ),
        ("-t sm_60 -t sm_90 --chip sm_80", "--chip is for one target"),
        ("-t sm_60 --device-lib other.bc", "there is no device library other.bc"),
        ("-t cpu --sanitize bound", "unknown word 'bound' (did you mean 'bounds'?)"),
        ("-t sm_60 --sanitize bounds", "'sanitize' is for targets of kind cpu"),
        ("-t sm_60 --kind rocdl", "is the name of an NVIDIA chip"),
    ],
)
def test_mistakes(arguments: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        project(*arguments.split())
    assert message in caught.value.message
    assert "targets.yaml:" not in caught.value.message  # there is none to look into
    for name, problem in (("kk.mlir", "there is no file"), ("lib.ll", "not an .mlir")):
        with pytest.raises(UsageError, match=problem):
            project("-t", "sm_60", file=name)


def test_choosing_a_module() -> None:
    modules = ["a_kernels", "b_kernels"]
    assert _choose(modules, None, Path("k.mlir")) == ["a_kernels", "b_kernels"]
    assert _choose(modules, "@b_kernels", Path("k.mlir")) == ["b_kernels"]
    with pytest.raises(UsageError, match="did you mean 'a_kernels'"):
        _choose(modules, "a_kernel", Path("k.mlir"))
    with pytest.raises(UsageError, match="nothing to compile"):
        _choose([], None, Path("k.mlir"))


class Stream(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO())


def results(folder: Path, *names: str) -> list[Result]:
    for name in names:
        (folder / f"made-{name}").write_bytes(name.encode() + b"\0\xff")
    return [Result(file=folder / f"made-{name}", name=name) for name in names]


def test_output_may_be_a_file_a_folder_or_stdout(here: Path) -> None:
    console = Console(out=Stream(), err=io.StringIO())
    (here / "out").mkdir()
    deliver(results(here, "a.ptx"), "b.ptx", console)
    deliver(results(here, "a.ptx", "c.ptx"), "out", console)
    assert (here / "b.ptx").read_bytes() == b"a.ptx\0\xff"
    assert {p.name for p in (here / "out").iterdir()} == {"a.ptx", "c.ptx"}
    deliver(results(here, "a.ptx"), "-", console)
    assert console.out.buffer.getvalue() == b"a.ptx\0\xff"


@pytest.mark.parametrize("output", ["-", "one.ptx"])
def test_several_results_do_not_fit_in_one_file(here: Path, output: str) -> None:
    with pytest.raises(UsageError, match="one file for 2 results"):
        deliver(results(here, "a.ptx", "b.ptx"), output, Console(out=Stream(), err=io.StringIO()))
    assert not (here / output).exists()


def test_no_binary_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    from gpubuild.cli import compile as command

    class Terminal(Stream):
        def isatty(self) -> bool:
            return True

    options = parse(["compile", "k.mlir", "-t", "sm_60", "--emit", "obj", "-o", "-"])
    options.console = Console(out=Terminal(), err=io.StringIO())
    with pytest.raises(UsageError, match="stdout is a terminal"):
        command.execute(options)
