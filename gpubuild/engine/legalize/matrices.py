"""``gpu.subgroup_mma_*`` as vector code of each lane, with a back end's matrix units or without any.

Each value of type ``!gpu.mma_matrix`` becomes a vector, the fragment of the matrix that its lane has
(``matrix_ops``), which loops, branches and calls carry like any other. Computing on fragments needs no
other lane. Accesses to memory must keep their order: on a GPU a subgroup loads or stores a matrix at once,
here a lane that stores must not overtake one that still loads. The lanes wait at matrix ops, which
all of them reach together; other code may be divergent. No wait is needed where a barrier is between two
accesses, nor between two loads. Targets differ in how lanes wait, and in the units that they have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import NO_ACCESS, following, is_kernel, operations, symbol_name
from gpubuild.engine.legalize import matrix_ops
from gpubuild.engine.legalize.matrix_ops import (
    EXPANSIONS,
    FUNCTIONS,
    Fragment,
    MatrixOp,
    MatrixType,
    TileFragment,
    Tiles,
)
from gpubuild.engine.legalize.state import Legalization
from gpubuild.engine.legalize.subgroup_shuffle import last_word
from gpubuild.engine.legalize.unsupported_ops import cannot_compile
from gpubuild.engine.legalize.workgroup import known_size, workgroup_size

LOAD, STORE = "gpu.subgroup_mma_load_matrix", "gpu.subgroup_mma_store_matrix"
_BARRIERS = frozenset({"gpu.barrier", "gpu.all_reduce"})
_READS = frozenset(
    {
        "memref.load",
        "vector.load",
        "vector.transfer_read",
        "vector.maskedload",
        "vector.gather",
        "affine.load",
    }
)
_NO_MEMORY_DIALECTS = frozenset({"arith", "math", "index", "complex", "ub", "scf", "affine", "cf"})
_NO_MEMORY = NO_ACCESS | {"memref.alloca", "gpu.printf", "vector.yield"}
_ONCE = frozenset({"gpu.func", "func.func", "scf.if", "scf.index_switch", "scf.execute_region", "affine.if"})
_TOUCHING_AFFINE = frozenset({"affine.load", "affine.store", "affine.vector_load", "affine.vector_store"})


@dataclass(slots=True, kw_only=True)
class Waits:
    """The matrix ops that all lanes wait before, and those that they wait after."""

    before: set[ir.Operation] = field(default_factory=set)
    after: set[ir.Operation] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.before) + len(self.after)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Accesses since the last wait: matrix ops, and whether other code read or wrote."""

    loads: frozenset[ir.Operation] = frozenset()
    stores: frozenset[ir.Operation] = frozenset()
    read: bool = False
    written: bool = False

    def join(self, other: _Pending) -> _Pending:
        return _Pending(
            self.loads | other.loads,
            self.stores | other.stores,
            self.read or other.read,
            self.written or other.written,
        )


def find_waits(function: ir.Operation) -> Waits:
    """Return where the lanes that run ``function`` must wait. Its caller may have accessed memory."""
    entering = _Pending() if is_kernel(function) else _Pending(read=True, written=True)
    waits = Waits()
    before = -1
    while before != len(waits):  # another wait can only remove pending accesses
        before = len(waits)
        _Walk(waits).region(function.regions[0], entering)
    return waits


class _Walk:
    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def region(self, region: ir.Region, entering: _Pending) -> _Pending:
        """Return the accesses that may be pending at the end."""
        if region.owner.name in _ONCE and len(region.blocks) == 1:
            return self._block(region.blocks[0], entering)
        state, before = entering, None
        while state != before:
            before = state
            for block in region.blocks:
                state = state.join(self._block(block, state))  # it may run after any other, and after itself
        return state if len(region.blocks) != 1 else self._block(region.blocks[0], state)

    def _block(self, block: ir.Block, state: _Pending) -> _Pending:
        for op in block.operations:
            state = self._op(op.operation, state)
        return state

    def _op(self, op: ir.Operation, state: _Pending) -> _Pending:
        if op.name in _BARRIERS:
            return _Pending()
        if op.name in (LOAD, STORE):
            own = frozenset({op})
            access = _Pending(loads=own) if op.name == LOAD else _Pending(stores=own)
            if (state.stores or state.written) if op.name == LOAD else state != _Pending():
                self._waits.before.add(op)
            if op in self._waits.before:
                state = _Pending()
            return _Pending() if op in self._waits.after else state.join(access)
        if op.name.startswith("gpu.subgroup_mma_"):
            return state
        if len(op.regions):
            inside = [self.region(region, state) for region in op.regions if len(region.blocks)]
            for other in inside:
                state = state.join(other)
            return state
        if op.name in _READS:
            self._waits.after |= state.stores
            return state.join(_Pending(read=True))
        if _is_free_of_memory(op):
            return state
        self._waits.after |= state.stores | state.loads
        return state.join(_Pending(read=True, written=True))


