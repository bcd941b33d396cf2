"""Elementwise operations on tensors, in the form in which upstream fuses them."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering
from gpubuild.engine.ir.query import operations

# Only elementwise operations become generic: a fused generic operation is computed again in each
# iteration of its user, so products keep their names and are not fused with what feeds them.
_GENERALIZE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %softmax = transform.structured.match ops{["linalg.softmax"]} in %module
      : (!transform.any_op) -> !transform.any_op
    %parts = transform.structured.decompose_interface %softmax : (!transform.any_op) -> !transform.any_op
    %named = transform.structured.match ops{[NAMES]} in %module : (!transform.any_op) -> !transform.any_op
    %generic = transform.structured.generalize %named : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
_ELEMENTWISE = (
    "abs", "add", "broadcast", "ceil", "copy", "div", "div_unsigned", "elementwise", "erf", "exp",
    "floor", "log", "map", "max", "min", "mul", "negf", "powf", "reciprocal", "round", "rsqrt",
    "select", "sqrt", "square", "sub", "tanh", "transpose",
)  # fmt: skip
_TO_LINALG = "builtin.module(func.func(convert-elementwise-to-linalg))"
_RESHAPES = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def to_linalg(module: ir.Module, lowering: Lowering) -> None:
    """Make linalg of ``arith`` and ``math`` on tensors, but not of choices between two whole tensors.

    Those may differ in shape. Casts hide them from upstream's pass.
    """
    hidden = []
    for choice in operations(module.operation, ("arith.select",)):
        on_tensors = [isinstance(value.type, ir.RankedTensorType) for value in choice.operands]
        if on_tensors == [False, True, True]:
            name, kind = "builtin.unrealized_conversion_cast", choice.results[0].type
            cast = Emitter(choice).op(name, list(choice.operands), [kind])
            choice.results[0].replace_all_uses_with(cast.results[0])
            choice.erase()
            hidden.append(cast)
    contexts.run_passes(module, _TO_LINALG, source=lowering.source)
    for cast in hidden:
        Emitter(cast).replace(Emitter(cast).value("arith.select", list(cast.operands), cast.results[0].type))


def generalize(module: ir.Module, _: Lowering) -> None:
    """Make generic operations of named ones, and parts of ``linalg.softmax``."""
    names = ", ".join(f'"linalg.{name}"' for name in _ELEMENTWISE)
    schedule = ir.Module.parse(_GENERALIZE.replace("NAMES", names))
    sequence = schedule.body.operations[0]
    from mlir.dialects.transform import interpreter  # loads 5 ms of generated classes

    interpreter.apply_named_sequence(module, sequence, schedule)


def inits_to_inputs(module: ir.Module, _: Lowering) -> None:
    """Let an elementwise operation read what it changes from inputs, if it feeds another one.

    The two may be fused. If the other has more dimensions, its iterations would change one element several
    times, and each would read what another has written.
    """
    for op in operations(module.operation, ("linalg.generic",)):
        inputs = int(op.attributes["operandSegmentSizes"][0])
        inits = list(op.operands)[inputs:]
        block = op.regions[0].blocks[0]
        reads = any(list(argument.uses) for argument in list(block.arguments)[inputs:])
        is_parallel = all("parallel" in str(kind) for kind in op.attributes["iterator_types"])
        if not (reads and is_parallel and any(map(_feeds_another, op.results))):
            continue
        emit = Emitter(op)
        maps = list(op.attributes["indexing_maps"])
        attributes = {
            "indexing_maps": ir.ArrayAttr.get([*maps, *maps[inputs:]]),
            "iterator_types": op.attributes["iterator_types"],
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([inputs + len(inits), len(inits)]),
        }
        operands = [*op.operands, *(_empty_like(emit, init) for init in inits)]
        new = emit.op("linalg.generic", operands, [r.type for r in op.results], attributes, regions=1)
        block.append_to(new.regions[0])
        for init in inits:
            block.add_argument(ir.ShapedType(init.type).element_type, op.location)
        for old, result in zip(op.results, new.results, strict=True):
            old.replace_all_uses_with(result)
        op.erase()


def _feeds_another(result: ir.Value) -> bool:
    """Return whether a ``linalg.generic`` has ``result`` as an input, maybe in another shape."""
    for use in result.uses:
        user = use.owner.operation
        if user.name in _RESHAPES and _feeds_another(user.results[0]):
            return True
        if user.name == "linalg.generic":
            inputs = int(user.attributes["operandSegmentSizes"][0])
            if use.operand_number < inputs:
                return True
    return False


def _empty_like(emit: Emitter, tensor: ir.Value) -> ir.Value:
    kind = tensor.type
    sizes = [
        emit.value("tensor.dim", [tensor, emit.constant(number)], ir.IndexType.get())
        for number in range(kind.rank)
        if kind.is_dynamic_dim(number)
    ]
    return emit.value("tensor.empty", sizes, kind)
