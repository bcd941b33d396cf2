"""Check range: between which two numbers an index lies, and what is known where an access is."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.check_numbers import Number, Truth


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """``low`` to ``high``, both included, if all of ``given`` holds; both below ``2**bits`` in size."""

    low: Number
    high: Number
    bits: int
    given: tuple[Truth, ...] = ()


@dataclass(slots=True, kw_only=True)
class Facts:
    """What is known of values where an access is, from the conditions around it.

    ``ordered`` are pairs of which the second is at least so much more than the first, if all of what comes
    with that holds.
    """

    known: dict[ir.Value, Range] = field(default_factory=dict)
    ordered: dict[tuple[ir.Value, ir.Value], tuple[int, tuple[Truth, ...]]] = field(default_factory=dict)
    memo: dict[ir.Value, Range | None] = field(default_factory=dict)


def constant(value: int) -> Range:
    """A range of one number."""
    return Range(low=value, high=value, bits=value.bit_length())


def constant_of(value: ir.Value) -> int | None:
    """The number that an ``arith.constant`` gives, if ``value`` is one."""
    if isinstance(value.owner, ir.Block) or value.owner.operation.name != "arith.constant":
        return None
    attribute = value.owner.operation.attributes["value"]
    return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None


def axis_of(op: ir.Operation) -> str:
    """``x``, ``y`` or ``z`` of an op that names a dimension."""
    return str(op.attributes["dimension"]).removeprefix("#gpu<dim ")[0]


def is_index(value: ir.Value) -> bool:
    """Whether it is of type index."""
    return isinstance(value.type, ir.IndexType)
