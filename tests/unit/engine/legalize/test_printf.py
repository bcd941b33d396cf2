"""gpu.printf: formats, widths of arguments, and messages and assertions of AMD kernels."""

import re

import pytest
from unit.engine.device_steps import Compiled, compile_module, kernel, outline_source
from unit.engine.steps import refused

from gpubuild.engine.backends.amd import printf
from gpubuild.engine.legalize.printf import conversions
from gpubuild.inspect import hsaco
from gpubuild.inspect.elf import Elf

PRINT = """%b = arith.trunci %n : i32 to i8
%w = arith.trunci %n : i32 to i16
%h = arith.truncf %x : f32 to bf16
gpu.printf "%d %d %.1f %d\\0A", %b, %w, %h, %b : i8, i16, bf16, i8"""
WORDS = "%d %d %.1f %d\n"
ASSERT = '%ok = arith.cmpi slt, %n, %n : i32\ncf.assert %ok, "100% in range"'


def test_nvidia_printf_gets_no_argument_narrower_than_an_int() -> None:
    """vprintf reads 4 bytes for %d: a lone byte would bring three others along."""
    stores = re.findall(r"st\.local\.(?:v2\.)?b(\d+)", compile_module(kernel(PRINT), "sm_60").asm)
    assert stores and set(stores) <= {"32", "64"}


def formats(built: Compiled) -> list[str]:
    """What HIP finds in the finished code object."""
    return hsaco.metadata(Elf(built.object)).get("amdhsa.printf", [])


@pytest.mark.parametrize(("chip", "level"), [("gfx90a", 0), ("gfx1100", 3)])
def test_amd_messages_need_no_rocm(chip: str, level: int) -> None:
    built = compile_module(kernel(PRINT), chip, opt_level=level)
    assert "hidden_printf_buffer" in built.asm and "__ockl" not in built.llvm
    if level:  # nothing asks the host to listen, which some machines cannot
        assert "hidden_hostcall_buffer" not in built.asm
    (entry,) = formats(built)
    assert entry == f"0:0:{printf.format_name('k', WORDS):016x},{WORDS}"
    assert built.kernels[0]["registers"] > 0


def test_two_modules_call_the_same_format_by_other_names() -> None:
    """They may be linked with each other, and HIP prints nothing where a name comes twice."""
    other = kernel(PRINT).replace("@k ", "@other ")
    assert formats(compile_module(kernel(PRINT), "gfx90a")) != formats(compile_module(other, "gfx90a"))


def test_amd_messages_hold_every_type_in_eight_bytes() -> None:
    """Control word (size, named format), name, values: what HIP's runtime reads (rocprintf.cpp)."""
    text = compile_module(kernel(PRINT), "gfx90a").llvm
    stored = re.findall(r"store (i64|double) \S+, ptr addrspace\(1\)", text.split("define internal")[0])
    assert stored == ["i64", "i64", "double", "i64"]
    assert f"store i32 {(4 + 8 + 4 * 8) << 2 | 2}, ptr addrspace(1) %message" in text
    assert re.search(r"fpext (?:bfloat \S+ to double|float)", text)
    assert "i64 72" in text  # hidden_printf_buffer


def test_amd_formats_are_there_once() -> None:
    """HIP prints nothing at all where two have the same name."""
    built = compile_module(
        kernel(f"{PRINT}\n{PRINT.replace('%b', '%b2').replace('%w', '%w2').replace('%h', '%h2')}"), "gfx90a"
    )
    assert len(formats(built)) == 1


@pytest.mark.parametrize(
    ("written", "found", "values"),
    [
        (r"plain\0A", "plain\n", ["0"]),  # room for what HIP 5.7 to 7 write behind a text without values
        (r"100%% of it, \"a\": b\0A", '100%% of it, "a": b\n', ["0"]),
        (r"C:\5Cnew\0A", "C:%cnew\n", ["92"]),  # HIP would make a line end of it
        (r"a \5C z\0A", "a \\ z\n", ["0"]),
    ],
)
def test_amd_formats_say_what_was_written(written: str, found: str, values: list[str]) -> None:
    built = compile_module(kernel(f'gpu.printf "{written}"'), "gfx90a")
    (entry,) = formats(built)
    assert entry.partition(",")[2] == found
    assert (
        re.findall(r"store i64 (-?\d+), ptr addrspace\(1\) %\w+, align", built.llvm)[: len(values)] == values
    )


def test_an_empty_message_is_none() -> None:
    assert formats(compile_module(kernel('gpu.printf ""'), "gfx90a")) == []


@pytest.mark.parametrize("level", [0, 3])
def test_amd_assertions_say_which_and_stop(level: int) -> None:
    built = compile_module(kernel(ASSERT), "gfx90a", opt_level=level)
    assert "s_trap 2" in built.asm and "hidden_printf_buffer" in built.asm
    (entry,) = formats(built)
    assert ",k: f: assertion failed: 100%% in range, in workgroup (%u, %u, %u), work-item (" in entry
    assert re.search(r"(?:store |gpubuild_message\()i32 243,", built.llvm)  # 60 bytes, named, stderr
    assert built.ran.result.result.warnings == ()


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
    with_message = compile_module(text, "gfx90a", opt_level=0)
    assert b"dir/user.mlir:6:4: k: f: assertion failed: 100%% in range" in with_message.object


def test_printf_of_integers_without_a_format_is_refused() -> None:
    body = '%w = arith.extsi %n : i32 to i128\ngpu.printf "%d\\0A", %w : i128'
    error = refused(compile_module, kernel(body), "sm_60")
    assert "wider than 64 bits" in error.diagnostics[0].message


# ---- formats ----


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("plain, 100%%", []),
        ("%d%i%u%o%x%X%c", [32] * 7),
        ("%hhd %hd", [32, 32]),
        ("%ld %lld %jd %zu %td %p", [64] * 6),
        ("%a%A%e%E%f%F%g%G%Lf", [None] * 9),
        ("%-+ #05.3d|%.2f|%.f", [32, None, None]),
        ("%*d %-*.*f", [32, 32, 32, 32, None]),
        ("%%%d%%", [32]),
    ],
)
def test_conversions(text: str, bits: list[int | None]) -> None:
    assert [c.bits for c in conversions(text)] == bits


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%s", "asks for a string"),
        ("100% sure", "'% s' asks for a string, which kernels do not have; write %d, %f or %%"),
        ("%n", "'%n' is no conversion"),
        ("50%\n", "is no conversion"),
        ("50%", "'%' is no conversion of numbers (write %% for a percent sign)"),
        ("% %", "is no conversion"),
    ],
)
def test_what_cannot_be_printed(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        conversions(text)
