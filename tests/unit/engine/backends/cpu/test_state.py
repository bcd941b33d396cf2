"""What messages about CPU kernels call an op."""

from unit.engine.device_steps import in_child

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.cpu.passes import start
from gpubuild.engine.backends.cpu.state import record_written_ops
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText

# As transforms leave it: all that was made of one linalg.matmul is in its place.
TEXT = """
func.func @f(%l: vector<2x2xf16>, %r: vector<1x2xf16>, %s: vector<2x2xf16>) {
  %t = gpu.thread_id x loc("k.mlir":3:5)
  %d = nvgpu.mma.sync (%l, %r, %s) {mmaShape = [16, 8, 8]}
    : (vector<2x2xf16>, vector<1x2xf16>, vector<2x2xf16>) -> vector<2x2xf16> loc("k.mlir":3:5)
  %e = vector.extract %d[0, 0] : f16 from vector<2x2xf16> loc("k.mlir":3:5)
  %u = gpu.thread_id y loc("k.mlir":4:5)
  return
}
"""


def names() -> dict[str, str]:
    with contexts.context():
        lowering = start(target_params("cpu"), SourceText(TEXT))
        record_written_ops(contexts.parse(TEXT), lowering)
        return lowering.written_ops


def test_an_op_of_nvidia_s_is_what_is_named() -> None:
    found = in_child(names)
    assert found['loc("k.mlir":3:5)'] == "nvgpu.mma.sync"
    assert found['loc("k.mlir":4:5)'] == "gpu.thread_id"
