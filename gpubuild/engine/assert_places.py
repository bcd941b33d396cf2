"""Assert places: where each ``cf.assert`` stands in the user's file, kept in canonical text.

That text has no locations, so that an edit elsewhere in the file changes no key. What a failed
assertion prints must have one, and so must be in the key: the place is an attribute of the op. A
module with assertions is compiled anew when they move to other lines.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.diagnostics import UNNAMED_BUFFER, file_position
from gpubuild.engine.emit import Emitter

_ASSERT = "cf.assert"
_PLACE = "gpubuild.place"
_TEXT = re.compile(r"(.+):(\d+):(\d+)", re.DOTALL)


def keep_places(module: ir.Operation) -> None:
    """Write the place of each assertion that has one into an attribute of it."""
    for op in _assertions(module):
        found = file_position(op.location)
        if found is not None and found[0] != UNNAMED_BUFFER:
            file, line, column = found
            op.attributes[_PLACE] = ir.StringAttr.get(f"{file}:{line}:{column}")


def restore_places(module: ir.Operation) -> None:
    """Give each assertion the location that its attribute says; the attribute goes."""
    for op in _assertions(module):
        if _PLACE not in op.attributes:
            continue
        match = _TEXT.fullmatch(ir.StringAttr(op.attributes[_PLACE]).value)
        if match is None:
            continue
        location = ir.Location.file(match[1], int(match[2]), int(match[3]))
        Emitter(op, location=location).op(_ASSERT, list(op.operands), [], {"msg": op.attributes["msg"]})
        op.erase()


def _assertions(module: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == _ASSERT:
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return found
