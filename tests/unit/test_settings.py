"""Values of variables that mean nothing are errors, and names that are nearly ours are warned of."""

import json
import re
from pathlib import Path

import pytest
from reference import commands

from gpubuild import environment
from gpubuild.build.opening import execute_settings
from gpubuild.cli.main import main
from gpubuild.cli.quick import answer
from gpubuild.config.load import loads
from gpubuild.errors import ToolNotFoundError, UsageError
from gpubuild.model.project import BuildOptions, Execute
from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain

WRONG = [
    ("GPUBUILD_JOBS", "x", "a whole number from 1 to 4096"),
    ("GPUBUILD_JOBS", "0", "a whole number"),
    ("GPUBUILD_JOBS", "-2", "a whole number"),
    ("GPUBUILD_JOBS", "²", "a whole number"),
    ("GPUBUILD_JOBS", "99999", "from 1 to 4096"),
    ("GPUBUILD_EXECUTE_JOBS", "0", "a whole number from 1 to 100000"),
    ("GPUBUILD_EXECUTE_ONLY", "yes", "0 or 1"),
    ("GPUBUILD_EXECUTE_FALLBACK", "off", "0 or 1"),
    *(("GPUBUILD_EXECUTE_VERIFY", value, "from 0 to 1") for value in ("1.5", "2", ".", "-1", "1e-1", "10")),
    ("GPUBUILD_CACHE", "none", "read-write, read-only, write-only or off"),
    ("GPUBUILD_REMOTE_MODE", "readonly", "read-write, read-only, write-only or off"),
    ("GPUBUILD_REMOTE", "cache.example", "an address such as https://"),
]


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_a_value_that_means_nothing(name: str, value: str, allowed: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} is {value!r}$") as caught:
        Settings.from_environ({name: value})
    assert allowed in caught.value.hint


def test_a_password_is_not_shown() -> None:
    with pytest.raises(UsageError) as caught:
        Settings.from_environ({"GPUBUILD_REMOTE": "me:secret@cache.example"})
    assert "secret" not in caught.value.render()


def test_right_values() -> None:
    settings = Settings.from_environ(
        {
            "GPUBUILD_JOBS": "12",
            "GPUBUILD_CACHE": "off",
            "GPUBUILD_REMOTE": "https://h",
            "GPUBUILD_DEBUG": "0",
        }
    )
    assert (settings.jobs, settings.cache_mode, settings.debug) == (12, "off", False)
    assert Settings.from_environ({"GPUBUILD_JOBS": "", "GPUBUILD_DEBUG": "1"}).jobs is None


@pytest.mark.parametrize("part", ["0", "1", "0.5", ".25", "1.0"])
def test_variables_change_how_a_cluster_is_used(tmp_path: Path, part: str) -> None:
    (tmp_path / "a.mlir").touch()
    variables = {
        "GPUBUILD_EXECUTOR": "dask:tls://h:1",
        "GPUBUILD_EXECUTE_JOBS": "3",
        "GPUBUILD_EXECUTE_ONLY": "1",
        "GPUBUILD_EXECUTE_FALLBACK": "0",
        "GPUBUILD_EXECUTE_VERIFY": part,
    }
    document = {
        "version": 1,
        "execute": {"dask": "tls://other:1", "retries": 2},
        "targets": {"cpu": {}},
        "programs": {"p": {"sources": ["a.mlir"]}},
    }
    project = loads(json.dumps(document), tmp_path / "targets.yaml")
    options = BuildOptions(build_dir=tmp_path / "build")
    used = execute_settings(project.execute, Settings.from_environ(variables), options)
    assert used == Execute(dask="tls://h:1", jobs=3, only=True, fallback=False, verify=float(part), retries=2)
    usual = execute_settings(project.execute, Settings.from_environ({}), options)
    assert usual == Execute(dask="tls://other:1", retries=2)


def test_commands_tell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("GPUBUILD_JOBS", "x")
    assert answer([]) is None  # nor does a build with nothing to do look away
    assert main(["doctor"]) == 2
    assert capsys.readouterr().err == (
        "error: GPUBUILD_JOBS is 'x'\n  hint: it can be a whole number from 1 to 4096; or unset it\n"
    )
    assert main(["doctor", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["exit_code"] == 2
    assert main(["--help"]) == 0  # works all the same


def test_a_name_that_is_nearly_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUBUILD_JOB", "2")
    monkeypatch.setenv("GPUBUILD_OF_MY_OWN", "2")
    main(["completion", "bash"])
    told = capsys.readouterr().err
    assert told == "warning: there is no variable GPUBUILD_JOB; did you mean GPUBUILD_JOBS?\n"


def test_a_named_library_must_be_there() -> None:
    tools = Toolchain(Settings.from_environ({"GPUBUILD_LIBDEVICE": "/none"}))
    assert tools.find("libdevice") is None  # for `doctor`
    with pytest.raises(ToolNotFoundError, match="GPUBUILD_LIBDEVICE names /none, which is not a file"):
        tools.find_optional("libdevice")


def test_every_variable_is_documented() -> None:
    names = ", ".join([*commands.OF_GPUBUILD, *commands.OF_PROGRAMS])
    assert set(re.findall(r"GPUBUILD_\w+", names)) == environment.OURS
