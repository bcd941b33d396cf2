"""What compile steps write for clang-linker-wrapper: code that can be linked with other modules' code."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.device_steps import OUTPUTS, compile_params, in_child, tools
from unit.engine.steps import Ran, run_step
from unit.projects import TARGETS

from gpubuild.engine.ir import llvm
from gpubuild.model.step import CompileParams, StepKind

# Each module has its own @state, and may have a @helper of its own.
MODULE = """gpu.module @k {
  memref.global @state : memref<4xf32> = dense<1.0>
  func.func @helper(%x: f32) -> f32 attributes {passthrough = ["noinline"]} {
    %y = arith.mulf %x, %x : f32
    return %y : f32
  }
  gpu.func @f(%a: memref<?xf32>) kernel {
    %i = gpu.global_id x
    %c4 = arith.constant 4 : index
    %s = memref.get_global @state : memref<4xf32>
    %j = arith.remui %i, %c4 : index
    %x = memref.load %s[%j] : memref<4xf32>
    memref.store %x, %s[%i] : memref<4xf32>
    %y = func.call @helper(%x) : (f32) -> f32
    memref.store %y, %a[%i] : memref<?xf32>
    gpu.return
  }
}"""
CPU = CompileParams(module="k", target=replace(TARGETS["cpu"], chip="x86-64-v2"), relocatable=True)


def compiled(tmp_path: Path, params: CompileParams) -> Ran:
    outputs = (*OUTPUTS, *(("device",) if params.relocatable else ()))
    inputs: dict[str, bytes | str | Path] = {"module": MODULE}
    return in_child(run_step, tmp_path, StepKind.COMPILE, params, inputs, outputs, tools())


def global_symbols(data: bytes) -> set[str]:
    table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    return {
        s.name for s in table.iter_symbols()
        if s["st_info"]["bind"] == "STB_GLOBAL" and s["st_shndx"] != "SHN_UNDEF"
    }  # fmt: skip


def test_a_relocatable_cubin_for_nvidia(tmp_path: Path) -> None:
    data = compiled(tmp_path, compile_params("sm_90", relocatable=True)).outputs["device"]
    elf = ELFFile(io.BytesIO(data))
    assert (elf["e_type"], data[18]) == ("ET_REL", 190)
    assert global_symbols(data) == {"f"}


def test_bitcode_for_amd(tmp_path: Path) -> None:
    data = compiled(tmp_path, compile_params("gfx90a", relocatable=True)).outputs["device"]
    module = llvm.parse_bitcode(data, llvm.new_context())
    assert module.triple == "amdgcn-amd-amdhsa"
    functions = [f for f in module.functions if not f.is_declaration]
    assert [f.name for f in functions if f.linkage.name == "external"] == ["f"]
    assert [v.linkage.name for v in module.global_variables if v.name == "state"] == ["internal"]


def test_an_object_for_the_cpu(tmp_path: Path) -> None:
    ran = compiled(tmp_path, CPU)
    data = ran.outputs["device"]
    assert ELFFile(io.BytesIO(data))["e_type"] == "ET_REL"
    assert global_symbols(data) == {"gpubuild_cpu_image.k"}
    assert b"gpubuild.chip=x86-64-v2\0" in data
    # The linked object is the one of the other modes.
    assert b"gpubuild.chip=" not in ran.outputs["object"]


@pytest.mark.parametrize("params", [compile_params("gfx90a"), compile_params("sm_90")], ids=["amd", "nvidia"])
def test_other_modes_keep_globals_for_the_host(tmp_path: Path, params: CompileParams) -> None:
    text = compiled(tmp_path, params).text("llvm")
    (line,) = re.findall(r"^@state = .*", text, re.MULTILINE)
    assert "internal" not in line and "global" in line
