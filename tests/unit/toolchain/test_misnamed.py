"""Variables that name what is not there are told, also where nothing needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubuild.settings import Settings
from gpubuild.targets.registry import kinds
from gpubuild.toolchain.find import misnamed

ALL = frozenset(kinds())


@pytest.mark.parametrize(
    ("variable", "kind", "said"),
    [
        ("GPUBUILD_CC", None, "names {}, which is not an executable file"),
        ("GPUBUILD_CXX", None, "names {}, which is not an executable file"),
        ("GPUBUILD_PTXAS", None, "names {}, which is not an executable file"),
        ("GPUBUILD_LLD", None, "names {}, which is not an executable file"),
        ("GPUBUILD_CLANG_LINKER_WRAPPER", None, "names {}, which is not an executable file"),
        ("GPUBUILD_LIBDEVICE", None, "names {}, which is not a file"),
        ("ROCM_PATH", "rocdl", "names {}, which is not a folder"),
        ("CUDA_PATH", "nvvm", "names {}, which is not a folder"),
    ],
)
def test_each_variable(tmp_path: Path, variable: str, kind: str | None, said: str) -> None:
    named = tmp_path / "none" if kind else tmp_path
    settings = Settings.from_environ({variable: str(named)})
    told = f"{variable} {said.format(named)}: correct or unset it"
    assert settings.names_tools
    assert misnamed(settings, ALL) == (told,)
    assert misnamed(settings, ALL - {kind}) == (() if kind else (told,))


def test_what_is_there_is_not_told(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.touch(0o755)
    names = ("GPUBUILD_CC", "GPUBUILD_PTXAS", "GPUBUILD_LIBDEVICE")
    named = {"ROCM_PATH": str(tmp_path), "CUDA_PATH": str(tmp_path), **dict.fromkeys(names, str(program))}
    assert misnamed(Settings.from_environ(named), ALL) == ()
    assert not Settings.from_environ({"PATH": "/bin"}).names_tools
