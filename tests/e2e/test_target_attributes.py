"""Every part of a target attribute is honoured or refused: flags, options of ptxas, ABI versions.

The same attribute is given to upstream's ``mlir-opt`` where that can serialize for the chip.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from pathlib import Path

import mlir
import pytest
from e2e.command import ROOT, execute, gpubuild, project_file, write
from elftools.elf.elffile import ELFFile
from unit.engine.device_steps import compile_module, kernel, tools

from gpubuild.errors import StepError

MLIR_OPT = Path(next(iter(mlir.__path__))) / "bin" / "mlir-opt"
CODE_OBJECTS = {"400": 2, "500": 3, "": 4}  # by `abi`: EI_ABIVERSION
SQUARE_ROOT = "%r = math.sqrt %x : f32\nmemref.store %r, %a[%i] : memref<?xf32>"
CALL = "%r = func.call @__ocml_sqrt_f32(%x) : (f32) -> f32\nmemref.store %r, %a[%i] : memref<?xf32>"
SUM = "%r = arith.addf %x, %x : f32\nmemref.store %r, %a[%i] : memref<?xf32>"
SIZES = """
%d = gpu.block_dim x
%g = gpu.grid_dim x
%s = arith.addi %d, %g : index
%r = arith.index_cast %s : index to i32
gpu.printf "%d\\n", %r : i32
"""


def elf(data: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(data))


def recording(folder: Path) -> Path:
    """Return a ptxas that writes its arguments to ``folder``/log and then assembles."""
    (real,) = tools()["ptxas"]
    wrapper = folder / "ptxas"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {folder}/log\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


def test_ptxas_gets_the_options_that_upstream_gives_it(tmp_path: Path) -> None:
    words = ["-maxrregcount", "32", "-dlcm=cg", "--warn-on-spills"]
    flags = f'"ptxas-cmd-options" = [{", ".join(f"{chr(34)}{word}{chr(34)}" for word in words)}]'
    upstream = (
        f'gpu.module @k [#nvvm.target<O = 3, chip = "sm_80", flags = {{{flags}}}>] {{\n'
        "llvm.func @f() attributes {gpu.kernel, nvvm.kernel} { llvm.return }\n}\n"
    )
    wrapper = recording(tmp_path)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    execute(MLIR_OPT, "--gpu-module-to-binary=format=bin", env=env, stdin=upstream)
    compile_module(kernel(SUM), "sm_80", assembler_options=tuple(words), extra={"ptxas": (str(wrapper),)})
    theirs, ours = ((tmp_path / "log").read_text()).splitlines()
    assert " ".join(words) in theirs and " ".join(words) in ours


def test_a_fat_binary_has_upstreams_entries(tmp_path: Path) -> None:
    fatbinary = shutil.which("fatbinary") or shutil.which("fatbinary", path="/usr/local/cuda/bin")
    if fatbinary is None:
        pytest.skip("no fatbinary of CUDA, which mlir-opt starts")
    text = (
        'gpu.module @k [#nvvm.target<O = 3, chip = "sm_80", features = "+ptx78">] {\n'
        "  llvm.func @f() attributes {gpu.kernel, nvvm.kernel} {\n    llvm.return\n  }\n}\n"
    )
    (tmp_path / "k.mlir").write_text(text)
    (tmp_path / "ptxas").symlink_to(tools()["ptxas"][0])
    (tmp_path / "fatbinary").symlink_to(fatbinary)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    upstream = (MLIR_OPT, "--gpu-module-to-binary", "k.mlir", "-o", "theirs.mlir")  # fatbin is its default
    execute(*upstream, cwd=tmp_path, env=env)
    options = "-t sm_80 --emit binary --format fatbin -o ours.mlir"
    gpubuild("compile", "k.mlir", *options.split(), cwd=tmp_path, code=0)
    ours, theirs = (
        gpubuild("inspect", "--json", name, cwd=tmp_path).document["modules"][0]["objects"][0]
        for name in ("ours.mlir", "theirs.mlir")
    )
    for made in (ours, theirs):
        assert [(e["format"], e["chip"]) for e in made["entries"]] == [
            ("bin", "sm_80"),
            ("assembly", "sm_80"),
        ]
    assert theirs["entries"][0]["size_bytes"] == ours["entries"][0]["size_bytes"]  # machine code


def test_options_of_ptxas_change_the_cubin() -> None:
    plain, lines = (compile_module(kernel(SUM), "sm_80", assembler_options=o) for o in ((), ("-lineinfo",)))
    assert plain.asm == lines.asm
    found = [elf(built.object).get_section_by_name(".debug_line") for built in (plain, lines)]
    assert found[0] is None and found[1] is not None


def test_ptxas_reports_an_unknown_option() -> None:
    with pytest.raises(StepError) as caught:
        compile_module(kernel(SUM), "sm_80", assembler_options=("--bogus",))
    assert "Unknown option '-bogus'" in caught.value.output


def test_subnormal_numbers_and_fast_math_are_separate_flags_on_nvidia() -> None:
    from gpubuild.targets.nvidia import NVIDIA

    assert NVIDIA.with_fast_flags((), fast_math=True) == ("ftz",)
    asm = compile_module(kernel(SUM), "sm_80", flags=("ftz",)).asm
    assert "add.rn.ftz.f32" in asm or "add.ftz.f32" in asm
    assert "sqrt.rn.ftz.f32" in compile_module(kernel(SQUARE_ROOT), "sm_80", flags=("ftz",)).asm


@pytest.mark.parametrize("abi", CODE_OBJECTS)
def test_code_objects_have_the_version_asked_for(abi: str) -> None:
    """Version 4 has other implicit arguments: sizes are in the launch's packet, the buffer is at 24."""
    built = compile_module(kernel(SIZES), "gfx90a", abi=abi)
    assert elf(built.object).header["e_ident"]["EI_ABIVERSION"] == CODE_OBJECTS[abi]
    assert f'!"amdhsa_code_object_version", i32 {abi or 600}' in built.ran.text("llvm")
    kinds = re.findall(r"\.offset: +(\d+)\n +\.size: +\d+\n +\.value_kind: +(hidden_\w+)", built.asm)
    offsets = {kind: int(offset) for offset, kind in kinds}
    start = offsets["hidden_global_offset_x"] - (0 if abi == "400" else 40)
    assert offsets["hidden_printf_buffer"] - start == (24 if abi == "400" else 72)
    assert ("hidden_block_count_x" in offsets) == (abi != "400")
    assert ("amdgcn.dispatch.ptr" in built.ran.text("llvm")) == (abi == "400")


