"""The Python API as docs/how-to/api.md tells of it."""

from __future__ import annotations

import logging
import re
import sys
import typing
from pathlib import Path

import pytest
from e2e.command import ROOT, cpu_demo, execute, gpubuild, run_python, shared_cache

import gpubuild as package
from gpubuild.errors import ConfigError, UsageError
from gpubuild.model.events import Event, StepFinished

HEAVY = {
    "yaml", "networkx", "mlir", "llvmlite", "rich", "elftools", "msgpack", "SCons",
    "asyncio", "multiprocessing", "typing", "dataclasses", "pathlib", "json", "subprocess", "argparse",
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cpu_demo(tmp_path_factory.mktemp("api"))


def test_the_page_as_it_stands(project: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "how-to" / "api.md").read_text(), re.S)
    assert len(blocks) == 4
    done = run_python("\n".join(blocks), cwd=project)
    lines = done.out.splitlines()
    assert lines[0] == f"True {project / 'build' / 'scale' / 'scale'}"
    assert any(line.startswith("scale/link ") for line in lines)
    assert lines[-2].startswith("9 steps; {")
    assert "'scale/host'" in lines[-2]
    assert lines[-1] == "[0. 1. 2. 3.]"


def test_the_same_build_as_the_command_lines(
    project: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The command may be a wheel's, with the runtime library; with a named compiler both compile it.
    variables = {"GPUBUILD_CC": "cc"} | shared_cache()
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    loaded = package.load_project(project)
    assert (loaded.programs, "cpu" in loaded.targets) == (("scale",), True)
    seen: list[Event] = []

    class Listener:
        def on_event(self, event: Event) -> None:
            seen.append(event)

    report = loaded.build(listener=Listener())
    assert report.ok
    assert len([e for e in seen if isinstance(e, StepFinished)]) == len(report.steps) == 9
    again = gpubuild("build", "--json", cwd=project, env=variables).document["steps"]
    assert [(s["id"], s["status"], s["reason"]) for s in again if s["status"] != "up-to-date"] == []
    (project / "main.c").write_text((project / "main.c").read_text() + "void broken(void) { return 1 }\n")
    with caplog.at_level(logging.INFO, logger="gpubuild"):
        failed = loaded.build("scale")
    assert not failed.ok
    (step,) = failed.failed
    assert (step.id, step.error is not None) == ("cc/main.c", True)
    assert [r.levelname for r in caplog.records if "cc/main.c" in r.getMessage()] == ["ERROR"]


def test_a_variant(project: Path) -> None:
    file = project / "targets.yaml"
    before = file.read_text()
    file.write_text(before + "profiles: {fast: {defaults: {fast_math: true}}}\n")
    try:
        loaded = package.load_project(
            file, profile="fast", settings=["defaults.opt_level=1"], defines={"N": 2, "ON": None}
        )
    finally:
        file.write_text(before)
    assert (loaded.model.targets["cpu"].fast_math, loaded.model.opt_level) == (True, 1)
    assert loaded.model.programs["scale"].host.define == (("N", "2"), ("ON", None))
    report = loaded.build(dry_run=True)
    assert report.executables["scale"] == project / "build-fast/scale/scale"


def test_mistakes_are_raised(project: Path, tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("version: 1\nprogramms: {}\nx: 1\n")
    with pytest.raises(ConfigError) as caught:
        package.load_project(tmp_path)
    assert len(caught.value.problems) >= 2
    with pytest.raises(ConfigError, match="cannot read"):
        package.load_project(tmp_path / "missing.yaml")
    with pytest.raises(UsageError, match="did you mean 'scale'"):
        package.load_project(project).build("scail")
    with pytest.raises(TypeError, match=r"\['cpu'\]"):
        package.load_project(project).build(targets="cpu")


def test_it_is_typed() -> None:
    assert (Path(package.__file__).parent / "py.typed").is_file()
    from gpubuild.api import LoadedProject
    from gpubuild.model.result import BuildReport

    hints = typing.get_type_hints(LoadedProject.build, vars(sys.modules["gpubuild.api"]))
    assert hints["return"] is BuildReport


@pytest.mark.parametrize(
    "code", ["import gpubuild", "from gpubuild.cli.main import main; main(['--version'])"]
)
def test_what_an_import_costs(code: str) -> None:
    """Time is noise on a busy machine; which modules are loaded is not."""
    bare = _imported("import gc, io, os, signal, sys, errno")
    loaded = _imported(code) - bare
    assert {name.split(".")[0] for name in loaded} & HEAVY == set()
    ours = {name for name in loaded if name.startswith("gpubuild")}
    assert ours <= {"gpubuild", "gpubuild._version", "gpubuild.cli", "gpubuild.cli.main"}
    assert loaded - ours <= {"__future__"}


def _imported(code: str) -> set[str]:
    done = execute(sys.executable, "-X", "importtime", "-c", code)
    return {line.rsplit("|", 1)[1].strip() for line in done.err.splitlines() if line.count("|") == 2}
