"""Memory operations that are made of others, atomic updates, and descriptors as parameters of kernels.

``memref.realloc`` becomes allocation, copy and release. ``memref.alloc`` of a constant size in workgroup
memory becomes a variable, which exists once for each workgroup. The memory that ``vector.type_cast``
returns is loaded and stored as vectors: upstream assumes memory to be aligned like a vector, and rows to be
padded to a power of two. ``memref.copy`` of views with gaps would become a call of a host function.
``memref.expand_shape`` of a dimension into several of unknown extents stops upstream's conversion. Atomic
products, regions on floats and regions that set a value from outside become forms that targets have
instructions for.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.memrefs import metadata, reinterpreted
from gpubuild.engine.ir.passes import Lowering, Pass, contains, rewriting, upstream
from gpubuild.engine.ir.query import is_contiguous, is_kernel, is_outside, operations, scalar_bits, terminator
from gpubuild.engine.legalize.booleans import bytes_of
from gpubuild.engine.legalize.workgroup import WORKGROUP_SPACES

_CAST = "vector.type_cast"
_VARIABLE = "gpubuild.workgroup.{}"
_PRODUCTS = {12: "arith.mulf", 13: "arith.muli"}  # enum AtomicRMWKind
_ASSIGN = 3


def _use_elements(cast: ir.Operation) -> None:
    memory = cast.operands[0]
    shaped = memory.type
    if isinstance(shaped.element_type, ir.VectorType):
        return  # aligned and padded already
    for use in list(cast.results[0].uses):
        op = use.owner.operation
        emit = Emitter(op)
        start = [emit.constant(0)] * shaped.rank
        if op.name == "memref.load":
            emit.replace(emit.value("vector.load", [memory, *start], op.results[0].type))
        elif op.name == "memref.store" and op.operands[1] == cast.results[0]:
            emit.op("vector.store", [op.operands[0], memory, *start], [])
            op.erase()
    if not list(cast.results[0].uses):
        cast.erase()


def expand_copy(op: ir.Operation, *, plain_too: bool = False) -> None:
    """Expand ``memref.copy`` of views with gaps to a loop nest; with ``plain_too`` all others as well."""
    source, target = op.operands
    shaped = [v.type for v in (source, target)]
    if not plain_too and all(map(is_contiguous, shaped)):
        return

    def copy(at: Emitter, indices: list[ir.Value]) -> None:
        value = at.value("memref.load", [source, *indices], shaped[0].element_type)
        at.op("memref.store", [value, target, *indices], [])

    Emitter(op).nest(source, range(shaped[0].rank), copy)
    op.erase()


def _expand_copy(op: ir.Operation, _: Lowering) -> None:
    emit = Emitter(op)
    for number, memory in enumerate(list(op.operands)):
        if isinstance(memory.type, ir.MemRefType):
            op.operands[number] = bytes_of(emit, memory)
    expand_copy(op)


def _expand_casts(module: ir.Module, _: Lowering) -> None:
    if contains(module.operation, (_CAST,)):
        for cast in operations(module.operation, (_CAST,)):
            _use_elements(cast)


def _expand_shape(op: ir.Operation, _: Lowering) -> None:
    """Describe a shape with several unknown extents from one dimension by its sizes and strides."""
    source, kind = op.operands[0], op.results[0].type
    groups = [[ir.IntegerAttr(number).value for number in group] for group in op.attributes["reassociation"]]
    if all(sum(map(kind.is_dynamic_dim, group)) < 2 for group in groups):
        return
    emit = Emitter(op)
    parts = metadata(emit, source)
    unknown = iter(list(op.operands)[1:])
    sizes = [
        next(unknown) if kind.is_dynamic_dim(number) else emit.constant(kind.shape[number])
        for number in range(kind.rank)
    ]
    strides: list[ir.Value] = []
    for stride, group in zip(parts.strides, groups, strict=True):
        inner = [stride]
        for dimension in reversed(group[1:]):
            inner.insert(0, emit.binary("arith.muli", inner[0], sizes[dimension]))
        strides += inner
    emit.replace(reinterpreted(emit, parts.base, kind, offset=[parts.offset], sizes=sizes, strides=strides))


def _expand_product(op: ir.Operation, _: Lowering) -> None:
    """Expand ``memref.atomic_rmw`` of a product to a compare-and-exchange loop."""
    function = _PRODUCTS.get(op.attributes["kind"].value)
    if function is None:
        return
    emit = Emitter(op)
    value, memory, *indices = list(op.operands)
    atomic = emit.op("memref.generic_atomic_rmw", [memory, *indices], [value.type], regions=1)
    body = atomic.regions[0].blocks.append(value.type)
    inside = emit.inside(body)
    inside.op("memref.atomic_yield", [inside.binary(function, body.arguments[0], value)], [])
    emit.replace(atomic.results[0])


def _use_integers(op: ir.Operation, _: Lowering) -> None:
    """Make ``memref.generic_atomic_rmw`` on floats work on integers of the same width.

    Compare-and-exchange takes integers only. Both memref types lower to one LLVM type, so that the cast
    between them disappears.
    """
    element = op.results[0].type
    if not isinstance(element, ir.FloatType):
        return
    integer = ir.IntegerType.get_signless(scalar_bits(element))
    emit = Emitter(op)
    memory = emit.cast(op.operands[0], _with_element(op.operands[0].type, integer))
    atomic = emit.op(
        "memref.generic_atomic_rmw", [memory, *list(op.operands)[1:]], [integer], regions=1
    ).operation
    old_block = op.regions[0].blocks[0]
    # The block keeps its ops; its argument becomes an integer, which a cast converts.
    old_block.append_to(atomic.regions[0])
    inside = Emitter(old_block.operations[0].operation)
    inside.convert_argument(old_block.arguments[0], integer, "arith.bitcast")
    end = terminator(old_block)
    closing = Emitter(end)
    bits = closing.value("arith.bitcast", [end.operands[0]], integer)
    closing.op("memref.atomic_yield", [bits], [])
    end.erase()
    emit.replace(emit.value("arith.bitcast", [atomic.results[0]], element))


def _exchange(op: ir.Operation, _: Lowering) -> None:
    """Make an exchange of a ``memref.generic_atomic_rmw`` that yields a value from outside its region.

    Upstream's conversion lacks it. Such regions are what folding leaves of a product with zero.
    """
    value = terminator(op.regions[0].blocks[0]).operands[0]
    if is_outside(value, op):
        kind = {"kind": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _ASSIGN)}
        emit = Emitter(op)
        emit.replace(emit.value("memref.atomic_rmw", [value, *op.operands], value.type, kind))


def _with_element(memory: ir.Type, element: ir.Type) -> ir.Type:
    return ir.MemRefType.get(memory.shape, element, memory.layout, memory.memory_space)


def _declare_allocations(module: ir.Module, _: Lowering) -> None:
    """Replace allocations in workgroup memory by variables: compilers write them so, and mean that."""
    if not contains(module.operation, ("memref.alloc",)):
        return
    for kernels in contexts.gpu_modules(module):
        top = Emitter(kernels.regions[0].blocks[0].operations[0].operation)
        for number, op in enumerate(operations(kernels, ("memref.alloc",))):
            kind = op.results[0].type
            if str(kind.memory_space) not in WORKGROUP_SPACES or not kind.has_static_shape:
                continue
            for use in list(op.results[0].uses):
                if use.owner.operation.name == "memref.dealloc":
                    use.owner.operation.erase()
            name = _VARIABLE.format(number)
            attributes = {"sym_name": ir.StringAttr.get(name), "type": ir.TypeAttr.get(kind)}
            attributes["sym_visibility"] = ir.StringAttr.get("private")
            attributes["initial_value"] = ir.UnitAttr.get()
            if "alignment" in op.attributes:
                attributes["alignment"] = op.attributes["alignment"]
            top.op("memref.global", [], [], attributes)
            emit = Emitter(op)
            symbol = {"name": ir.FlatSymbolRefAttr.get(name)}
            emit.replace(emit.value("memref.get_global", [], kind, symbol))


DECLARE_ALLOCATIONS: Pass[Lowering] = Pass(name="workgroup-allocations-to-globals", run=_declare_allocations)
EXPAND_CASTS: Pass[Lowering] = Pass(name="expand-vector-type-casts", run=_expand_casts)
EXPAND_REALLOC: Pass[Lowering] = upstream(
    "expand-realloc", "builtin.module(expand-realloc)", only_for=("memref.realloc",)
)
EXPAND_SHAPES = rewriting("expand-unknown-shapes", {"memref.expand_shape": _expand_shape})
EXPAND_COPIES = rewriting("expand-copies", {"memref.copy": _expand_copy})
EXPAND_ATOMIC_PRODUCTS = rewriting("expand-atomic-products", {"memref.atomic_rmw": _expand_product})
EXCHANGE_VALUES = rewriting("exchange-values", {"memref.generic_atomic_rmw": _exchange})
FLOAT_ATOMICS_TO_INTEGERS = rewriting(
    "float-atomics-to-integers", {"memref.generic_atomic_rmw": _use_integers}
)


_DESCRIPTOR = re.compile(r"!nvgpu\.tensormap\.descriptor\b")


def change_parameters(function: ir.Operation, change: Callable[[ir.Type], ir.Type | None], cast: str) -> None:
    """Change parameters to the types that ``change`` returns; ``cast`` converts values to the old types."""
    body = function.regions[0].blocks
    kind = function.attributes["function_type"].value
    changed = [change(given) for given in kind.inputs]
    if not len(body) or all(new is None for new in changed):
        return
    emit = Emitter(body[0].operations[0].operation)
    for argument, new in zip(body[0].arguments, changed, strict=False):
        if new is not None:
            emit.convert_argument(argument, new, cast)
    inputs = [new or given for given, new in zip(kind.inputs, changed, strict=True)]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kind.results))


_PARAMETER_BITS = (8, 16, 32, 64)  # of integers that devices have types for


def _widen(function: ir.Operation, _: Lowering) -> None:
    """Replace integer parameters of a kernel that devices have no types for by the next wider ones.

    The host passes the address of such an integer in as many bytes; the kernel ignores the additional bits.
    """
    if is_kernel(function):
        change_parameters(function, _wider, "arith.trunci")


def _wider(kind: ir.Type) -> ir.Type | None:
    if not isinstance(kind, ir.IntegerType):
        return None
    width = ir.IntegerType(kind).width
    if width in {1, *_PARAMETER_BITS} or width > _PARAMETER_BITS[-1]:
        return None
    return ir.IntegerType.get_signless(next(bits for bits in _PARAMETER_BITS if bits >= width))


WIDEN_PARAMETERS = rewriting("widen-integer-parameters", {"gpu.func": _widen})


def _pointer(kind: ir.Type) -> ir.Type | None:
    return ir.Type.parse("!llvm.ptr") if _DESCRIPTOR.match(str(kind)) else None


def _take_pointers(function: ir.Operation, _: Lowering) -> None:
    """Replace parameters of nvgpu's types, unknown to upstream's conversion of functions, by pointers."""
    change_parameters(function, _pointer, "builtin.unrealized_conversion_cast")


def _pass_pointers(op: ir.Operation, _: Lowering) -> None:
    """Replace arguments of a ``gpu.launch_func`` of these types by pointers."""
    for number, value in enumerate(op.operands):
        if (pointer := _pointer(value.type)) is not None:
            op.operands[number] = Emitter(op).cast(value, pointer)


TAKE_POINTERS = rewriting("descriptor-parameters-to-pointers", {"gpu.func": _take_pointers})
PASS_POINTERS = rewriting("descriptor-arguments-to-pointers", {"gpu.launch_func": _pass_pointers})
