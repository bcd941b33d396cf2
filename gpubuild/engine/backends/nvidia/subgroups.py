"""Subgroups of NVIDIA GPUs: operations that their instructions do better than shuffles.

GPUs since sm_80 reduce 32-bit integers of a subgroup by one instruction, of those lanes that are there;
as upstream does, it is taken where the source says (``uniform``) that the whole subgroup comes to it.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.ir.query import element_type, scalar_bits
from gpubuild.engine.legalize.state import Legalization
from gpubuild.engine.legalize.subgroup_reduce import (
    fills_subgroups,
    lanes_present,
    reduction_name,
    replace_by_element,
)
from gpubuild.engine.legalize.subgroup_shuffle import lane_number, move
from gpubuild.targets.chips import sm_number

# What nvvm.redux.sync calls them; it does not multiply.
_REDUX = {
    "add": "add", "minui": "umin", "minsi": "min", "maxui": "umax", "maxsi": "max",
    "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_REDUX_SINCE = 80
_I32_BITS = 32


def _reduce(op: ir.Operation, state: GpuLowering) -> None:
    """``gpu.subgroup_reduce`` of whole subgroups as ``nvvm.redux.sync``."""
    size = state.capabilities.subgroup_size
    if "cluster_size" in op.attributes and op.attributes["cluster_size"].value != size:
        return
    name = reduction_name(op)
    if "uniform" in op.attributes and name in _REDUX and _is_word(op.operands[0].type):
        replace_by_element(op, _Redux(Emitter(op), name, full=fills_subgroups(op, size)).reduce)


def _is_word(kind: ir.Type) -> bool:
    """Whether values of ``kind``, or their elements, are integers of 32 bits."""
    element = element_type(kind)
    return isinstance(element, ir.IntegerType) and scalar_bits(element) == _I32_BITS


class _Redux:
    """``nvvm.redux.sync`` of the lanes that are there: naming others would wait for them."""

    def __init__(self, emit: Emitter, name: str, *, full: bool) -> None:
        self._emit = emit
        self._kind = ir.Attribute.parse(f"#nvvm<redux_kind {_REDUX[name]}>")
        i32 = ir.IntegerType.get_signless(_I32_BITS)
        self._lanes = emit.constant(-1, i32)
        if not full:
            width = emit.constant(_I32_BITS, i32)
            present = emit.binary("arith.minui", lanes_present(emit, lane_number(emit)), width)
            self._lanes = emit.binary("arith.shrui", self._lanes, emit.binary("arith.subi", width, present))

    def reduce(self, value: ir.Value) -> ir.Value:
        """The reduction of the subgroup, in every lane."""
        operands = [value, self._lanes]
        return self._emit.op("nvvm.redux.sync", operands, [value.type], {"kind": self._kind}).results[0]


def _broadcast(op: ir.Operation, state: Legalization) -> None:
    """``gpu.subgroup_broadcast``: all lanes that are active here read the same one."""
    emit = Emitter(op)
    i32 = ir.IntegerType.get_signless(_I32_BITS)
    mask = emit.op(
        "llvm.call_intrinsic",
        [],
        [i32],
        {
            "intrin": ir.StringAttr.get("llvm.nvvm.activemask"),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0]),
        },
    ).results[0]
    specific = len(op.operands) > 1
    source = op.operands[1] if specific else emit.op("math.cttz", [mask], [i32]).results[0]

    def read(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
        shuffle = at.op(
            "nvvm.shfl.sync",
            [mask, word, source, at.constant(state.capabilities.subgroup_size - 1, i32)],
            [i32],
            {"kind": ir.Attribute.parse("#nvvm<shfl_kind idx>")},
        )
        return shuffle.results[0], word

    emit.replace(move(emit, op.operands[0], read)[0])


REDUCE = rewriting(
    "subgroup-reduce-to-redux",
    {"gpu.subgroup_reduce": _reduce},
    when=lambda state: sm_number(state.params.chip) >= _REDUX_SINCE,
)
BROADCAST = rewriting("subgroup-broadcast-to-nvvm", {"gpu.subgroup_broadcast": _broadcast})
