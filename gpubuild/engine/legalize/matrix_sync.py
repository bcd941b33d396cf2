"""Matrix order: where the lanes of a subgroup must wait for each other around matrix accesses.

On a GPU a whole subgroup loads or stores a matrix at once. Here each lane has its own part, and comes
to it in its own time: a lane that stores must not overtake one that still loads what was there.
The points to wait at are the matrix ops themselves, which all lanes reach together; other code may
be divergent. None is needed where a barrier lies between two accesses, nor between two loads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.ir.query import NO_ACCESS

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
    """The matrix ops that all lanes must have reached before any goes on to, or beyond, them."""

    before: set[ir.Operation] = field(default_factory=set)
    after: set[ir.Operation] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.before) + len(self.after)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Accesses since the lanes last met: matrix ops, and whether others read or wrote."""

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
    """Where the lanes that run ``function`` must wait. Who calls a function may have touched memory."""
    is_kernel = "gpu.kernel" in function.attributes
    entering = _Pending() if is_kernel else _Pending(read=True, written=True)
    waits = Waits()
    before = -1
    while before != len(waits):  # a wait more can only take pending accesses away
        before = len(waits)
        _Walk(waits).region(function.regions[0], entering)
    return waits


class _Walk:
    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def region(self, region: ir.Region, entering: _Pending) -> _Pending:
        """What may be pending at the end."""
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
        if op.name == LOAD:
            if state.stores or state.written:
                self._waits.before.add(op)
            if op in self._waits.before:
                state = _Pending()
            state = state.join(_Pending(loads=frozenset({op})))
            return _Pending() if op in self._waits.after else state
        if op.name == STORE:
            if state != _Pending():
                self._waits.before.add(op)
            if op in self._waits.before:
                state = _Pending()
            state = state.join(_Pending(stores=frozenset({op})))
            return _Pending() if op in self._waits.after else state
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
        return True  # ids, returns; exchanges move registers only
    return dialect in _NO_MEMORY_DIALECTS and op.name not in _TOUCHING_AFFINE
