"""Recognise forms of older MLIR in source lines, and name the forms of today for error messages."""

from __future__ import annotations

import re

_ARITH = (
    "addf", "addi", "and", "cmpf", "cmpi", "constant", "divf", "fptosi", "index_cast", "mulf", "muli", "negf",
    "or", "select", "sitofp", "subf", "subi", "xor",
)  # fmt: skip
_MEMREF = ("alloc", "alloca", "dealloc", "dim", "load", "store", "subview", "view")
_MATH = ("absf", "cos", "exp", "exp2", "log", "rsqrt", "sin", "sqrt", "tanh")
# Operations that were in the dialect `std`, which could be left out.
_STANDARD = {
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
}  # fmt: skip
_BARE = re.compile(r"^\s*(?:%[\w$.]+(?::\d+)?(?:\s*,\s*%[\w$.]+)*\s*=\s*)?(?:std\.)?([a-z]\w*)(?=[\s(@])")

# What a line contains, and the form of today.
_FORMS: tuple[tuple[str, str], ...] = (
    (r"^\s*loop\.(\w+)", r"write `scf.\1`"),
    (
        r"\bgpu\.launch\b.*\bargs\s*\(",
        "leave `args(…)` out: the body of a gpu.launch uses values around it and ends with gpu.terminator",
    ),
    (r"^\s*gpu\.module_end\b", "leave it out: a gpu.module ends with its `}`"),
    (r"\bgpu\.kernel_module\b", "write `gpu.module @name { … }` inside a module with `gpu.container_module`"),
    (
        r"\bkernel_module\s*[=:]|\"gpu\.launch_func\".*\bkernel\s*[=:]\s*@\w+\s*(?!:)[:}]",
        "write `gpu.launch_func @module::@kernel blocks in (%x, %y, %z) threads in (%x, %y, %z) args(…)`",
    ),
    (
        r"\"gpu\.(thread_id|block_id|block_dim|grid_dim|global_id)\"\(\) *\{\s*dimension\s*[=:]\s*\"",
        r"write `gpu.\1 x`, with the dimension x, y or z",
    ),
    (r"\"gpu\.shuffle\"\(.*\bmode\s*[=:]\s*\"", "write `gpu.shuffle xor %value, %offset, %width : type`"),
    (r"\"gpu\.all_reduce\"\(.*\bop\s*[=:]\s*\"", "write `gpu.all_reduce add %value {} : (type) -> type`"),
    (r"=\s*\"gpu\.yield\"", "write `gpu.yield %value : type`, without a result"),
    (r"!gpu\.mmafragment\b", 'write `!gpu.mma_matrix<16x16xf32, "COp">`'),
    (r"!llvm<\"", "types of the llvm dialect are written as `f32`, `i64`, `!llvm.ptr`"),
    (r"!llvm\.ptr<(?!\d)", "pointers have no element type: write `!llvm.ptr`, with a space `!llvm.ptr<3>`"),
    (r"\bllvm\.mlir\.null\b", "write `llvm.mlir.zero : !llvm.ptr`"),
    (r"\bmemref\.dim\s+%[\w$.]+\s*,\s*\d", "the dimension is a value of type index: `memref.dim %m, %index`"),
    (r"\bmemref\.buffer_cast\b", "write `bufferization.to_buffer`"),
    (r"\bmemref\.tensor_load\b", "write `bufferization.to_tensor`"),
    (r"\{\s*\w+: *[\"\d]", "attributes are written `name = value`"),
    (r"\bgpu\.host_register\b.*memref<[^*]*$", "cast it first, to `memref<*xf32>`, by `memref.cast`"),
    (r"\bmcuMemHostRegister\w*", "write `gpu.host_register %unranked : memref<*xf32>`"),
)


def form_of_today(line: str) -> str:
    """Return what to write instead of an older form in ``line``; empty if there is none known."""
    bare = _BARE.match(line)
    if bare and bare[1] in _STANDARD:
        today = _STANDARD[bare[1]]
        if today in ("arith.cmpi", "arith.cmpf"):
            return f"write `{today} slt, %a, %b : type`, with the predicate without quotes"
        return f"write `{today}`"
    for pattern, today in _FORMS:
        if found := re.search(pattern, line):
            return found.expand(today) if "\\" in today else today
    return ""
