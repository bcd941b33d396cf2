"""Recognise forms of older MLIR in source lines, and name the forms of today for error messages.

The table is printed in docs/reference/older-mlir.md.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_ARITH = (
    "addf", "addi", "and", "cmpf", "cmpi", "constant", "divf", "fptosi", "index_cast", "mulf", "muli", "negf",
    "or", "select", "sitofp", "subf", "subi", "xor",
)  # fmt: skip
_MEMREF = ("alloc", "alloca", "dealloc", "dim", "load", "store", "subview", "view")
_MATH = ("absf", "cos", "exp", "exp2", "log", "rsqrt", "sin", "sqrt", "tanh")
KERNEL_MODULE = "gpu.kernel_module"  # on a builtin.module, which is now a gpu.module

# Operations that were in the dialect `std`, which could be left out.
STANDARD = {
    **{name: f"arith.{name}" for name in _ARITH},
    **{name: f"memref.{name}" for name in _MEMREF},
    **{name: f"math.{name}" for name in _MATH},
    "and": "arith.andi", "or": "arith.ori", "xor": "arith.xori", "absf": "math.absf",
    "divi_signed": "arith.divsi", "divi_unsigned": "arith.divui", "divis": "arith.divsi",
    "remi_signed": "arith.remsi", "remi_unsigned": "arith.remui", "remis": "arith.remsi",
    "fpext": "arith.extf", "fptrunc": "arith.truncf", "sexti": "arith.extsi", "zexti": "arith.extui",
    "trunci": "arith.trunci", "memref_cast": "memref.cast", "splat": "vector.broadcast",
    "br": "cf.br", "cond_br": "cf.cond_br", "assert": "cf.assert",
    "call_indirect": "func.call_indirect", "func": "func.func",
    "uitofp": "arith.uitofp", "fptoui": "arith.fptoui", "bitcast": "arith.bitcast",
    "maxf": "arith.maximumf", "minf": "arith.minimumf", "ceilf": "math.ceil", "floorf": "math.floor",
    "powf": "math.powf", "atan2": "math.atan2", "copysign": "math.copysign", "log2": "math.log2",
    "shift_left": "arith.shli", "shift_right_signed": "arith.shrsi", "shift_right_unsigned": "arith.shrui",
    "atomic_rmw": "memref.atomic_rmw", "tensor_cast": "tensor.cast", "subtensor": "tensor.extract_slice",
    "tensor_load": "bufferization.to_tensor", "memref_reshape": "memref.reshape",
    "global_memref": "memref.global", "get_global_memref": "memref.get_global",
}  # fmt: skip
# Operations that have another name.
RENAMED = {
    "arith.maxf": "arith.maximumf",
    "arith.minf": "arith.minimumf",
    "bufferization.to_memref": "bufferization.to_buffer",
    "linalg.init_tensor": "tensor.empty() : tensor<…>",
    "llvm.mlir.cast": "builtin.unrealized_conversion_cast",
    "llvm.mlir.null": "llvm.mlir.zero : !llvm.ptr",
    "math.abs": "math.absf",
    "memref.buffer_cast": "bufferization.to_buffer",
    "memref.tensor_load": "bufferization.to_tensor",
    "memref.tensor_store": "bufferization.materialize_in_destination",
    "scf.foreach_thread": "scf.forall",
    "tensor.pack": "linalg.pack",
    "tensor.unpack": "linalg.unpack",
    "transform.structured.tile": "transform.structured.tile_using_for",
    "vector.extractelement": "vector.extract",
    "vector.insertelement": "vector.insert",
    "vector.splat": "vector.broadcast",
}
_BARE = re.compile(r"^\s*(?:%[\w$.]+(?::\d+)?(?:\s*,\s*%[\w$.]+)*\s*=\s*)?(?:std\.)?([a-z]\w*)(?=[\s(@])")


class Form(NamedTuple):
    """An older form: an example, a pattern of lines that contain the form, and what to write today."""

    example: str
    pattern: str
    today: str


FORMS = (
    Form("loop.for %i = %a to %b step %c", r"^\s*loop\.(\w+)", r"write `scf.\1`"),
    Form(
        "gpu.launch … args(%p = %x) : f32 {",
        r"\bgpu\.launch\b.*\bargs\s*\(",
        "leave `args(…)` out: the body of a gpu.launch uses values around it and ends with gpu.terminator",
    ),
    Form("gpu.module_end", r"^\s*gpu\.module_end\b", "leave it out: a gpu.module ends with its `}`"),
    Form(
        "module @name attributes {gpu.kernel_module} {",
        rf"\b{re.escape(KERNEL_MODULE)}\b",
        "write `gpu.module @name { … }` inside a module with `gpu.container_module`",
    ),
    Form(
        "func @f(…) attributes {nvvm.kernel} {",
        r"(?<!llvm\.)\bfunc\b.*\bnvvm\.kernel\b",
        "write `gpu.func @name(…) kernel` inside a gpu.module, with `gpu.return` at its end",
    ),
    Form(
        '"gpu.launch_func"(…) {kernel = "f", kernel_module = @k}',
        r"\bkernel_module\s*[=:]|(?:\"gpu\.launch_func\".*|^\s*\{?\s*)\bkernel\s*[=:]\s*(?:\"|@\w+\s*(?:\}|:(?!:)))",
        "write `gpu.launch_func @module::@kernel blocks in (%x, %y, %z) threads in (%x, %y, %z) args(…)`",
    ),
    Form(
        '"gpu.thread_id"() {dimension: "x"} : () -> (index)',
        r"\"gpu\.(thread_id|block_id|block_dim|grid_dim|global_id)\"\(\) *\{\s*dimension\s*[=:]\s*\"",
        r"write `gpu.\1 x`, with the dimension x, y or z",
    ),
    Form(
        "gpu.shuffle %value, %offset, %width xor : f32",
        r"\"gpu\.shuffle\"\(.*\bmode\s*[=:]\s*\"|\bgpu\.shuffle\s+%.*\b(?:xor|up|down|idx)\s*:",
        "write `gpu.shuffle xor %value, %offset, %width : type`",
    ),
    Form(
        "gpu.all_reduce %value {} {op = add} : (f32) -> f32",
        r"\bgpu\.all_reduce\b.*\bop\s*[=:]\s*\"?\w",
        "write `gpu.all_reduce add %value {} : (type) -> type`",
    ),
    Form('%r = "gpu.yield"(%v)', r"=\s*\"gpu\.yield\"", "write `gpu.yield %value : type`, without a result"),
    Form(
        "!gpu.mmafragment<8, vector<2xf16>>",
        r"!gpu\.mmafragment\b",
        'write `!gpu.mma_matrix<16x16xf32, "COp">`',
    ),
    Form(
        "gpu.subgroup_mma_compute_matrix %a, %b, %c",
        r"\bgpu\.subgroup_mma_compute_matrix\b",
        "write `gpu.subgroup_mma_compute`",
    ),
    Form(
        'gpu.subgroup_mma_elementwise %a, %b {opType = "ADD"}',
        r"\bgpu\.subgroup_mma_elementwise\b.*\bopType\s*=\s*\"",
        "write `gpu.subgroup_mma_elementwise addf %a, %b : (…) -> …`",
    ),
    Form(
        "{leadDimension = 32 : i32}",
        r"\bleadDimension\s*=\s*\d+\s*:\s*i\d+",
        "write `{leadDimension = 32 : index}`",
    ),
    Form(
        "vector.warp_execute_on_lane_0(%lane)[32] {",
        r"\bvector\.warp_execute_on_lane_0\b",
        "write `gpu.warp_execute_on_lane_0`, whose region ends with `gpu.yield`",
    ),
    Form(
        '!llvm<"float*">', r"!llvm<\"", "types of the llvm dialect are written as `f32`, `i64`, `!llvm.ptr`"
    ),
    Form(
        "!llvm.ptr<f32>",
        r"!llvm\.ptr<(?!\d)",
        "pointers have no element type: write `!llvm.ptr`, with a space `!llvm.ptr<3>`",
    ),
    *(Form(old, rf"\b{re.escape(old)}(?![.\w])", f"write `{new}`") for old, new in RENAMED.items()),
    Form("spv.Return", r"\bspv\.(\w+)", r"write `spirv.\1`"),
    Form(
        'gpu.printf "%d" %x : i32',
        r"\bgpu\.printf\s+\"(?:[^\"\\]|\\.)*\"\s*%",
        'write a comma: `gpu.printf "…", %x : type`',
    ),
    Form(
        "gpu.all_reduce max %x {} : (f32) -> f32",
        r"\bgpu\.(?:all|subgroup)_reduce\s+(max|min)\b",
        r"write `\1imumf`, `\1si` or `\1ui`",
    ),
    Form(
        "vector.reduction <maxf>, %v : vector<4xf32> into f32",
        r"(?:\bvector\..*<|\batomic_rmw\s+\"?)(max|min)f\b",
        r"write `\1imumf`",
    ),
    Form(
        'vector.reduction "add", %v : vector<4xf32> into f32',
        r"\bvector\.reduction\s+\"(\w+)\"",
        r"write `vector.reduction <\1>`",
    ),
    Form(
        "scf.reduce(%x) : f32 {",
        r"\bscf\.reduce\s*\(\s*%[\w$.#]+\s*\)\s*:",
        "write `scf.reduce(%x : type) { … }` at the end of the scf.parallel, without scf.yield",
    ),
    Form(
        "linalg.fill(%x, %m) : f32, memref<?xf32>",
        r"\blinalg\.(\w+)\s*\(\s*%",
        r"write `linalg.\1 ins(%x : type) outs(%m : type)`",
    ),
    Form(
        "tensor.expand_shape %t [[0, 1]] : tensor<4xf32> into tensor<2x2xf32>",
        r"\b(tensor|memref)\.expand_shape\s+%[\w$.#]+\s*\[\[.*\]\]\s*:",
        r"write `\1.expand_shape %x [[0, 1]] output_shape [2, 2] : …`, with the sizes of the result",
    ),
    Form(
        "linalg.matmul_transpose_b ins(%a, %b : …) outs(%c : …)",
        r"\blinalg\.((?:batch_)?matmul)_transpose_[ab]\b",
        r"write `linalg.\1 indexing_maps = […]`, with the transposed operand's dimensions exchanged",
    ),
    Form(
        "memref<4xf32, offset: 0, strides: [1]>",
        r"\bmemref<[^<>]*,\s*offset\s*:",
        "write `memref<4xf32, strided<[1], offset: 0>>`",
    ),
    Form(
        "transform.structured.tile_using_for %op [4]",
        r"\btile_using_for\s+%[\w$.#]+\s*\[",
        "write `tile_sizes` in front of the list",
    ),
    Form(
        "memref.dim %m, 0 : memref<?xf32>",
        r"\bmemref\.dim\s+%[\w$.]+\s*,\s*\d",
        "the dimension is a value of type index: `memref.dim %m, %index`",
    ),
    Form(
        "{nvvm.kernel: true}, {value: 1 : i32}",
        r"\{\s*[\w.]+: *(?:[\"\d]|true\b|false\b)",
        "attributes are written `name = value`",
    ),
    Form(
        "gpu.host_register %m : memref<?xf32>",
        r"\bgpu\.host_register\b.*memref<[^*]*$",
        "cast it first, to `memref<*xf32>`, by `memref.cast`",
    ),
    Form(
        "call @mcuMemHostRegisterFloat(%m)",
        r"\bmcuMemHostRegister\w*",
        "write `gpu.host_register %unranked : memref<*xf32>`",
    ),
    Form(
        "builtin.module(gpu.module(gpu-to-cubin))",
        r"\bgpu-to-(?:cubin|hsaco)\b",
        "leave gpu-to-cubin and gpu-to-hsaco out of a pass pipeline: gpubuild makes the objects",
    ),
)


def form_of_today(line: str) -> str:
    """Return what to write instead of an older form in ``line``; empty if there is none known."""
    for form in FORMS:
        if found := re.search(form.pattern, line):
            return found.expand(form.today) if "\\" in form.today else form.today
    bare = _BARE.match(line)
    if bare and bare[1] in STANDARD:
        today = STANDARD[bare[1]]
        if today in ("arith.cmpi", "arith.cmpf"):
            return f"write `{today} slt, %a, %b : type`, with the predicate without quotes"
        return f"write `{today}`"
    return ""
