"""Sources in forms of older MLIR: the error says what to write today."""

from pathlib import Path

import pytest
from unit.engine.device_steps import in_child, outline_source
from unit.engine.steps import refused

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.older_forms import FORMS as KNOWN
from gpubuild.engine.ir.older_forms import STANDARD, form_of_today

KERNEL = (
    "gpu.module @k {{\n  gpu.func @f(%a: memref<?xf32>, %i: index, %x: f32) kernel {{\n"
    "    {}\n    gpu.return\n  }}\n}}\n"
)
HOST = "func.func @main(%a: memref<?xf32>, %c: index, %x: f32) {{\n  {}\n  return\n}}\n"
SIZES = "(%1 = %c, %2 = %c, %3 = %c) threads(%tx, %ty, %tz) in (%4 = %c, %5 = %c, %6 = %c)"
LAUNCH = f"gpu.launch blocks(%bx, %by, %bz) in {SIZES}"
SIX = "%c, %c, %c, %c, %c, %c, %x"
TYPES = "(index, index, index, index, index, index, f32) -> ()"
MATRIX = '!gpu.mma_matrix<16x16xf32, "COp">'
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
    (HOST, LAUNCH + "\n  args(%p = %x) : f32 {\ngpu.terminator\n}", "leave `args(…)` out"),
    (HOST, LAUNCH + " {\ngpu.return\n}", "ends with `gpu.terminator`"),
    (HOST, f'"gpu.launch_func"({SIX}) {{kernel = @f}} : {TYPES}', "`gpu.launch_func @module::@kernel"),
    (HOST, f'"gpu.launch_func"({SIX}) {{kernel = "f", kernel_module = @k}} : {TYPES}', "@module::@kernel"),
    (HOST, "gpu.host_register %a : memref<?xf32>", "`memref<*xf32>`"),
    ("{}", "func @main() {\nreturn\n}", "`func.func`"),
    ("{}", "gpu.kernel_module @k {\n}", "`gpu.module @name { … }`"),
    ("{}", "func.func @f(%x: f32) attributes {nvvm.kernel} {\nreturn\n}", "`gpu.func @name(…) kernel`"),
    ("{}", "func @f(%x: f32) attributes {nvvm.kernel: true} {\nreturn\n}", "`gpu.func @name(…) kernel`"),
    (
        HOST,
        f'"gpu.launch_func"({SIX})\n{{kernel: @f : (f32) -> ()}}\n: {TYPES}',
        "`gpu.launch_func @module::@kernel",
    ),
    (KERNEL, OFFSETS + "%v, %p = gpu.shuffle %x, %o, %w xor : f32", "`gpu.shuffle xor"),
    (KERNEL, "%v = gpu.all_reduce %x {} {op = add} : (f32) -> f32", "`gpu.all_reduce add"),
    (KERNEL, "%d = gpu.subgroup_mma_compute_matrix %x, %x, %x : f32", "`gpu.subgroup_mma_compute`"),
    (
        KERNEL,
        f'%d = gpu.subgroup_mma_elementwise %x, %x {{opType = "ADD"}} : ({MATRIX}, {MATRIX}) -> {MATRIX}',
        "`gpu.subgroup_mma_elementwise addf",
    ),
    (
        KERNEL,
        f"%d = gpu.subgroup_mma_load_matrix %a[%i] {{leadDimension = 32 : i32}} : memref<?xf32> -> {MATRIX}",
        "`{leadDimension = 32 : index}`",
    ),
    (KERNEL, "vector.warp_execute_on_lane_0(%i)[32] {\n}", "`gpu.warp_execute_on_lane_0`"),
    ("{}", 'llvm.func @main(%x: !llvm<"float*">) {\nllvm.return\n}', "written as `f32`"),
    (KERNEL, 'gpu.printf "%d\\n" %i : index', "write a comma"),
    (KERNEL, "%v = gpu.all_reduce max %x {} : (f32) -> f32", "`maximumf`"),
    (HOST, "%t = bufferization.to_tensor %a : memref<?xf32>", "`bufferization.to_tensor %x : type to type`"),
    (HOST, "%t = linalg.init_tensor [4] : tensor<4xf32>", "`tensor.empty() : tensor<…>`"),
    (HOST, "linalg.fill(%x, %a) : f32, memref<?xf32>", "`linalg.fill ins("),
    (
        HOST,
        "%e = memref.expand_shape %a [[0, 1]] : memref<?xf32> into memref<2x?xf32>",
        "`memref.expand_shape %x [[0, 1]] output_shape",
    ),
    (HOST, "scf.parallel (%i) = (%c) to (%c) step (%c) {\nscf.yield\n}", "leave scf.yield out"),
    ("{}", '#s = #sparse_tensor.encoding<{\n  dimLevelType = ["dense"]\n}>', "`map = "),
    ("{}", "spv.module Logical GLSL450 {\n}", "`spirv.module`"),
    ("{}", "func.func @main(%c: i1) {\ncond_br %c, ^a, ^a\n^a:\nreturn\n}", "`cf.cond_br`"),
]


