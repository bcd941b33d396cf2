"""Check operations on sparse matrices in host code, and pass the addresses that they mean.

``gpu-to-llvm`` aborts on element types and handles that it does not expect, mixes up some of them, and
passes the address of a memref's allocation, whatever its offset. The calls are in ``runtime/abi/sparse.c``.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.host import memory
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText, about, refuse
from gpubuild.engine.ir.query import element_bytes, is_contiguous, matching, strides_and_offset

_INDICES = ("i32", "i64", "index")
_VALUES = ("f16", "bf16", "f32", "f64", "i8", "i32", "complex<f32>", "complex<f64>")
_DENSE, _STRUCTURED = "gpu.create_dn_tensor", "gpu.create_2to4_spmat"
# Operations and the number of memrefs with indices, which come before those with values.
_CREATING = {
    _DENSE: 0, _STRUCTURED: 0, "gpu.create_coo": 2, "gpu.create_coo_aos": 1, "gpu.create_csr": 2,
    "gpu.create_csc": 2, "gpu.create_bsr": 2, "gpu.set_csr_pointers": 2,
}  # fmt: skip
# Operations and the dimensions of the dense tensors that they use.
_PRODUCTS = {
    "gpu.spmv": 1, "gpu.spmv_buffer_size": 1, "gpu.spmm": 2, "gpu.spmm_buffer_size": 2, "gpu.sddmm": 2,
    "gpu.sddmm_buffer_size": 2, "gpu.spgemm_work_estimation_or_compute": 0, "gpu.spgemm_copy": 0,
}  # fmt: skip
OPS = frozenset(
    {
        *_CREATING, *_PRODUCTS, "gpu.destroy_dn_tensor", "gpu.destroy_sp_mat", "gpu.spgemm_create_descr",
        "gpu.spgemm_destroy_descr", "gpu.spmat_get_size",
    }
)  # fmt: skip


def check(module: ir.Module, source: SourceText | None = None) -> None:
    """Raise ``StepError`` for operations that upstream would abort on or lower wrongly."""
    lines = source or SourceText()
    ops = matching(module.operation, lambda op: op.name in OPS)
    found = [about(op, f"'{op.name}' {reason}", lines) for op in ops if (reason := _refusal(op))]
    refuse("host code uses sparse matrices in a way that cannot be lowered", found)


def pass_addresses(module: ir.Module) -> None:
    """Replace memrefs of sparse operations, in place, by memrefs whose base is their first element."""
    for op in matching(module.operation, lambda op: op.name in OPS):
        for number, operand in enumerate(op.operands):
            if isinstance(operand.type, ir.MemRefType):
                op.operands[number] = _based_at_start(Emitter(op), operand)


def _refusal(op: ir.Operation) -> str:
    handles = [value for value in op.operands if str(value.type).startswith("!gpu.sparse.")]
    if any(isinstance(value.owner, ir.Block) or value.owner.operation.name not in OPS for value in handles):
        return "uses a handle that was passed on: create it in the same function, outside of branches"
    makers = [value.owner.operation for value in handles]
    memrefs = [value.type for value in op.operands if isinstance(value.type, ir.MemRefType)]
    if any(not _is_contiguous(kind) for kind in memrefs):
        return "uses a memref whose elements may not be contiguous"
    if op.name in _CREATING:
        count = _CREATING[op.name]
        wrong = _wrong_elements(memrefs[:count], _INDICES) or _wrong_elements(memrefs[count:], _VALUES)
        if op.name == _DENSE and _dimensions(op) not in (1, 2):
            wrong = wrong or "creates a tensor that has neither one nor two dimensions"
        return wrong
    return _wrong_product(op, makers) if op.name in _PRODUCTS else ""


def _wrong_elements(kinds: list[ir.MemRefType], allowed: tuple[str, ...]) -> str:
    wrong = [str(kind.element_type) for kind in kinds if str(kind.element_type) not in allowed]
    return f"on elements of type {wrong[0]}: allowed are {', '.join(allowed)}" if wrong else ""


def _wrong_product(op: ir.Operation, makers: list[ir.Operation]) -> str:
    kind = str(op.attributes["computeType"].value)
    if kind not in _VALUES:
        return f"computes with type {kind}: allowed are {', '.join(_VALUES)}"
    dense = [maker for maker in makers if maker.name == _DENSE]
    if any(_dimensions(maker) != _PRODUCTS[op.name] for maker in dense):
        return f"needs dense tensors of {_PRODUCTS[op.name]} dimensions"
    structured = any(maker.name == _STRUCTURED for maker in makers)
    if structured and not op.name.startswith("gpu.spmm"):
        return "does not support 2:4 matrices"
    if op.name.startswith("gpu.spmm"):
        buffers = [v for v in (*op.operands, *op.results) if isinstance(v.type, ir.MemRefType | ir.IndexType)]
        if len(buffers) != (3 if structured else 1):
            return f"needs {3 if structured else 1} buffers for this matrix, not {len(buffers)}"
    if structured and any(_is_shared(maker) for maker in dense):
        return "uses a dense tensor that other matrices use, too: create one for the 2:4 matrix alone"
    return ""


def _is_shared(dense: ir.Operation) -> bool:
    """Return whether a product with another matrix than a 2:4 one uses the tensor."""
    products = [use.owner.operation for use in dense.results[0].uses]
    return any(
        op.name in _PRODUCTS and all(_maker(value) != _STRUCTURED for value in op.operands) for op in products
    )


def _maker(value: ir.Value) -> str:
    return "" if isinstance(value.owner, ir.Block) else str(value.owner.operation.name)


def _dimensions(op: ir.Operation) -> int:
    return sum(isinstance(value.type, ir.IndexType) for value in op.operands)


def _is_contiguous(kind: ir.MemRefType) -> bool:
    return is_contiguous(kind) or (strides_and_offset(kind) or ([], 0))[0] == [1]


def _based_at_start(emit: Emitter, memref: ir.Value) -> ir.Value:
    """Return a memref whose allocated and aligned pointers are the address of the first element."""
    element = memref.type.element_type
    address, _ = memory.described(emit, memref, element_bytes(element) or 0)
    number = emit.value("arith.index_cast", [address], ir.IntegerType.get_signless(64))
    pointer = emit.value("llvm.inttoptr", [number], ir.Type.parse("!llvm.ptr"))
    descriptor = ir.Type.parse("!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>")
    value = emit.value("llvm.mlir.poison", [], descriptor)
    for position in (0, 1):
        at = {"position": ir.DenseI64ArrayAttr.get([position])}
        value = emit.value("llvm.insertvalue", [value, pointer], descriptor, at)
    return emit.cast(value, ir.MemRefType.get([ir.ShapedType.get_dynamic_size()], element))
