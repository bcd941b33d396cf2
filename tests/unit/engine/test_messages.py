"""Messages: arguments of printf are widened as C widens them; assertions on AMD stop the kernel."""

import re

import pytest
from unit.engine.device_steps import compile_module, kernel, outline_source, rocm_libraries

from gpubuild.errors import StepError

PRINT = """%b = arith.trunci %n : i32 to i8
%w = arith.trunci %n : i32 to i16
%h = arith.truncf %x : f32 to bf16
gpu.printf "%d %d %.1f %d\\0A", %b, %w, %h, %b : i8, i16, bf16, i8"""
ASSERT = '%ok = arith.cmpi slt, %n, %n : i32\ncf.assert %ok, "100% in range"'


def test_nvidia_printf_gets_no_argument_narrower_than_an_int() -> None:
    """vprintf reads 4 bytes for %d: a lone byte would bring three others along."""
    stores = re.findall(r"st\.local\.(?:v2\.)?b(\d+)", compile_module(kernel(PRINT), "sm_60").asm)
    assert stores and set(stores) <= {"32", "64"}


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1100"])
def test_amd_prints_through_the_host(chip: str) -> None:
    built = compile_module(kernel(PRINT), chip, extra=rocm_libraries(), opt_level=0)
    assert "hidden_hostcall_buffer" in built.asm
    assert b"%d %d %.1f %d\n\0" in built.object
    assert built.kernels[0]["registers"] > 0
    assert re.search(r"sext i8 %\S+ to i32", built.llvm)


def test_amd_printf_without_rocm_says_what_to_install() -> None:
    with pytest.raises(StepError, match="needs ROCm's device libraries for __ockl_printf") as caught:
        compile_module(kernel(PRINT), "gfx90a")
    assert "rocm-device-libs" in caught.value.hint


@pytest.mark.parametrize("level", [0, 3])
def test_amd_assertions_say_which_and_stop(level: int) -> None:
    built = compile_module(kernel(ASSERT), "gfx90a", extra=rocm_libraries(), opt_level=level)
    assert "s_trap 2" in built.asm and "hidden_hostcall_buffer" in built.asm
    if level == 0:  # optimised, the text is in the instructions that pass it on
        assert b"k: f: assertion failed: 100%% in range, in workgroup (%u, %u, %u)" in built.object
    assert built.ran.result.result.warnings == ()


def test_amd_assertions_stop_without_rocm_too_and_warn_of_the_missing_message() -> None:
    built = compile_module(kernel(f"{ASSERT}\n{ASSERT.replace('%ok', '%o')}"), "gfx90a")
    assert built.asm.count("s_trap 2") >= 1
    (warning,) = built.ran.result.result.warnings
    assert "without their message" in warning and "rocm-device-libs" in warning


def test_assertions_say_where_they_stand_in_the_file() -> None:
    """The place is in the canonical text, which has no other: a move of the assertion compiles anew."""
    source = kernel(ASSERT).replace("cf.assert", "// a comment\n   cf.assert")
    outlined = outline_source(source, name="dir/user.mlir")
    text = outlined["module.0.mlir"]
    assert 'gpubuild.place = "dir/user.mlir:6:4"' in text and "loc(" not in text
    below = source.replace("gpu.return", "// another comment\ngpu.return")
    assert outline_source(below, name="dir/user.mlir")["module.0.mlir"] == text
    built = compile_module(text, "sm_60", opt_level=0)
    assert re.search(r"i32 6[,)]", built.llvm)
    assert b"dir/user.mlir\0" in built.object
    with_message = compile_module(text, "gfx90a", extra=rocm_libraries(), opt_level=0)
    assert b"dir/user.mlir:6:4: k: f: assertion failed: 100%% in range" in with_message.object


def test_printf_of_integers_without_a_format_is_refused() -> None:
    body = '%w = arith.extsi %n : i32 to i128\ngpu.printf "%d\\0A", %w : i128'
    with pytest.raises(StepError) as caught:
        compile_module(kernel(body), "sm_60")
    assert "wider than 64 bits" in caught.value.diagnostics[0].message
