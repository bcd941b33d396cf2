"""Reports of accesses out of bounds cost nothing where there are none."""

from mlir import ir

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import nested, operations
from gpubuild.engine.backends.cpu.passes import PASSES, start
from gpubuild.engine.backends.cpu.state import WORKGROUP_OF
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import run_passes, selected
from gpubuild.targets.target import Sanitize

COUNT = """
module { gpu.module @m { gpu.func @k(%A: memref<?xi32>, %B: memref<?xi32>) kernel {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i32
  %n = memref.dim %A, %c0 : memref<?xi32>
  %x = gpu.global_id x
  %items = gpu.block_dim x
  scf.for %i = %x to %n step %items {
    %v = memref.load %A[%i] : memref<?xi32>
    %bin = arith.index_cast %v : i32 to index
    %old = memref.atomic_rmw addi %one, %B[%bin] : (i32, memref<?xi32>) -> i32
  }
  gpu.return
} } }
"""


def test_only_reported_work_items_are_stored() -> None:
    """Otherwise each work-item and iteration would store its ids, which prevents reordering of loops."""
    with contexts.context():
        module = contexts.parse(COUNT)
        source = SourceText(COUNT, "k.mlir")
        gpu_module = contexts.gpu_modules(module)[0]
        lowering = start(target_params("cpu", sanitize=Sanitize.BOUNDS), source)
        run_passes(module, selected(PASSES, "expand-masked-lanes", "insert-checks"), lowering)
        run_passes(module, selected(PASSES, "add-workgroup-functions", "fission"), lowering)
        contexts.verify(module.operation, source=source)
        body = gpu_module.regions[0].blocks[0]
        function = next(op for op in operations(body) if WORKGROUP_OF in op.attributes)
        stores = [op for op in nested(function) if _calls(op, image_layout.PLACE_ITEM)]
        assert stores
        for store in stores:
            inside = list(operations(store.block))
            assert _calls(inside[inside.index(store) + 1], image_layout.CHECK_BOUNDS)
            assert store.parent.operation.name == "scf.if"


def _calls(op: ir.Operation, name: str) -> bool:
    return bool(op.name == "func.call" and ir.FlatSymbolRefAttr(op.attributes["callee"]).value == name)
