"""Sources in forms of older MLIR: the error says what to write today."""

from __future__ import annotations

import pytest
from unit.engine.device_steps import in_child

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.older_forms import form_of_today
from gpubuild.errors import StepError

KERNEL = (
    "gpu.module @k {{\n  gpu.func @f(%a: memref<?xf32>, %i: index, %x: f32) kernel {{\n"
    "    {}\n    gpu.return\n  }}\n}}\n"
)
HOST = "func.func @main(%a: memref<?xf32>, %c: index, %x: f32) {{\n  {}\n  return\n}}\n"
SIZES = "(%1 = %c, %2 = %c, %3 = %c) threads(%tx, %ty, %tz) in (%4 = %c, %5 = %c, %6 = %c)"
LAUNCH = f"gpu.launch blocks(%bx, %by, %bz) in {SIZES}"
SIX = "%c, %c, %c, %c, %c, %c, %x"
TYPES = "(index, index, index, index, index, index, f32) -> ()"
OFFSETS = "%o = arith.constant 1 : i32\n%w = arith.constant 32 : i32\n"

FORMS = [
    (KERNEL, "%v = load %a[%i] : memref<?xf32>", "`memref.load`"),
    (KERNEL, "store %x, %a[%i] : memref<?xf32>", "`memref.store`"),
    (KERNEL, "%v = addf %x, %x : f32", "`arith.addf`"),
    (KERNEL, "%v = std.addf %x, %x : f32", "`arith.addf`"),
    (KERNEL, "%v = sqrt %x : f32", "`math.sqrt`"),
    (KERNEL, "%c = constant 0 : index", "`arith.constant`"),
    (KERNEL, '%v = cmpi "slt", %i, %i : index', "`arith.cmpi slt, %a, %b : type`"),
    (KERNEL, "loop.for %j = %i to %i step %i {\n}", "`scf.for`"),
    (KERNEL, "%d = memref.dim %a, 0 : memref<?xf32>", "`memref.dim %m, %index`"),
    (KERNEL, "%v = memref_cast %a : memref<?xf32> to memref<4xf32>", "`memref.cast`"),
    (KERNEL, '%t = "gpu.thread_id"() {dimension = "x"} : () -> index', "`gpu.thread_id x`"),
    (KERNEL, '%t = "gpu.block_dim"() {dimension: "x"} : () -> index', "`gpu.block_dim x`"),
    (KERNEL, '%v = "gpu.all_reduce"(%x) ({}) {op = "add"} : (f32) -> f32', "`gpu.all_reduce add"),
    (
        KERNEL,
        OFFSETS + '%v, %p = "gpu.shuffle"(%x, %o, %w) {mode = "xor"} : (f32, i32, i32) -> (f32, i1)',
        "`gpu.shuffle xor",
    ),
    (KERNEL, "%z = llvm.mlir.null : !llvm.ptr", "`llvm.mlir.zero : !llvm.ptr`"),
    (KERNEL, "%z = llvm.mlir.zero : !llvm.ptr<f32>", "pointers have no element type"),
    (KERNEL, "gpu.return\n}\ngpu.module_end\ngpu.func @g() {", "leave it out"),
    (HOST, LAUNCH + " args(%p = %x) : f32 {\ngpu.terminator\n}", "leave `args(…)` out"),
    (HOST, LAUNCH + " {\ngpu.return\n}", "ends with `gpu.terminator`"),
    (HOST, f'"gpu.launch_func"({SIX}) {{kernel = @f}} : {TYPES}', "`gpu.launch_func @module::@kernel"),
    (HOST, f'"gpu.launch_func"({SIX}) {{kernel = "f", kernel_module = @k}} : {TYPES}', "@module::@kernel"),
    (HOST, "gpu.host_register %a : memref<?xf32>", "`memref<*xf32>`"),
    ("{}", "func @main() {\nreturn\n}", "`func.func`"),
    ("{}", "gpu.kernel_module @k {\n}", "`gpu.module @name { … }`"),
    ("{}", 'llvm.func @main(%x: !llvm<"float*">) {\nllvm.return\n}', "written as `f32`"),
    ("{}", "func.func @main(%c: i1) {\ncond_br %c, ^a, ^a\n^a:\nreturn\n}", "`cf.cond_br`"),
]


def _hint(text: str) -> str:
    with contexts.context(), pytest.raises(StepError) as caught:
        contexts.parse(text, source_name="user.mlir")
    return caught.value.hint


@pytest.mark.parametrize(
    ("whole", "form", "today"), FORMS, ids=[form.split("(")[0][:40] for _, form, _ in FORMS]
)
def test_the_hint_names_the_form_of_today(whole: str, form: str, today: str) -> None:
    assert today in in_child(_hint, whole.format(form))


@pytest.mark.parametrize(
    "line",
    [
        "%v = memref.load %a[%i] : memref<?xf32>",
        "gpu.launch_func @k::@f blocks in (%c, %c, %c) threads in (%c, %c, %c) args(%x : f32)",
        '"gpu.launch_func"(%c, %c) <{kernel = @k::@f}> : (index, index) -> ()',
        "%c = arith.constant 0 : index",
        "%p = llvm.mlir.zero : !llvm.ptr<3>",
        "return",
    ],
)
def test_forms_of_today_are_not_taken_for_older_ones(line: str) -> None:
    assert form_of_today(line) == ""
