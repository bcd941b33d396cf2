"""Matrices: ``gpu.subgroup_mma_*`` for targets without matrix units, as vector code of each lane.

Every value of type ``!gpu.mma_matrix`` becomes a vector, the fragment of matrix_fragments that its
lane holds, so that loops, branches and calls carry it like any other. What a lane does on its
fragments needs no other lane; only accesses to memory must keep their order (engine.legalize.matrix_sync).
The same code serves CPUs, NVIDIA chips before sm_70 and AMD chips; only how lanes wait differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import enclosing
from gpubuild.engine.legalize.matrix_fragments import Fragment, MatrixType, Tiles
from gpubuild.engine.legalize.matrix_ops import EXPANSIONS, FUNCTIONS, MatrixOp
from gpubuild.engine.legalize.matrix_sync import LOAD, STORE, find_waits
from gpubuild.engine.legalize.state import Legalization
from gpubuild.engine.legalize.subgroup_shuffle import last_word
from gpubuild.engine.legalize.unsupported_ops import cannot_compile

_PREFIX = "gpu.subgroup_mma_"
_COMPUTE = _PREFIX + "compute"
_FUNCTIONS = frozenset({"gpu.func", "func.func"})
_WAIT = "nvvm.bar.warp.sync"
_WAITS_FOR = "gpubuild.for"  # read by engine.backends.cpu.fission.fission, for its messages


def wait_by_name(emit: Emitter, op: ir.Operation) -> None:
    """Let all lanes wait that can be named: the form of NVIDIA GPUs, which the CPU takes as well."""
    attributes = {_WAITS_FOR: ir.StringAttr.get(op.name)}
    emit.op(_WAIT, [emit.constant(-1, ir.IntegerType.get_signless(32))], [], attributes)


Wait = Callable[[Emitter, ir.Operation], None]  # makes lanes wait for each other, on behalf of an op


def expand_matrices(module: ir.Module, state: Legalization, *, wait: Wait = wait_by_name) -> None:
    """Rewrite all matrix code of ``module``. ``wait`` makes the lanes of a subgroup wait for each other.

    Raises ``StepError`` with a location for each op that cannot be done.
    """
    found = _collect(module.operation)
    if not found.ops:
        return
    lanes = state.capabilities.subgroup_size
    fragments = _Fragments(lanes)
    refused = fragments.learn(found.ops)
    refused += [(op, reason) for op in found.ops if (reason := _refusal(op))]
    refused += [(f, reason) for f in found.functions if (reason := _size_refusal(f, lanes))]
    if refused:
        raise cannot_compile(refused, state, instead="rewrite")
    work = [
        MatrixOp(
            lanes=lanes,
            op=op,
            operands=tuple(f for value in op.operands if (f := fragments.of(value.type))),
            results=tuple(f for value in op.results if (f := fragments.of(value.type))),
        )
        for op in found.ops
    ]
    for function in found.functions:
        waits = find_waits(function)
        for op in waits.before:
            wait(Emitter(op), op)
        for op in waits.after:
            wait(_behind(op), op)
        _check_size(function, lanes)
    for value in found.values:
        fragment = fragments.of(value.type)
        if fragment is not None:
            value.set_type(fragment.vector)
    for function in found.signatures:
        _retype(function, fragments)
    for item in work:
        EXPANSIONS[item.op.name](item)


@dataclass(slots=True, kw_only=True)
class _Found:
    ops: list[ir.Operation] = field(default_factory=list)
    values: list[ir.Value] = field(default_factory=list)  # of matrix type, other than results of ``ops``
    functions: list[ir.Operation] = field(default_factory=list)  # with ``ops`` in them
    signatures: list[ir.Operation] = field(default_factory=list)  # that take or give matrices


def _collect(module: ir.Operation) -> _Found:
    found = _Found()

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(_PREFIX):
            found.ops.append(op)
            function = enclosing(op, _FUNCTIONS)
            if function is not None and function not in found.functions:
                found.functions.append(function)
        else:
            found.values += [r for r in op.results if MatrixType.of(r.type)]
        for region in op.regions:
            for block in region.blocks:
                found.values += [a for a in block.arguments if MatrixType.of(a.type)]
        if op.name in _FUNCTIONS and "mma_matrix" in str(op.attributes["function_type"]):
            found.signatures.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return found


class _Fragments:
    """The fragment of each matrix type; a module multiplies a type of operand to one shape only."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._tiles: dict[MatrixType, Tiles] = {}

    def learn(self, ops: list[ir.Operation]) -> list[tuple[ir.Operation, str]]:
        """Take the tiles from the multiplications; gives back those that do not go together."""
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

    def of(self, kind: ir.Type) -> Fragment | None:
        """What a lane holds of a matrix of type ``kind``; ``None`` for other types."""
        matrix = MatrixType.of(kind)
        if matrix is None:
            return None
        if matrix not in self._tiles:
            rows = 1 if matrix.role == "B" else matrix.rows
            columns = 1 if matrix.role == "A" else matrix.columns
            self._tiles[matrix] = Tiles.cut(rows, columns, self._lanes)
        return Fragment.of(matrix, self._tiles[matrix])


def _refusal(op: ir.Operation) -> str:
    if op.name not in EXPANSIONS:
        return f"'{op.name}' is not supported without matrix units"
    if op.name in (LOAD, STORE):
        matrix = MatrixType.of(op.results[0].type if op.name == LOAD else op.operands[0].type)
        memory = ir.MemRefType(op.operands[0 if op.name == LOAD else 1].type)
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
    items = _known_items(function)
    if items % lanes == 0:
        return ""
    return (
        f"a workgroup of {items} work-items has no whole subgroups of {lanes}, which matrix operations need"
    )


def _known_items(function: ir.Operation) -> int:
    """Work-items in a workgroup that runs ``function``; 0 when unknown."""
    for name in ("known_block_size", "gpu.known_block_size"):
        if name in function.attributes:
            items = 1
            for extent in ir.DenseI32ArrayAttr(function.attributes[name]):
                items *= extent
            return items
    return 0


def _check_size(function: ir.Operation, lanes: int) -> None:
    """Stop a launch with a subgroup that lacks lanes: their parts of the results would be missing."""
    if _known_items(function):
        return
    emit = Emitter(function.regions[0].blocks[0].operations[0].operation)
    sizes = [emit.dimension("block_dim", axis) for axis in "xyz"]
    items = emit.binary("arith.muli", emit.binary("arith.muli", sizes[0], sizes[1]), sizes[2])
    left = emit.binary("arith.remui", items, emit.constant(lanes))
    equal = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}
    i1 = ir.IntegerType.get_signless(1)
    whole = emit.op("arith.cmpi", [left, emit.constant(0)], [i1], equal).results[0]
    message = f"matrix operations need workgroups of whole subgroups: a multiple of {lanes} work-items"
    emit.op("cf.assert", [whole], [], {"msg": ir.StringAttr.get(message)})


def _behind(op: ir.Operation) -> Emitter:
    """An emitter right behind ``op``, which is no terminator."""
    block = op.block
    ops = [other.operation for other in block.operations]
    return Emitter(ops[ops.index(op) + 1])


def _retype(function: ir.Operation, fragments: _Fragments) -> None:
    kind = ir.FunctionType(function.attributes["function_type"].value)

    def changed(kinds: list[ir.Type]) -> list[ir.Type]:
        return [f.vector if (f := fragments.of(k)) else k for k in kinds]

    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get(changed(kind.inputs), changed(kind.results))
    )


EXPAND: Pass[Legalization] = Pass(name="expand-matrices", run=expand_matrices)
