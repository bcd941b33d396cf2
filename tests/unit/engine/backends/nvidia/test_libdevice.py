"""Slices of libdevice: the same code with and without one, and files that are not to be trusted."""

from collections.abc import Callable
from pathlib import Path

import pytest
from unit.engine.device_steps import compile_module
from variants import few

FUNCTIONS = ("exp", "sin", "cos", "log1p", "cbrt", "erf", "powf", "tan")
SOURCE = """gpu.module @k {{
  gpu.func @f(%x: {type}, %out: memref<8x{type}>) kernel {{
{lines}
    gpu.return
  }}
}}
"""


def source(kind: str) -> str:
    lines = []
    for number, name in enumerate(FUNCTIONS):
        value = f"math.{name} %x, %x" if name == "powf" else f"math.{name} %x"
        lines.append(f"    %i{number} = arith.constant {number} : index")
        lines.append(f"    %v{number} = {value} : {kind}")
        lines.append(f"    memref.store %v{number}, %out[%i{number}] : memref<8x{kind}>")
    return SOURCE.format(type=kind, lines="\n".join(lines))


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1] + b"?")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:70])


def open_to_others(file: Path) -> None:
    damage(file)
    file.chmod(0o666)


@pytest.mark.parametrize(("kind", "level"), [("f32", 0), ("f64", 3)])
def test_slices_change_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, level: int
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    without = compile_module(source(kind), "sm_60", opt_level=level)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = compile_module(source(kind), "sm_60", opt_level=level)
    assert len(list((tmp_path / "gpubuild/libdevice").iterdir())) == 1
    second = compile_module(source(kind), "sm_60", opt_level=level)
    assert without.asm == first.asm == second.asm
    assert without.object == first.object == second.object


@pytest.mark.parametrize("spoil", few([damage, open_to_others, cut], 2))
def test_a_damaged_slice_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    good = compile_module(source("f32"), "sm_60")
    (file,) = (tmp_path / "gpubuild/libdevice").iterdir()
    content = file.read_bytes()
    spoil(file)
    assert compile_module(source("f32"), "sm_60").asm == good.asm
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o600
