"""Host math: the fingerprint covers what MLIR and LLVM call, and notices other variants of it."""

import math
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import llvmlite
import mlir._mlir_libs
import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from gpubuild.toolchain import host_math
from gpubuild.toolchain.memo import Memo

# As on a CPU without fused multiply-add.
OTHER_VARIANTS = "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX,-FMA4,-AVX512F"
# Exact or correctly rounded in every implementation, and of the floating-point environment.
EXACT = {
    "ceil", "fabs", "feclearexcept", "fetestexcept", "floor", "fmod", "fmodf", "frexp", "logb", "modf",
    "round", "roundf", "sqrt", "sqrtf",
}  # fmt: skip
OTHERWISE_PROBED = {"sincos"}  # the code of sin and cos
PROBE = "from gpubuild.toolchain.host_math import probe; print(probe())"
SYMBOL = [("name", "u4"), ("kind", "u2"), ("section", "u2"), ("value", "u8"), ("size", "u8")]  # Elf64_Sym


def tunable(variable: str | None) -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    return environment | ({"GLIBC_TUNABLES": variable} if variable else {})


@cache
def elsewhere(code: str, variable: str | None) -> str:
    """What ``code`` prints in a process of its own that starts with these variants."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=tunable(variable), capture_output=True, text=True, check=True)
    return done.stdout.strip()


def shared_libraries() -> Iterator[Path]:
    yield from (Path(llvmlite.__file__).parent / "binding").glob("*.so")
    for part in mlir._mlir_libs.__path__:
        yield from Path(part).glob("*.so")
        yield from (Path(part).parents[1] / "llvm/lib").glob("libLLVM*.so")


def symbols(path: Path, *, undefined: bool) -> Iterator[str]:
    with path.open("rb") as stream:
        file = ELFFile(stream)
        table = file.get_section_by_name(".dynsym")
        names = file.get_section(table["sh_link"]).data()
        entries = np.frombuffer(table.data(), SYMBOL)  # of LLVM these are a hundred thousand
    for start in entries["name"][(entries["section"] == 0) == undefined].tolist():
        yield names[start : names.index(0, start)].decode()


def test_every_function_that_mlir_and_llvm_call_is_probed() -> None:
    of_libm = set(symbols(library(), undefined=False))
    called = {name for path in shared_libraries() for name in symbols(path, undefined=True)} & of_libm
    assert {"exp", "powf"} <= called
    probed = {*host_math.FUNCTIONS, *(f"{name}f" for name in host_math.FUNCTIONS)}
    assert called - EXACT - OTHERWISE_PROBED <= probed


def library() -> Path:
    return host_math.host_math(Memo(None)).path


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double")
@pytest.mark.parametrize(("name", "count"), [("exp", 1), ("pow", 2)])
def test_hard_points_are_hard_to_round(name: str, count: int) -> None:
    function = {"exp": np.exp, "pow": np.power}[name]
    points = list(struct.iter_unpack(f">{count}d", bytes.fromhex(host_math.HARD[name])))
    assert len(points) == 16
    for arguments in points:
        exact = abs(function(*map(np.longdouble, arguments)))
        near = float(exact)
        distance = abs(exact - np.longdouble(near)) / np.longdouble(math.nextafter(near, math.inf) - near)
        assert abs(distance - np.longdouble(0.5)) < 2**-9


def test_other_variants_are_another_tool_and_only_those() -> None:
    results = "import math; print([math.exp(n / 1000) for n in range(40000)])"
    assert elsewhere(PROBE, None) == host_math.probe() or "GLIBC_TUNABLES" in os.environ
    assert elsewhere(PROBE, "glibc.cpu.hwcaps=-ERMS") == elsewhere(PROBE, None)  # how memory is copied
    rounds_alike = elsewhere(results, OTHER_VARIANTS) == elsewhere(results, None)
    assert (elsewhere(PROBE, OTHER_VARIANTS) == elsewhere(PROBE, None)) == rounds_alike


def test_the_results_are_remembered_for_one_start_and_one_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(host_math, "probe", lambda: calls.append("") or "0" * 63 + str(len(calls)))
    monkeypatch.setattr(host_math, "boot", lambda: "one")
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)

    def found() -> int:
        memo = Memo(tmp_path / "tools.json")
        tool = host_math.host_math(memo)
        memo.save()
        assert str(tool.path) in memo.seen  # so that another library voids receipts
        return int(tool.fingerprint)

    assert [found(), found()] == [1, 1]
    monkeypatch.setenv("GLIBC_TUNABLES", OTHER_VARIANTS)
    assert [found(), found()] == [2, 2]
    monkeypatch.setattr(host_math, "boot", lambda: "two")
    assert [found(), found()] == [3, 3]
    monkeypatch.setattr(host_math, "boot", lambda: "")  # nothing says when the CPU may have changed
    assert [found(), found()] == [4, 5]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_clang_rounds_as_the_c_library_does_and_gcc_by_itself(tmp_path: Path) -> None:
    identity = (
        "from gpubuild.settings import Settings\n"
        "from gpubuild.toolchain.find import Toolchain\n"
        "print(Toolchain(Settings.from_environ({{'GPUBUILD_CC': {!r}}})).require('cc').fingerprint)\n"
    )
    gcc = shutil.which("gcc")
    assert gcc is not None
    found = {}
    for name in ("gcc", "clang"):
        copy = tmp_path / name  # what its --version begins with
        copy.symlink_to(gcc)
        code = identity.format(str(copy))
        found[name] = elsewhere(code, None) == elsewhere(code, OTHER_VARIANTS)
    assert found["gcc"]
    assert found["clang"] == (elsewhere(PROBE, None) == elsewhere(PROBE, OTHER_VARIANTS))