def _hints() -> list[str]:
    with contexts.context():
        texts = [whole.format(form) for whole, form, _ in FORMS]
        return [refused(contexts.parse, text, source_name="user.mlir").hint for text in texts]


def test_the_hint_names_the_form_of_today() -> None:
    for hint, (_, form, today) in zip(in_child(_hints), FORMS, strict=True):
        assert today in hint, form


@pytest.mark.parametrize(
    "line",
    [
        "%v = memref.load %a[%i] : memref<?xf32>",
        "gpu.launch_func @k::@f blocks in (%c, %c, %c) threads in (%c, %c, %c) args(%x : f32)",
        '"gpu.launch_func"(%c, %c) <{kernel = @k::@f}> : (index, index) -> ()',
        "%c = arith.constant 0 : index",
        "%p = llvm.mlir.zero : !llvm.ptr<3>",
        "llvm.func @f() attributes {gpu.kernel, nvvm.kernel} {",
        "%v, %p = gpu.shuffle xor %x, %o, %w : f32",
        '%v = "gpu.all_reduce"(%x) <{op = #gpu<all_reduce_op add>}> ({}) : (f32) -> f32',
        "return",
        'gpu.printf "%d, %%x\\n", %i : index',
        "%v = gpu.all_reduce maximumf %x {} : (f32) -> f32",
        "%m = vector.multi_reduction <maximumf>, %v, %x [0] : vector<4xf32> to f32",
        "%e = tensor.expand_shape %t [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>",
        "scf.reduce(%x : f32) {",
    ],
)
def test_forms_of_today_are_not_taken_for_older_ones(line: str) -> None:
    assert form_of_today(line) == ""


@pytest.mark.parametrize("around", ["{}", "module attributes {{gpu.container_module}} {{\n{}}}\n"])
def test_a_kernel_module_of_2019_is_not_taken_for_host_code(around: str) -> None:
    kernels = (
        "module @k attributes {gpu.kernel_module} {\n  func.func @f() attributes {gpu.kernel} { return }\n}\n"
    )
    error = refused(outline_source, around.format(kernels))
    assert "'gpu.kernel_module' has no meaning" in error.diagnostics[0].message
    assert "`gpu.module @name { … }`" in error.hint


def test_a_pass_that_made_objects_is_not_needed_any_more() -> None:
    error = refused(
        outline_source, "module {}", passes="builtin.module(gpu.module(gpu-to-cubin{chip=sm_90}))"
    )
    assert "gpubuild makes the objects" in error.hint


PAGE = Path(__file__).parents[4] / "docs" / "reference" / "older-mlir.md"


def table() -> str:
    """The two tables of the page."""
    rows = ["| older MLIR | today |", "|---|---|"]
    for form in KNOWN:
        assert form_of_today(form.example), form.example
        rows.append(f"| `{form.example}` | {form_of_today(form.example).removeprefix('write ')} |")
    rows += ["", "| `std` | today |", "|---|---|"]
    rows += [f"| `{old}` | `{new}` |" for old, new in sorted(STANDARD.items())]
    return "\n".join(rows) + "\n"


def test_the_page_lists_the_forms() -> None:
    start = "<!-- forms: printed by tests/unit/engine/ir/test_older_forms.py -->\n"
    assert PAGE.read_text().partition(start)[2] == table()
