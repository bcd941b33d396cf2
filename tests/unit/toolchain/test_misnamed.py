"""Variables that name what is not there are told, also where nothing needs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubuild.model.target import Kind
from gpubuild.settings import Settings
from gpubuild.toolchain.misnamed import misnamed

ALL = frozenset(Kind)


@pytest.mark.parametrize(
    ("variable", "kind", "said"),
    [
        ("GPUBUILD_CC", None, "names {}, which is not an executable file"),
        ("GPUBUILD_CXX", None, "names {}, which is not an executable file"),
        ("GPUBUILD_PTXAS", None, "names {}, which is not an executable file"),
        ("GPUBUILD_LLD", None, "names {}, which is not an executable file"),
        ("GPUBUILD_CLANG_LINKER_WRAPPER", None, "names {}, which is not an executable file"),
        ("GPUBUILD_LIBDEVICE", None, "names {}, which is not a file"),
        ("ROCM_PATH", Kind.ROCDL, "is {}, which has no amdgcn/bitcode with ocml.bc and ockl.bc"),
        ("CUDA_PATH", Kind.NVVM, "is {}, which has no bin/fatbinary and no bin/nvlink"),
    ],
)
def test_each_variable(tmp_path: Path, variable: str, kind: Kind | None, said: str) -> None:
    settings = Settings.from_environ({variable: str(tmp_path)})
    told = f"{variable} {said.format(tmp_path)}: correct or unset it"
    assert settings.names_tools
    assert misnamed(settings, ALL) == (told,)
    assert misnamed(settings, ALL - {kind}) == (() if kind else (told,))


def test_what_is_there_is_not_told(tmp_path: Path) -> None:
    bitcode = tmp_path / "amdgcn/bitcode"
    bitcode.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in ("amdgcn/bitcode/ocml.bc", "amdgcn/bitcode/ockl.bc", "bin/nvlink", "bin/fatbinary"):
        (tmp_path / name).touch(0o755)
    program = str(tmp_path / "bin/nvlink")
    names = ("GPUBUILD_CC", "GPUBUILD_PTXAS", "GPUBUILD_LIBDEVICE")
    named = {"ROCM_PATH": str(tmp_path), "CUDA_PATH": str(tmp_path), **dict.fromkeys(names, program)}
    assert misnamed(Settings.from_environ(named), ALL) == ()
    assert not Settings.from_environ({"PATH": "/bin"}).names_tools