def _is_free_of_memory(op: ir.Operation) -> bool:
    if op.name in _NO_MEMORY:
        return True
    dialect = op.name.partition(".")[0]
    if dialect == "gpu":
        return True  # ids, returns, and shuffles, which move registers only
    return dialect in _NO_MEMORY_DIALECTS and op.name not in _TOUCHING_AFFINE


_PREFIX = "gpu.subgroup_mma_"
_COMPUTE = _PREFIX + "compute"
_FUNCTIONS = frozenset({"gpu.func", "func.func"})
_WAIT = "nvvm.bar.warp.sync"
_WAITS_FOR = "gpubuild.for"  # read by engine.backends.cpu.fission.fission, for its messages


def wait_by_name(emit: Emitter, op: ir.Operation) -> None:
    """Let all lanes of a mask wait: the form of NVIDIA GPUs, which the CPU back end lowers as well."""
    attributes = {_WAITS_FOR: ir.StringAttr.get(op.name)}
    emit.op(_WAIT, [emit.constant(-1, ir.IntegerType.get_signless(32))], [], attributes)


Wait = Callable[[Emitter, ir.Operation], None]  # makes lanes wait for each other before the anchor, for an op


class Layout(Protocol):
    """Which elements of matrices a lane has, and how lanes multiply them."""

    def fragment(self, matrix: MatrixType) -> Fragment:
        """Return the part of ``matrix`` that a lane has."""

    def compute(self, work: MatrixOp) -> None:
        """Expand ``gpu.subgroup_mma_compute``."""


class MatrixUnits(Layout, Protocol):
    """The matrix units of ``chip``."""

    @property
    def chip(self) -> str:
        """Its name, for messages."""

    def lack(self, op: ir.Operation) -> str:
        """Return what the units cannot do of ``op``, in words; empty if they can do all."""


def expand_matrices(
    module: ir.Module, state: Legalization, *, wait: Wait = wait_by_name, units: MatrixUnits | None = None
) -> None:
    """Rewrite all matrix code of ``module``. ``wait`` makes the lanes of a subgroup wait for each other.

    Functions of which ``units`` can do all matrix code use them.

    Raises ``StepError`` with a location for each op that is not supported.
    """
    if state.source.text and "mma_matrix" not in state.source.text:  # without a walk
        return
    functions = _collect(module.operation)
    lanes = state.capabilities.subgroup_size
    with_units = _with_units(functions, units, state) if units else []
    tiled = _Tiled(lanes)
    refused = tiled.learn([op for function in functions if function not in with_units for op in function.ops])
    refused += [(op, reason) for f in functions for op in f.ops if (reason := _refusal(op))]
    refused += [(f.op, reason) for f in functions if f.ops and (reason := _size_refusal(f.op, lanes))]
    if refused:
        raise cannot_compile(refused, state, instead="rewrite")
    for function in functions:
        _expand(function, units if units and function in with_units else tiled, lanes, wait)


@dataclass(slots=True, kw_only=True, eq=False)
class _Function:
    """A function with matrices."""

    op: ir.Operation
    ops: list[ir.Operation]  # gpu.subgroup_mma_*
    values: list[ir.Value]  # of matrix type, other than results of ``ops``
    signature: bool  # has matrices in its type
    calls: bool  # functions with matrices in their types


def _collect(module: ir.Operation) -> list[_Function]:
    """Return the functions with matrices; none if there is no op on them."""
    functions = [_matrices_of(op) for op in operations(module, _FUNCTIONS)]
    found = [f for f in functions if f.ops or f.values or f.signature]
    return found if any(f.ops for f in found) else []


def _matrices_of(function: ir.Operation) -> _Function:
    signature = "mma_matrix" in str(function.attributes["function_type"])
    found = _Function(op=function, ops=[], values=[], signature=signature, calls=False)

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(_PREFIX):
            found.ops.append(op)
        else:
            found.values += [r for r in op.results if MatrixType.of(r.type)]
            if "callee" in op.attributes:
                found.calls |= any(MatrixType.of(v.type) for v in (*op.operands, *op.results))
        for region in op.regions:
            for block in region.blocks:
                found.values += [a for a in block.arguments if MatrixType.of(a.type)]
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _with_units(functions: list[_Function], units: MatrixUnits, state: Legalization) -> list[_Function]:
    """Return the functions with multiplications and with nothing that ``units`` lack; warn of the lacks.

    Functions that pass matrices to each other agree on their layout.
    """
    linked = [f for f in functions if f.signature or f.calls]
    chosen: list[_Function] = []
    for group in (linked, *([f] for f in functions if f not in linked)):
        ops = [op for function in group for op in function.ops]
        if not any(op.name == _COMPUTE for op in ops):
            continue
        lacks = [f"'{op.name}' {lack}" for op in ops if (lack := units.lack(op))]
        if not lacks:
            chosen += group
            continue
        names = ", ".join(f"@{symbol_name(function.op)}" for function in group)
        state.warnings.append(
            f"the matrix units of {units.chip} cannot do {lacks[0]}: the matrix operations of {names} are "
            "compiled without them"
        )
    return chosen


