"""SPIR-V modules, and what LLVM's code generator gets wrong without the back end's care."""

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from unit.engine.device_steps import (
    OUTPUTS,
    compile_module,
    compile_params,
    in_child,
    kernel,
    outline_source,
    tools,
)
from unit.engine.steps import refused, run_step

from gpubuild.engine.backends.spirv.odd_integers import widen
from gpubuild.errors import StepError
from gpubuild.model.step import StepKind
from gpubuild.support.spirv import read_module

CHIP = "spirv1.3"
OP_TYPE_VECTOR = 23
PRINTS = 'gpu.func @{0}(%a: i32{1}) kernel {{\n  gpu.printf "%d\\n", %a : i32\n  gpu.return\n}}\n'
LOOPS = kernel(
    """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %k = %c0 to %i step %c1 {
      %v = memref.load %a[%k] : memref<?xf32>
      %s = arith.addf %v, %x : f32
      memref.store %s, %a[%k] : memref<?xf32>
    }
    """
)

VARIABLE = kernel(
    """
    %p = memref.alloca(%i) : memref<?xf32>
    memref.store %x, %p[%i] : memref<?xf32>
    %v = memref.load %p[%i] : memref<?xf32>
    memref.store %v, %a[%i] : memref<?xf32>
    """
)


def _one_after_the_other(folder: Path, texts: list[str]) -> list[bytes]:
    params = compile_params(CHIP)
    folders = [folder / str(number) for number in range(len(texts))]
    ran = [
        run_step(place, StepKind.COMPILE, params, {"module": text}, OUTPUTS, tools())
        for place, text in zip(folders, texts, strict=True)
    ]
    return [one.outputs["object"] for one in ran]


def test_modules_of_one_process_do_not_change_each_other(tmp_path):
    texts = [LOOPS, kernel("gpu.barrier"), LOOPS.replace("addf", "mulf"), LOOPS]
    *together, again = in_child(_one_after_the_other, tmp_path, texts)
    assert together == [compile_module(text, CHIP).object for text in texts[:3]]
    assert again == together[0]


@pytest.mark.parametrize("more", range(6))
def test_kernels_before_another_can_print(more):
    parameters = "".join(f", %p{n}: memref<?xf32>" for n in range(more))
    several = "".join(PRINTS.format(f"f{n}", parameters) for n in range(4))
    code = compile_module(
        f"gpu.module @k {{\n{several}gpu.func @g() kernel {{ gpu.return }}\n}}", CHIP
    ).object
    assert [k.name for k in read_module(code).kernels] == ["f0", "f1", "f2", "f3", "g"]
    assert b"SPV_EXT_relaxed_printf" not in code


def test_kernels_keep_their_names():
    text = "gpu.module @k { gpu.func @my_ptx_kernel() kernel { gpu.return } }"
    assert [k["name"] for k in compile_module(text, CHIP).kernels] == ["my_ptx_kernel"]


def test_constant_vectors_of_bf16_are_words():
    body = """
    %k = arith.constant dense<[1.5, -2.0]> : vector<2xbf16>
    vector.store %k, %b[%i] : memref<?xbf16>, vector<2xbf16>
    """
    code = compile_module(kernel(body, arguments="%b: memref<?xbf16>"), CHIP).object
    words = struct.unpack(f"<{len(code) // 4}I", code)
    assert {0x3FC0, 0xC000} <= {word & 0xFFFF for word in words}


@pytest.mark.parametrize(("size", "kept"), [(8, True), (16, False)])
def test_vectors_of_16_elements_are_split(size, kept):
    """Intel's compiler takes minutes for products of matrices in them."""
    vector = f"vector<{size}xf32>"
    body = f"""
    %v = vector.load %a[%i] : memref<?xf32>, {vector}
    %w = arith.mulf %v, %v : {vector}
    vector.store %w, %a[%i] : memref<?xf32>, {vector}
    """
    code = compile_module(kernel(body), CHIP).object
    words, at, found = struct.unpack(f"<{len(code) // 4}I", code), 5, False
    while at < len(words):
        found |= words[at] & 0xFFFF == OP_TYPE_VECTOR
        at += words[at] >> 16
    assert found == kept


def test_several_elements_of_private_memory_need_no_extension_without_optimisation():
    body = """
    %p = memref.alloca() : memref<8xf32>
    memref.store %x, %p[%i] : memref<8xf32>
    %v = memref.load %p[%i] : memref<8xf32>
    memref.store %v, %a[%i] : memref<?xf32>
    """
    assert read_module(compile_module(kernel(body), CHIP, opt_level=0).object).kernels


def test_what_llvm_cannot_generate_is_an_error_with_its_message():
    with pytest.raises(StepError, match="LLVM cannot generate SPIR-V") as caught:
        compile_module(VARIABLE, CHIP, opt_level=0)
    assert "SPV_INTEL_variable_length_array" in caught.value.output


