"""Transform schedules: what a file says about its own lowering, done with once its passes have run."""

from __future__ import annotations

from mlir import ir

_MARK = "transform.with_named_sequence"


def drop(module: ir.Module) -> None:
    """Erase transform sequences at the top of a file and modules that hold nothing but such.

    Upstream's tests use a pass for it that no release has. For files whose `source` passes have run;
    without passes a schedule stays, since leaving it out would leave out what the user asked for.
    """
    for op in list(module.body):
        inner = op.operation
        if inner.name.startswith("transform.") or (
            inner.name == "builtin.module" and _MARK in inner.attributes and _only_sequences(inner)
        ):
            inner.erase()
    if _MARK in module.operation.attributes:
        del module.operation.attributes[_MARK]


def _only_sequences(module: ir.Operation) -> bool:
    return all(op.operation.name.startswith("transform.") for op in module.regions[0].blocks[0])