def test_subgroup_size_follows_flags() -> None:
    wide, narrow = (compile_module(kernel(SUM), "gfx1100", flags=(f,)) for f in ("wave64", "no_wave64"))
    assert ".amdhsa_wavefront_size32 0" in wide.asm and ".amdhsa_wavefront_size32 1" in narrow.asm
    assert narrow.asm == compile_module(kernel(SUM), "gfx1100").asm


def test_numbers_follow_flags_on_amd() -> None:
    plain = compile_module(kernel(SQUARE_ROOT), "gfx90a")
    assert ".amdhsa_float_denorm_mode_32 3" in plain.asm
    assert ".amdhsa_float_denorm_mode_32 0" in compile_module(kernel(SUM), "gfx90a", flags=("daz",)).asm
    rough = compile_module(kernel(SQUARE_ROOT), "gfx90a", flags=("unsafe_sqrt",)).asm
    assert "v_sqrt_f32" in rough and len(rough) < len(plain.asm)
    called = kernel(CALL, extra="func.func private @__ocml_sqrt_f32(f32) -> f32")
    rough, exact = (compile_module(called, "gfx90a", flags=f).asm for f in (("unsafe_sqrt",), ()))
    assert "v_sqrt_f32" in rough and len(rough) < len(exact)
    exact = compile_module(kernel(SQUARE_ROOT), "gfx90a", fast_math=True, flags=("correct_sqrt",)).asm
    assert len(exact) > len(compile_module(kernel(SQUARE_ROOT), "gfx90a", fast_math=True).asm)
    sine = kernel(SQUARE_ROOT.replace("sqrt", "sin"))
    assert "v_sin_f32" in compile_module(sine, "gfx90a", flags=("unsafe_math",)).asm
    assert "v_sin_f32" not in compile_module(sine, "gfx90a").asm
    finite = compile_module(kernel(SUM), "gfx90a", flags=("finite_only",))
    assert "fadd nnan ninf float" in finite.ran.text("llvm")


def clang_command(name: str) -> list[str]:
    """Return the command of docs/how-to/device-libraries.md that makes ``name``; zig has a clang."""
    lines = (ROOT / "docs/how-to/device-libraries.md").read_text().splitlines()
    command = next(line for line in lines if line.startswith("clang ") and line.endswith(name))
    return [sys.executable, "-m", "ziglang", *command.split()]