def _expand(function: _Function, layout: Layout, lanes: int, wait: Wait) -> None:
    def fragment(kind: ir.Type) -> Fragment | None:
        matrix = MatrixType.of(kind)
        return layout.fragment(matrix) if matrix else None

    work = [
        MatrixOp(
            lanes=lanes,
            op=op,
            operands=tuple(f for value in op.operands if (f := fragment(value.type))),
            results=tuple(f for value in op.results if (f := fragment(value.type))),
        )
        for op in function.ops
    ]
    if work:
        waits = find_waits(function.op)
        for op in waits.before:
            wait(Emitter(op), op)
        for op in waits.after:
            wait(Emitter(following(op)), op)
        _check_size(function.op, lanes)
    for value in function.values:
        if part := fragment(value.type):
            value.set_type(part.vector)
    if function.signature:
        _retype(function.op, fragment)
    for item in work:
        (layout.compute if item.op.name == _COMPUTE else EXPANSIONS[item.op.name])(item)


class _Tiled:
    """The layout without units: a type is multiplied to results of one shape only in a module."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._tiles: dict[MatrixType, Tiles] = {}

    def learn(self, ops: list[ir.Operation]) -> list[tuple[ir.Operation, str]]:
        """Derive tiles from the multiplications; return those that contradict each other, with a reason."""
        refused = []
        for op in ops:
            if op.name != _COMPUTE:
                continue
            kinds = [MatrixType.of(value.type) for value in op.operands]
            left, right, result = (kind for kind in kinds if kind is not None)
            tiles = Tiles.cut(result.rows, result.columns, self._lanes)
            for kind in (left, right, result):
                if self._tiles.setdefault(kind, tiles) != tiles:
                    reason = (
                        f"'{op.name}' multiplies {kind.rows}x{kind.columns} operands to "
                        f"{result.rows}x{result.columns}, and others of this type to another shape"
                    )
                    refused.append((op, reason))
        return refused

    def fragment(self, matrix: MatrixType) -> Fragment:
        """Return the part of ``matrix`` that a lane has."""
        if matrix not in self._tiles:
            rows = 1 if matrix.role == "B" else matrix.rows
            columns = 1 if matrix.role == "A" else matrix.columns
            self._tiles[matrix] = Tiles.cut(rows, columns, self._lanes)
        return TileFragment.of(matrix, self._tiles[matrix])

    def compute(self, work: MatrixOp) -> None:
        """Expand ``gpu.subgroup_mma_compute``."""
        matrix_ops.compute(work)


def _refusal(op: ir.Operation) -> str:
    if op.name not in EXPANSIONS:
        return f"'{op.name}' is not supported without matrix units"
    if op.name in (LOAD, STORE):
        matrix = MatrixType.of(op.results[0].type if op.name == LOAD else op.operands[0].type)
        memory = op.operands[0 if op.name == LOAD else 1].type
        if matrix is not None and memory.element_type != matrix.scalar:
            return f"'{op.name}' of {matrix.element} elements in memory of {memory.element_type} elements"
    if op.name == _PREFIX + "elementwise" and (name := last_word(op.attributes["opType"])) not in FUNCTIONS:
        return f"'{op.name} {name}' is not supported"
    if op.name == _COMPUTE:
        for number, flag in enumerate(("a_transpose", "b_transpose")):
            owner = op.operands[number].owner
            loaded = not isinstance(owner, ir.Block) and owner.operation.name == LOAD
            if flag in op.attributes and loaded and "transpose" not in owner.operation.attributes:
                return f"'{op.name}' says {flag} of a matrix that was loaded without `transpose`"
    return ""


def _size_refusal(function: ir.Operation, lanes: int) -> str:
    items = known_size(function)
    if items % lanes == 0:
        return ""
    return (
        f"a workgroup of {items} work-items has no whole subgroups of {lanes}, which matrix operations need"
    )


def _check_size(function: ir.Operation, lanes: int) -> None:
    """Assert that a launch fills its subgroups: parts of the results would be missing."""
    if known_size(function):
        return
    emit = Emitter(function.regions[0].blocks[0].operations[0].operation)
    left = emit.binary("arith.remui", workgroup_size(emit), emit.constant(lanes))
    whole = emit.compare(Compare.EQ, left, emit.constant(0))
    message = f"matrix operations need workgroups of whole subgroups: a multiple of {lanes} work-items"
    emit.op("cf.assert", [whole], [], {"msg": ir.StringAttr.get(message)})


def _retype(function: ir.Operation, fragment: Callable[[ir.Type], Fragment | None]) -> None:
    kind = function.attributes["function_type"].value

    def changed(kinds: list[ir.Type]) -> list[ir.Type]:
        return [f.vector if (f := fragment(k)) else k for k in kinds]

    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(changed(kind.inputs), changed(kind.results))
    )


EXPAND: Pass[Legalization] = Pass(name="expand-matrices", run=expand_matrices)
