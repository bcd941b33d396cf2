"""Plain memory: ops made of others, each as what it is made of.

``memref.realloc`` becomes allocation, copy and release. What ``vector.type_cast`` makes of memory is loaded
and stored as the vectors it holds: upstream assumes memory to be aligned like a vector, and rows to be
padded to a power of two. ``memref.copy`` of views with gaps would become a call of a host function.

Descriptors as parameters of kernels: pointers, on both sides of a launch.

Upstream's conversion of functions does not know nvgpu's types; outlining makes parameters of them.

Library calls: declared functions of a kernel module are symbols of their own name.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, contains, rewriting, upstream
from gpubuild.engine.ir.query import operations
from gpubuild.engine.legalize.booleans import bytes_of

_CAST = "vector.type_cast"


def _use_elements(cast: ir.Operation) -> None:
    memory = cast.operands[0]
    shaped = ir.MemRefType(memory.type)
    if isinstance(shaped.element_type, ir.VectorType):
        return  # already aligned and padded so
    for use in list(cast.results[0].uses):
        op = use.owner.operation
        emit = Emitter(op)
        start = [emit.constant(0)] * shaped.rank
        if op.name == "memref.load":
            emit.replace(emit.op("vector.load", [memory, *start], [op.results[0].type]).results[0])
        elif op.name == "memref.store" and op.operands[1] == cast.results[0]:
            emit.op("vector.store", [op.operands[0], memory, *start], [])
            op.erase()
    if not list(cast.results[0].uses):
        cast.erase()


def expand_copy(op: ir.Operation, *, plain_too: bool = False) -> None:
    """Expand ``memref.copy`` of views with gaps to a loop nest.

    With ``plain_too`` a copy without gaps becomes one as well.
    """
    source, target = op.operands
    shaped = [ir.MemRefType(v.type) for v in (source, target)]
    if not plain_too and all(
        m.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(m.rank)) for m in shaped
    ):
        return
    emit = Emitter(op)
    _copy_axis(emit, source, target, [])
    op.erase()


def _copy_axis(emit: Emitter, source: ir.Value, target: ir.Value, indices: list[ir.Value]) -> None:
    shaped = ir.MemRefType(source.type)
    if len(indices) == shaped.rank:
        value = emit.op("memref.load", [source, *indices], [shaped.element_type]).results[0]
        emit.op("memref.store", [value, target, *indices], [])
        return
    axis = emit.constant(len(indices))
    extent = emit.op("memref.dim", [source, axis], [ir.IndexType.get()]).results[0]
    loop = emit.op("scf.for", [emit.constant(0), extent, emit.constant(1)], [], regions=1)
    body = loop.regions[0].blocks.append(ir.IndexType.get())
    inside = emit.inside(body)
    _copy_axis(inside, source, target, [*indices, body.arguments[0]])
    inside.op("scf.yield", [], [])


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


EXPAND_CASTS: Pass[Lowering] = Pass(name="expand-vector-type-casts", run=_expand_casts)
EXPAND_REALLOC: Pass[Lowering] = upstream(
    "expand-realloc", "builtin.module(expand-realloc)", only_for=("memref.realloc",)
)
EXPAND_COPIES = rewriting("expand-copies", {"memref.copy": _expand_copy})


_OWN_TYPES = re.compile(r"!nvgpu\.tensormap\.descriptor\b")


def _take_pointers(function: ir.Operation, _: Lowering) -> None:
    """Give a kernel pointers in place of the nvgpu types among its parameters."""
    body = function.regions[0].blocks
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if not len(body) or not any(_OWN_TYPES.match(str(t)) for t in kind.inputs):
        return
    pointer = ir.Type.parse("!llvm.ptr")
    emit = Emitter(body[0].operations[0].operation)
    inputs = []
    for argument, given in zip(body[0].arguments, kind.inputs, strict=False):
        if not _OWN_TYPES.match(str(given)):
            inputs.append(given)
            continue
        seen = emit.op("builtin.unrealized_conversion_cast", [argument], [given])
        argument.replace_all_uses_except(seen.results[0], seen)
        argument.set_type(pointer)
        inputs.append(pointer)
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, kind.results))


def _pass_pointers(op: ir.Operation, _: Lowering) -> None:
    """Pass pointers in a ``gpu.launch_func``."""
    pointer = ir.Type.parse("!llvm.ptr")
    emit = Emitter(op)
    for number, value in enumerate(op.operands):
        if _OWN_TYPES.match(str(value.type)):
            op.operands[number] = emit.cast(value, pointer)


TAKE_POINTERS = rewriting("descriptor-parameters-to-pointers", {"gpu.func": _take_pointers})
PASS_POINTERS = rewriting("descriptor-arguments-to-pointers", {"gpu.launch_func": _pass_pointers})


_C_INTERFACE = "_mlir_ciface_"


def call_libraries_directly(kernels: ir.Operation) -> None:
    """Let a declared function without memrefs be the symbol of its own name in a device library.

    Upstream makes it a wrapper around ``_mlir_ciface_<name>``, which passes memrefs by pointer and
    means nothing where there are none.
    """
    functions = {
        op.operation.attributes["sym_name"].value: op.operation
        for op in kernels.regions[0].blocks[0]
        if op.operation.name == "llvm.func"
    }
    for name, declared in functions.items():
        wrapper = functions.get(name.removeprefix(_C_INTERFACE)) if name.startswith(_C_INTERFACE) else None
        if wrapper is None or len(declared.regions[0].blocks):
            continue
        if declared.attributes["function_type"] == wrapper.attributes["function_type"]:
            wrapper.erase()
            declared.attributes["sym_name"] = ir.StringAttr.get(name.removeprefix(_C_INTERFACE))


def _run(module: ir.Module, _: Lowering) -> None:
    for kernels in contexts.gpu_modules(module):
        call_libraries_directly(kernels)


CALL_DIRECTLY: Pass[Lowering] = Pass(name="call-libraries-directly", run=_run)
