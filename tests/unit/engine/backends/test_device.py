"""NVIDIA and AMD compile steps: objects are what they claim, options are honoured, errors are clear."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unit.engine.device_steps import (
    OUTPUTS,
    compile_module,
    compile_params,
    in_child,
    kernel,
    outline_source,
    tools,
)
from unit.engine.steps import Ran, refused, run_step
from unit.projects import TARGETS

from gpubuild.engine.backends.gpu_compile import KernelInfo, info_json
from gpubuild.engine.backends.nvidia.compile import parse_ptxas, workgroup_limits
from gpubuild.engine.ir import llvm
from gpubuild.errors import Location, StepError, ToolNotFoundError
from gpubuild.model.step import CompileParams, StepKind

EM_CUDA, EM_AMDGPU = 190, 224
STORE = "memref.store %x, %a[%i] : memref<?xf32>"
SHARED = """%s = memref.get_global @tile : memref<64xf32, #gpu.address_space<workgroup>>
memref.store %x, %s[%i] : memref<64xf32, #gpu.address_space<workgroup>>
gpu.barrier
%v = memref.load %s[%i] : memref<64xf32, #gpu.address_space<workgroup>>
memref.store %v, %a[%i] : memref<?xf32>"""
TILE = "memref.global @tile : memref<64xf32, #gpu.address_space<workgroup>>"
SINE = "%r = math.sin %x : f32\nmemref.store %r, %a[%i] : memref<?xf32>"
BESSEL = "%r = func.call @__ocml_j0_f32(%x) : (f32) -> f32\nmemref.store %r, %a[%i] : memref<?xf32>"
ADD = """
%y = llvm.inline_asm "v_add_f32 $0, $1, $1", "=v,v" %x : (f32) -> f32
memref.store %y, %a[%i] : memref<?xf32>"""
DECLARED = "func.func private @__ocml_j0_f32(f32) -> f32"


def elf(data: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(data))


def symbols(data: bytes) -> set[str]:
    return {s.name for table in elf(data).iter_sections("SHT_SYMTAB") for s in table.iter_symbols()} | {
        s.name for table in elf(data).iter_sections("SHT_DYNSYM") for s in table.iter_symbols()
    }


@pytest.mark.parametrize(("chip", "number"), [("sm_60", 60), ("sm_90", 90), ("sm_90a", 90), ("sm_120f", 120)])
def test_cubin_is_for_the_chip_and_has_the_kernel(chip: str, number: int) -> None:
    built = compile_module(kernel(STORE), chip)
    header = elf(built.object).header
    assert header["e_machine"] in {"EM_CUDA", EM_CUDA}
    # Blackwell moved the number one byte up.
    assert number in {header["e_flags"] & 0xFF, header["e_flags"] >> 8 & 0xFF}
    assert "f" in symbols(built.object)
    assert f".target {chip}" in built.asm


@pytest.mark.parametrize(
    ("chip", "features", "mach", "xnack", "sramecc"),
    # EF_AMDGPU_MACH_*, then bits of EF_AMDGPU_FEATURE_*_V4: 0 unsupported, 1 any, 2 off, 3 on.
    [
        ("gfx90a", "", 0x3F, 1, 1),
        ("gfx90a", "+sramecc,-xnack", 0x3F, 2, 3),
        ("gfx942", "", 0x4C, 1, 1),
        ("gfx1100", "", 0x41, 0, 0),
        ("gfx9-4-generic", "", 0x5F, 1, 1),
    ],
)
def test_hsaco_is_for_the_chip_and_has_the_kernel(chip, features, mach, xnack, sramecc) -> None:
    built = compile_module(kernel(STORE), chip, features=features)
    header = elf(built.object).header
    assert header["e_machine"] in {"EM_AMDGPU", EM_AMDGPU}
    assert header["e_type"] == "ET_DYN"
    flags = header["e_flags"]
    assert (flags & 0xFF, flags >> 8 & 3, flags >> 10 & 3) == (mach, xnack, sramecc)
    assert header["e_ident"]["EI_ABIVERSION"] == 4  # code object 6
    assert {"f", "f.kd"} <= symbols(built.object)


@pytest.mark.parametrize("chip", ["sm_60", "gfx90a"])
def test_workgroup_memory_is_defined_unless_its_size_is_settled_at_launch(chip: str) -> None:
    built = compile_module(kernel(SHARED, extra=TILE), chip)
    assert built.ran.result.result.warnings == ()  # ptxas warns about one that is only declared
    assert re.search(r"@tile = internal .*addrspace\(3\) global", built.llvm)
    (info,) = built.kernels
    assert (info["name"], info["shared_bytes"], info["spill_bytes"]) == ("f", 256, 0)
    assert info["registers"] > 0


@pytest.mark.parametrize(
    ("chip", "declared"), [("sm_60", r"\.extern \.shared [^\n]*shmem__0\[\]"), ("gfx90a", "")]
)
def test_workgroup_memory_settled_at_launch_comes_after_the_rest(chip: str, declared: str) -> None:
    """A defined array of no elements would lie at an offset that another variable has too."""
    memory = "memref<?xi8, #gpu.address_space<workgroup>>"
    body = (
        f"%d = gpu.dynamic_shared_memory : {memory}\n%z = arith.trunci %n : i32 to i8\n"
        f"memref.store %z, %d[%i] : {memory}\n{SHARED}\n%y = memref.load %d[%i] : {memory}\n"
        "%w = arith.sitofp %y : i8 to f32\nmemref.store %w, %m[%i, %i] : memref<16x16xf32>"
    )
    built = compile_module(kernel(body, extra=TILE), chip)
    assert re.search(r"= external .*addrspace\(3\) global \[0 x i8\], align 16", built.llvm)
    assert re.search(declared, built.asm)
    assert built.kernels[0]["shared_bytes"] == 256


@pytest.mark.parametrize("chip", ["sm_60", "gfx90a"])
def test_debug_gives_line_tables(chip: str) -> None:
    located = outline_source(kernel(STORE), name="dir/k.mlir")["located.0.mlir"]
    built = compile_module(located, chip, debug=True)
    assert re.search(r'\.file\s+1 "dir(/|" ")k\.mlir"', built.asm)
    assert re.search(r"\.loc\s+1 4 1", built.asm)
    sections = {s.name for s in elf(built.object).iter_sections()}
    assert any("debug_line" in name for name in sections)


@pytest.mark.parametrize("chip", ["sm_60", "gfx90a"])
@pytest.mark.parametrize(
    ("declared", "call"),
    [("llvm.func @scale(f32) -> f32", "llvm"), ("func.func private @scale(f32) -> f32", "func")],
)
def test_user_libraries_are_linked_as_needed(chip: str, declared: str, call: str) -> None:
    text = kernel(
        f"%v = {call}.call @scale(%x) : (f32) -> f32\nmemref.store %v, %a[%i] : memref<?xf32>", extra=declared
    )
    library = "define float @scale(float %x) { %r = fmul float %x, 3.0\n ret float %r }\n"
    built = compile_module(text, chip, libraries=(library + "define void @unused() { ret void }",))
    assert "unused" not in built.asm and "scale" not in built.asm
    error = refused(compile_module, text, chip)
    assert error.message == "undefined in @k: scale"
    assert error.stage == "emit"
    assert "device_libs" in error.hint


def test_kernels_of_amd_gpus_have_no_heap() -> None:
    body = "%h = memref.alloc(%i) : memref<?xf32>\nmemref.copy %a, %h : memref<?xf32> to memref<?xf32>"
    error = refused(compile_module, kernel(body), "gfx90a")
    assert error.message == "undefined in @k: malloc"
    assert error.hint.startswith("kernels of AMD GPUs have no heap: use memref.alloca")


# More values than a work-item of a large workgroup has registers for.
MANY = 140
SPILLING = "\n".join(
    (
        "%t = gpu.thread_id x",
        *(f"%c{n} = arith.constant {n} : index\n%j{n} = arith.muli %t, %c{n} : index" for n in range(MANY)),
        *(f"%v{n} = memref.load %a[%j{n}] : memref<?xf32>" for n in range(MANY)),
        "gpu.barrier",
        *(f"memref.store %v{n}, %a[%t] : memref<?xf32>\ngpu.barrier" for n in range(MANY)),
    )
)
SPILLING_KERNEL = f"""gpu.func @"g h"(%a: memref<?xf32>, %i: index) kernel
    attributes {{known_block_size = array<i32: 1024, 1, 1>}} {{
{SPILLING}
gpu.return
}}"""


def test_resources_of_amd_kernels_are_those_of_the_assembly() -> None:
    built = compile_module(kernel(SHARED, extra=f"{TILE}\n{SPILLING_KERNEL}"), "gfx90a")
    found = {entry["name"]: entry for entry in built.kernels}
    _, *texts = built.asm.partition("amdhsa.kernels:")[2].split("  - .agpr_count:")
    assert len(texts) == 2
    for text in texts:
        values = dict(re.findall(r"^    \.(\w+): +(.*)$", text, re.MULTILINE))
        entry = found.pop(values["name"].strip("'"))
        assert entry["registers"] == int(values["vgpr_count"]) > 0
        assert entry["shared_bytes"] == int(values["group_segment_fixed_size"])
        assert entry["spill_bytes"] == 4 * int(values["vgpr_spill_count"])
        assert (entry["spill_bytes"] > 0) == (entry["name"] == "g h") == (entry["shared_bytes"] == 0)
        listed = json.loads(built.ran.text("info"))["table"].partition(f'"{entry["name"]}"')[2]
        for name in ("sgpr_count", "max_flat_workgroup_size", "wavefront_size", "agpr_count"):
            value = values.get(name) or text.split()[0]  # the first one follows the dash
            assert f"{name} = {value} : i64" in listed.partition("}")[0]
    assert not found
    assert "reqd_workgroup_size = array<i32: 1024, 1, 1>" in built.ran.text("info")


@pytest.mark.parametrize("assembly", ["", ADD])
def test_an_amd_object_without_assembly(assembly: str, tmp_path: Path) -> None:
    text = kernel(STORE + assembly)
    whole = compile_module(text, "gfx90a")
    params = replace(compile_params("gfx90a"), assembly=False)
    outputs = tuple(name for name in OUTPUTS if name != "asm")
    lean = in_child(run_step, tmp_path, StepKind.COMPILE, params, {"module": text}, outputs, tools())
    assert lean.outputs == {name: whole.ran.outputs[name] for name in outputs}


def test_the_size_of_workgroups_reaches_the_assembler() -> None:
    """Large ones are allowed when it is unknown."""
    assert ".max_flat_workgroup_size: 1024" in compile_module(kernel(STORE), "gfx90a").asm
    text = kernel(STORE).replace("kernel {", "kernel attributes {known_block_size = array<i32: 32, 4, 1>} {")
    assert re.search(r"\.(reqntid|maxntid) 32, 4, 1", compile_module(text, "sm_60").asm)
    assert ".max_flat_workgroup_size: 128" in compile_module(text, "gfx90a").asm


def test_known_cluster_size_reaches_the_assembler() -> None:
    text = kernel(STORE).replace("kernel {", "kernel attributes {known_cluster_size = array<i32: 2, 1, 1>} {")
    assert ".reqnctapercluster 2, 1, 1" in compile_module(text, "sm_90").asm


def test_rocm_functions_that_are_not_ours_say_what_to_list() -> None:
    error = refused(compile_module, kernel(BESSEL, extra=DECLARED), "gfx90a")
    assert "__ocml_j0_f32" in error.message
    assert "ocml.bc" in error.hint and "device_libs" in error.hint


def test_missing_tools_are_named() -> None:
    with pytest.raises(ToolNotFoundError, match="ptxas"):
        compile_module(kernel(STORE), "sm_60", without=("ptxas",))
    with pytest.raises(ToolNotFoundError, match="libdevice"):
        compile_module(kernel(SINE), "sm_60", without=("libdevice",))
    with pytest.raises(ToolNotFoundError, match=r"ld\.lld"):
        compile_module(kernel(STORE), "gfx90a", without=("ld.lld",))


def test_failures_point_into_the_users_file() -> None:
    source = "// a comment\n" + kernel(
        "%t = tensor.splat %x : tensor<4xf32>\n%e = tensor.extract %t[%i] : tensor<4xf32>\n"
        "memref.store %e, %a[%i] : memref<?xf32>"
    )
    written = outline_source(source, name="dir/k.mlir")
    module, located = (written[f"{name}.0.mlir"] for name in ("module", "located"))
    error = refused(compile_module, module, "sm_60", located=located, target="mine")
    assert error.stage == "lower"
    assert error.message == "target mine cannot lower tensor.extract, tensor.splat"
    assert error.diagnostics[0].location == Location(file="dir/k.mlir", line=5, column=6)


def test_instructions_of_the_other_vendor_are_refused() -> None:
    for op, vendor, chip in (("nvvm.barrier0", "NVIDIA", "gfx90a"), ("rocdl.s.barrier", "AMD", "sm_60")):
        assert vendor in refused(compile_module, kernel(op), chip).diagnostics[0].message


LOWERED = "gpu.module @k {{ llvm.func @f(%p: !llvm.ptr) attributes {{gpu.kernel{mark}}} {{ llvm.return }} }}"


def test_modules_lowered_already_compile_for_their_own_kind_only() -> None:
    assert ".entry f" in compile_module(LOWERED.format(mark=", nvvm.kernel"), "sm_60").asm
    assert ".amdhsa_kernel f" in compile_module(LOWERED.format(mark=", rocdl.kernel"), "gfx90a").asm
    for mark, chip in ((", nvvm.kernel", "gfx90a"), (", rocdl.kernel", "sm_60")):
        with pytest.raises(StepError, match="already in the"):
            compile_module(LOWERED.format(mark=mark), chip)


def test_plain_llvm_kernels_compile_for_both() -> None:
    assert ".entry f" in compile_module(LOWERED.format(mark=""), "sm_60").asm
    assert ".amdhsa_kernel f" in compile_module(LOWERED.format(mark=""), "gfx90a").asm


def test_a_module_without_kernels_is_refused() -> None:
    with pytest.raises(StepError, match="has no kernel"):
        compile_module("gpu.module @k { func.func @g() { return } }", "sm_60")


def test_passes_of_the_users_replace_ours() -> None:
    ours = "builtin.module(gpu.module(convert-gpu-to-nvvm,reconcile-unrealized-casts))"
    assert compile_module(kernel("gpu.barrier"), "sm_60", passes=ours).object
    with pytest.raises(StepError, match=r"cannot lower gpu\.barrier"):
        compile_module(kernel("gpu.barrier"), "sm_60", passes="builtin.module(gpu.module(canonicalize))")


def test_too_much_workgroup_memory_is_explained() -> None:
    large = SHARED.replace("64xf32", "16384xf32")
    error = refused(compile_module, kernel(large, extra=TILE.replace("64xf32", "16384xf32")), "sm_90")
    assert "too much shared data" in error.output
    assert "ptxas info" not in error.output and "bytes stack frame" not in error.output
    assert "48 KiB" in error.hint


def test_kernel_names_that_ptx_cannot_spell() -> None:
    with pytest.raises(StepError, match="PTX cannot spell"):
        compile_module('gpu.module @k { gpu.func @"a-b" () kernel { gpu.return } }', "sm_60")
    assert compile_module('gpu.module @k { gpu.func @"a-b" () kernel { gpu.return } }', "gfx90a").object


@pytest.mark.parametrize("chip", ["sm_60", "gfx90a"])
def test_library_functions_get_memrefs_by_pointer(chip: str) -> None:
    text = kernel(
        "%v = func.call @first(%a) : (memref<?xf32>) -> f32\nmemref.store %v, %a[%i] : memref<?xf32>",
        extra="func.func private @first(memref<?xf32>) -> f32",
    )
    library = """define float @_mlir_ciface_first(ptr %memref) {
      %place = getelementptr ptr, ptr %memref, i64 1
      %data = load ptr, ptr %place
      %value = load float, ptr %data
      ret float %value }"""
    assert compile_module(text, chip, libraries=(library,)).object.startswith(b"\x7fELF")


@pytest.mark.parametrize("chip", ["sm_60", "gfx90a"])
def test_helpers_do_not_stay_beside_the_kernels(chip: str) -> None:
    helper = "func.func @twice(%x: f32) -> f32 { %r = arith.addf %x, %x : f32\nreturn %r : f32 }"
    call = "%v = func.call @twice(%x) : (f32) -> f32\nmemref.store %v, %a[%i] : memref<?xf32>"
    assert "twice" not in compile_module(kernel(call, extra=helper), chip).asm


# ---- what is reported of kernels ----


PTXAS = """\
ptxas info    : 0 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'second' for 'sm_60'
ptxas info    : Function properties for second
    16 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 2048 bytes smem, 376 bytes cmem[0]