@pytest.mark.parametrize(
    ("source", "library", "chip"), [("nv.cu", "nv.bc", "sm_90"), ("amd.hip", "amd.bc", "gfx90a")]
)
def test_libraries_that_clang_makes_by_the_commands_of_the_page(source, library, chip, tmp_path) -> None:
    (tmp_path / source).write_text(
        'extern "C" __attribute__((device)) float twice(float x) { return x + x; }'
    )
    execute(*clang_command(library), cwd=tmp_path)
    called = kernel(CALL.replace("__ocml_sqrt_f32", "twice"), extra="func.func private @twice(f32) -> f32")
    data = (tmp_path / library).read_bytes()
    assert compile_module(called, chip, libraries=(data,)).kernels[0]["name"] == "f"
    other = "gfx90a" if chip == "sm_90" else "sm_90"
    with pytest.raises(StepError, match=r"lib\.0: it is compiled for (nvptx64|amdgcn)"):
        compile_module(called, other, libraries=(data,))
    if chip == "gfx90a":
        with pytest.raises(StepError) as caught:
            compile_module(called, chip, libraries=(data,), abi="500")
        assert "the library is for code objects of version 6" in caught.value.hint


ATTRIBUTES = (
    ('#nvvm.target<chip = "sm_80", flags = {fast, ftz}>', ""),
    ('#nvvm.target<chip = "sm_80", flags = {ftz, "ptxas-cmd-options" = ["-maxrregcount", "64"]}>', ""),
    ('#rocdl.target<chip = "gfx90a", abi = "500", flags = {daz, wave64}>', ""),
    ('#rocdl.target<chip = "gfx1100", abi = "400">', ""),
    ('#rocdl.target<chip = "gfx1100", flags = {no_wave64, unsafe_sqrt}>', ""),
    ("#nvvm.target<flags = {ftzz}>", "unknown flag 'ftzz' for an NVIDIA chip|did you mean ftz"),
    ("#nvvm.target<flags = {daz}>", "unknown flag 'daz' for an NVIDIA chip"),
    ("#nvvm.target<flags = {fast = false}>", "flag 'fast' has a value"),
    ('#nvvm.target<flags = {"ptxas-cmd-options" = 3}>', "flag 'ptxas-cmd-options' is no list of texts"),
    ('#nvvm.target<flags = {"ptxas-cmd-options" = ["-o", "x"]}>', "ptxas option '-o' is not allowed"),
    ('#nvvm.target<flags = {"ptxas-cmd-options" = ["/etc/x"]}>', "'/etc/x' is not an option of ptxas"),
    ('#rocdl.target<chip = "gfx90a", flags = {no_wave64}>', "gfx90a has no subgroups of 32 work-items"),
    ('#rocdl.target<chip = "gfx1100", flags = {wave64, no_wave64}>', "contradict each other"),
    ('#rocdl.target<chip = "gfx9-generic", abi = "500">', "for gfx9-generic have ABI version 600"),
    (
        '#nvvm.target<triple = "x86_64-unknown-linux-gnu", chip = "x86-64-v3", flags = {daz}>',
        "unknown flag 'daz'",
    ),
)


def test_an_attribute_is_written_back_or_refused_with_its_place(tmp_path: Path) -> None:
    text = "module attributes {{gpu.container_module}} {{\n  gpu.module @k [{}] {{\n"
    text += "    gpu.func @f() kernel {{\n      gpu.return\n    }}\n  }}\n}}\n"
    files = {f"k{number}.mlir": text.format(attribute) for number, (attribute, _) in enumerate(ATTRIBUTES)}
    programs = [f"p{number}: {{sources: [k{number}.mlir, main.c]}}" for number in range(len(ATTRIBUTES))]
    files |= {"main.c": "int main(void) { return 0; }\n", "targets.yaml": project_file(*programs)}
    done = gpubuild("build", "-k", cwd=write(tmp_path, files), seeded=True, code=1)
    errors = done.err.split("\n\n")
    for number, (attribute, refused) in enumerate(ATTRIBUTES):
        own = [error for error in errors if f"k{number}.mlir:2:3" in error]
        if refused:
            said = [error for error in own if all(text in error for text in refused.split("|"))]
            assert said, (attribute, done.err)
        else:
            assert own == []
            assert attribute in (tmp_path / f"build/p{number}/k.binary.mlir").read_text()


@pytest.mark.parametrize(
    ("attribute", "column", "message"),
    [
        ('#rocdl.target<abi = "700">', 36, "unknown ABI version '700': use 600, 500 or 400"),
        ("#nvvm.target<O = 7>", 35, "O = 7: the optimisation level is 0, 1, 2 or 3"),
        ('#nvvm.target<chip = "">', 35, "chip is empty"),
    ],
)
def test_values_on_which_mlir_aborts_are_errors_with_their_place(
    attribute: str, column: int, message: str, tmp_path: Path
) -> None:
    source = tmp_path / "k.mlir"
    source.write_text(
        f"// #nvvm.target<O = 9>\ngpu.module @kernels [{attribute}] {{\n"
        "  gpu.func @f() kernel {\n    gpu.return\n  }\n}\n"
    )
    done = gpubuild("compile", source, "-t", "cpu", "--emit", "asm", "-o", "-", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert f"k.mlir:2:{column}" in done.err and message in done.err