def test_odd_integers_become_wide_ones_with_zeros_above():
    text = "  %1 = mul nsw i33 %0, -3\n  %i33 = ashr i33 %1, 2\n  %2 = trunc i33 %i33 to i32"
    assert widen(text).split("\n") == [
        "  %gpubuild.wide.0.0 = mul i64 %0, 8589934589",
        "  %1 = and i64 %gpubuild.wide.0.0, 8589934591",
        "  %gpubuild.wide.1.0 = shl i64 %1, 31",
        "  %gpubuild.wide.1.1 = ashr i64 %gpubuild.wide.1.0, 31",
        "  %gpubuild.wide.1.2 = ashr i64 %gpubuild.wide.1.1, 2",
        "  %i33 = and i64 %gpubuild.wide.1.2, 8589934591",
        "  %2 = trunc i64 %i33 to i32",
    ]


@pytest.mark.parametrize(
    "line", ["  %1 = add i65 %0, 1", "  %1 = load i24, ptr %0", "  store i24 %1, ptr %0"]
)
def test_other_odd_integers_are_refused(line):
    with pytest.raises(StepError, match="that SPIR-V lacks"):
        widen(line)


def test_too_many_arguments_are_an_error_at_the_kernel():
    arguments = ", ".join(f"%b{n}: memref<?x?xf32>" for n in range(36))
    text = kernel("gpu.barrier", arguments=arguments)
    with pytest.raises(StepError, match="kernel @f has too many arguments for SPIR-V") as caught:
        compile_module(text, CHIP, located=text)
    (found,) = caught.value.diagnostics
    assert found.message == "its arguments become 267 parameters; SPIR-V allows 255"
    assert found.location is not None and found.location.line == 3
    assert "one of rank N takes 3 + 2 * N parameters" in caught.value.hint
    assert compile_module(
        kernel("gpu.barrier", arguments=arguments[: arguments.index(", %b34")]), CHIP
    ).kernels


LANES = """
gpu.module @k {
  gpu.func @f(%a: memref<?xi32>) kernel attributes {known_block_size = array<i32: 64, 2, 1>} {
    %lane = gpu.lane_id
    %n = arith.index_cast %lane : index to i32
    memref.store %n, %a[%lane] : memref<?xi32>
    gpu.return
  }
}
"""


@pytest.mark.parametrize(
    ("chip", "options", "size"),
    [
        (CHIP, {}, 32),
        ("xe", {}, 16),
        ("xe", {"flags": ("subgroup32",)}, 32),
        ("spirv1.4", {"flags": ("subgroup8",), "features": "+SPV_KHR_bit_instructions"}, 8),
    ],
)
def test_kernels_require_the_sizes_of_their_target_and_source(chip, options, size):
    module = read_module(compile_module(LANES, chip, **options).object)
    assert module.version == ("1.4" if chip == "spirv1.4" else "1.3")
    (found,) = module.kernels
    assert (found.subgroup_size, found.workgroup_size) == (size, (128, 1, 1))


def test_extensions_are_used_where_the_target_has_them():
    code = compile_module(VARIABLE, CHIP, opt_level=0, features="+SPV_INTEL_variable_length_array")
    assert b"SPV_INTEL_variable_length_array" in code.object


def test_kernels_that_a_pipeline_lowered_for_spirv_are_refused():
    source = "gpu.module @k { gpu.func @f() kernel { gpu.return } }"
    module = outline_source(source, passes="builtin.module(gpu-lower-to-xevm-pipeline)")["module.0.mlir"]
    error = refused(compile_module, module, "xe")
    assert "spir_kernelcc @f is lowered for SPIR-V" in error.render()


ATOMICS = """
    %0 = memref.atomic_rmw addi %n, %c[%i] : (i32, memref<?xi32>) -> i32
    %1 = memref.atomic_rmw maxu %big, %l[%i] : (i64, memref<?xi64>) -> i64
    %2 = memref.atomic_rmw assign %x, %a[%i] : (f32, memref<?xf32>) -> f32
    %3 = memref.generic_atomic_rmw %c[%i] : memref<?xi32> {
      ^bb0(%v: i32):
        %w = arith.muli %v, %n : i32
        memref.atomic_yield %w : i32
    }
    llvm.fence syncscope("workgroup") release
"""


@pytest.mark.skipif(shutil.which("spirv-dis") is None, reason="needs spirv-dis (Debian: spirv-tools)")
def test_atomic_operations_order_global_and_workgroup_memory_of_the_device(tmp_path):
    code = compile_module(kernel(ATOMICS, arguments="%c: memref<?xi32>, %l: memref<?xi64>, %big: i64"), CHIP)
    (tmp_path / "k.spv").write_bytes(code.object)
    command = ["spirv-dis", "--raw-id", tmp_path / "k.spv"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    numbers = dict(re.findall(r"(%\d+) = OpConstant %\d+ (\d+)$", text, re.MULTILINE))
    numbers |= dict.fromkeys(re.findall(r"(%\d+) = OpConstantNull", text), "0")
    found = re.findall(r"(OpAtomic\w+) %\d+ %\d+ (%\d+) (%\d+)|(OpMemoryBarrier) (%\d+) (%\d+)", text)
    device, order = "1", str(0x300 | 8)
    assert [(a or d, numbers[b or e], numbers[c or f]) for a, b, c, d, e, f in found] == [
        ("OpAtomicIAdd", device, order),
        ("OpAtomicUMax", device, order),
        ("OpAtomicExchange", device, order),
        ("OpAtomicCompareExchange", device, order),
        ("OpMemoryBarrier", "2", str(0x300 | 4)),
    ]
