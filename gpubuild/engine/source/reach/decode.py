"""Decode: the nodes of a gpu.module, made of its operations when a walk comes to them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import GROUP_IDS, is_pure
from gpubuild.engine.source.reach import affine, integers, sites
from gpubuild.engine.source.reach.nodes import (
    Assertion,
    Block,
    Computed,
    Definition,
    End,
    Frame,
    Identity,
    Known,
    Meet,
    Region,
    Result,
    Selected,
    Step,
    Stop,
)
from gpubuild.engine.source.reach.values import OWN, Symbol, Value

# Who asks, by what; of vendors' dialects the names end with the axis.
_IDENTITIES = {
    "gpu.thread_id": "thread", "gpu.global_id": "global", "gpu.block_id": "block",
    "gpu.block_dim": "block_dim", "gpu.grid_dim": "grid_dim", "gpu.lane_id": "lane",
    "gpu.subgroup_id": "subgroup", "gpu.num_subgroups": "subgroups", "gpu.subgroup_size": "subgroup_size",
    "nvvm.read.ptx.sreg.tid": "thread", "nvvm.read.ptx.sreg.ctaid": "block",
    "nvvm.read.ptx.sreg.ntid": "block_dim", "nvvm.read.ptx.sreg.nctaid": "grid_dim",
    "nvvm.read.ptx.sreg.laneid": "lane", "nvvm.read.ptx.sreg.warpsize": "subgroup_size",
    "rocdl.workitem.id": "thread", "rocdl.workgroup.id": "block",
}  # fmt: skip
_AXES = ("x", "y", "z")
_LEAVES = frozenset(
    {
        *("gpu.return", "func.return", "llvm.return", "gpu.yield", "scf.yield", "scf.condition"),
        *("scf.reduce", "affine.yield"),
    }
)
_JUMPS = frozenset({"cf.br", "llvm.br"})
_BRANCHES = frozenset({"cf.cond_br", "llvm.cond_br"})
_SWITCHES = frozenset({"cf.switch", "llvm.switch"})
_CONDITIONS = (ir.IndexType, ir.IntegerType, ir.MemRefType)  # which conditions are made of


class Code:
    """The functions of a gpu.module by name, and which operations of them are sites or hold some.

    Values are told by slots, which are numbers.
    """

    def __init__(self, functions: Mapping[str, ir.Operation], meets: Collection[ir.Operation]) -> None:
        self._functions = functions
        self._meets = meets
        self._slots: dict[ir.Value, int] = {}
        self._definitions: dict[int, Definition] = {}
        self._blocks: dict[ir.Block, Block] = {}
        self._never = -1
        self.values: list[ir.Value] = []
        self.symbols: dict[tuple[Value, ...], Symbol] = {}

    def numbers(self) -> set[int]:
        """The numbers that have been met so far."""
        known = (d.value for d in self._definitions.values() if isinstance(d, Known))
        return {value for value in known if isinstance(value, int)}

    def slot(self, value: ir.Value) -> int:
        """The slot of ``value``."""
        found = self._slots.get(value)
        if found is None:
            found = self._slots[value] = len(self.values)
            self.values.append(value)
        return found

    def definition(self, slot: int) -> Definition:
        """Where the value in ``slot`` comes from."""
        found = self._definitions.get(slot)
        if found is None:
            found = self._definitions[slot] = self._define(slot)
        return found

    def region(self, region: ir.Region) -> Region:
        """A region that has blocks."""
        blocks = list(region.blocks)
        holder = blocks[0].owner.operation
        return Region(entry=partial(self._block, blocks[0]), meets=holder in self._meets)

    def _define(self, slot: int) -> Definition:
        value = self.values[slot]
        owner = value.owner
        if isinstance(owner, ir.Block):
            return Known(value=OWN)
        op = owner.operation
        if (number := integers.constant(op)) is not None:
            return Known(value=number)
        self._shell(op.block).slots.append(slot)
        if (identity := self._identity(op, slot)) is not None:
            return identity
        if op.name in {"arith.select", "llvm.select"} and isinstance(op.operands[0].type, ir.IntegerType):
            condition, yes, no = (self.slot(operand) for operand in op.operands)
            return Selected(number=slot, condition=condition, yes=yes, no=no)
        if len(op.regions) or op.name in sites.CALLS:
            step = self._step(op)
            return Known(value=OWN) if step is None else Result(step=step, slot=slot)
        if op.name == "memref.dim" and (size := _static_size(op)) is not None:
            return Known(value=size)
        fold = integers.fold_of(op) or affine.fold_of(op)
        if op.name != "ub.poison" and (fold is not None or is_pure(op)):
            return Computed(
                number=slot,
                operands=tuple(self.slot(operand) for operand in op.operands),
                fold=fold,
                absorbs=integers.absorbs(op),
            )
        return Known(value=OWN)

    def _identity(self, op: ir.Operation, slot: int) -> Definition | None:
        stem, _, axis = op.name.rpartition(".")
        what = _IDENTITIES.get(op.name) or (_IDENTITIES.get(stem) if axis in _AXES else None)
        if what is None:
            # Of these it is known only that they are the same for a workgroup.
            return (
                Computed(number=slot, operands=(), fold=None, absorbs=None) if op.name in GROUP_IDS else None
            )
        if "dimension" in op.attributes:
            axis = str(op.attributes["dimension"]).rpartition(" ")[2].rstrip(">")
        place = _AXES.index(axis) if axis in _AXES else 0
        mask = (1 << integers.bits(op.results[0].type)) - 1
        return Identity(what=what, axis=place, mask=mask, number=slot)

    def _shell(self, block: ir.Block) -> Block:
        """The block without what is done in it."""
        found = self._blocks.get(block)
        if found is None:
            found = Block(arguments=tuple(self.slot(a) for a in block.arguments))
            self._blocks[block] = found
        return found

    def _block(self, block: ir.Block) -> Block:
        found = self._shell(block)
        if found.end is None and not found.steps:
            operations = [op.operation for op in block.operations]
            steps = [step for op in operations if (step := self._of_note(op)) is not None]
            found.end = self._end(operations[-1])
            # A block of which nobody knows the end must not be decoded again and again.
            found.steps = steps if found.end is not None else [*steps, Stop()]
        return found

    def _of_note(self, op: ir.Operation) -> Step | None:
        """The step that ``op`` is, unless it only computes something."""
        name = op.name
        if sites.is_site(op):
            width = sites.width_of(op)
            slot = self.slot(width) if isinstance(width, ir.Value) else -1
            number = width if isinstance(width, int) else None
            # Its results, if somebody asks, are nobody's business here.
            return Meet(op=op, number=self.number(), width=number, width_slot=slot)
        if op in self._meets:
            return self._step(op) or Stop()
        if name == "cf.assert":
            return Assertion(condition=self.slot(op.operands[0]))
        return Stop() if sites.ends_walks(op, self._functions) else None

    def number(self) -> int:
        """A number for an operation: not that of a slot."""
        self._never -= 1
        return self._never

    def _step(self, op: ir.Operation) -> Step | None:
        """What an operation with regions or a call does; ``None`` where that is not known."""
        from gpubuild.engine.source.reach.forms import STEPS  # which makes regions of what is in them

        make = STEPS.get(op.name)
        return None if make is None else make(self, op)

    def frame(self, op: ir.Operation) -> Frame:
        """What all operations with regions have."""
        results = tuple(self.slot(result) for result in op.results)
        self._shell(op.block).slots.extend(results)
        return Frame(op=op, number=self.number(), results=results, meets=op in self._meets)

    def function(self, name: str) -> ir.Operation | None:
        """A function of the module that has a body."""
        return self._functions.get(name)

    def _end(self, op: ir.Operation) -> End | None:
        if op.name in _LEAVES:
            return End(op=op, operands=tuple(self.handed(operand) for operand in op.operands))
        blocks = list(op.successors)
        if op.name in _JUMPS:
            targets = [(blocks[0], list(op.operands))]
            return End(op=op, targets=self._targets(targets))
        if op.name in _BRANCHES:
            operands = list(op.operands)
            first = list(op.attributes["operandSegmentSizes"])[1]
            targets = [(blocks[0], operands[1 : 1 + first]), (blocks[1], operands[1 + first :])]
            return End(
                op=op,
                selector=self.slot(operands[0]),
                cases={1: 0},
                default=1,
                targets=self._targets(targets),
            )
        if op.name in _SWITCHES:
            return self._switch(op, blocks)
        return None

    def _switch(self, op: ir.Operation, blocks: list[ir.Block]) -> End:
        operands = list(op.operands)
        after = 1 + list(op.attributes["operandSegmentSizes"])[1]
        targets = [(blocks[0], operands[1:after])]
        for block, size in zip(blocks[1:], list(op.attributes["case_operand_segments"]), strict=True):
            targets.append((block, operands[after : after + size]))
            after += size
        cases = {}
        if "case_values" in op.attributes:
            mask = (1 << integers.bits(operands[0].type)) - 1
            given = ir.DenseIntElementsAttr(op.attributes["case_values"])
            cases = {int(value) & mask: way + 1 for way, value in enumerate(given)}
        return End(op=op, selector=self.slot(operands[0]), cases=cases, targets=self._targets(targets))

    def _targets(
        self, targets: list[tuple[ir.Block, list[ir.Value]]]
    ) -> tuple[tuple[Callable[[], Block], tuple[int, ...]], ...]:
        return tuple(
            (partial(self._block, block), tuple(self.handed(v) for v in values)) for block, values in targets
        )

    def handed(self, value: ir.Value) -> int:
        """The slot of a value that is handed on; of what no condition is made of, that of nothing known."""
        if isinstance(value.type, _CONDITIONS):
            return self.slot(value)
        slot = self.slot(value)
        self._definitions.setdefault(slot, Known(value=OWN))
        return slot


def _static_size(op: ir.Operation) -> int | None:
    kind, owner = op.operands[0].type, op.operands[1].owner
    if not isinstance(kind, ir.MemRefType) or isinstance(owner, ir.Block):
        return None
    place = integers.constant(owner.operation)
    shaped = ir.MemRefType(kind)
    if place is None or place >= shaped.rank or shaped.is_dynamic_dim(place):
        return None
    return int(shaped.get_dim_size(place))