ptxas info    : Function properties for helper
    0 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads
ptxas info    : Compiling entry function 'first' for 'sm_60'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, 376 bytes cmem[0]
"""


def test_ptxas_output_in_the_order_asked_for() -> None:
    found = parse_ptxas(PTXAS, ["first", "second", "absent"])
    values = {"private_bytes": 16, "registers": 255, "shared_bytes": 2048, "spill_bytes": 12}
    assert [found[1].metadata, found[2].metadata] == [values, {}]
    assert found == [
        KernelInfo(name="first", registers=8, shared_bytes=0, spill_bytes=0),
        KernelInfo(name="second", registers=255, shared_bytes=2048, spill_bytes=12),
        KernelInfo(name="absent"),
    ]


def test_workgroup_sizes_that_ptx_allows() -> None:
    ptx = """.visible .entry f(
	.param .u64 .ptr .align 1 f_param_0
)
.reqntid 8, 4
{ ret; }
.visible .entry plain() { .reg .b32 %r; ret; }
.visible .entry g()
.maxntid 16, 2, 2
.minnctapersm 2
{ ret; }
"""
    assert workgroup_limits(ptx) == {
        "f": {"max_work_items": 32, "required_workgroup": [8, 4, 1]},
        "g": {"max_work_items": 64},
    }


def test_json_names_what_is_unknown_null() -> None:
    unknown = ("parameters", "shared_bytes", "spill_bytes", "tier", "tier_reason")
    kernel = {"name": "f", "registers": 1, **dict.fromkeys(unknown)}
    document = json.loads(info_json([KernelInfo(name="f", registers=1)]))
    assert document == {"schema": 1, "kernels": [kernel], "table": ""}


# ---- relocatable code ----


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
