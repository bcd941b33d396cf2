"""Address spaces: a CPU has one, so that every pointer becomes a plain ``!llvm.ptr``."""

from __future__ import annotations

import re

from mlir import ir

_POINTER = re.compile(r'"(?:[^"\\]|\\.)*"|\bptr<\d+>')  # a name in quotes is passed over


def drop_address_spaces(module: ir.Operation) -> None:
    """Rewrite types of values, attributes and functions inside ``module``; casts disappear."""
    _Dropper().run(module)


class _Dropper:
    def __init__(self) -> None:
        self._types: dict[ir.Type, ir.Type] = {}
        self._casts: list[ir.Operation] = []

    def run(self, module: ir.Operation) -> None:
        def visit(op: ir.Operation) -> ir.WalkResult:
            self._visit(op)
            return ir.WalkResult.ADVANCE

        module.walk(visit)
        for cast in self._casts:
            cast.results[0].replace_all_uses_with(cast.operands[0])
            cast.erase()

    def _visit(self, op: ir.Operation) -> None:
        for result in op.results:
            self._retype(result)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    self._retype(argument)
        for name in list(op.attributes):
            old = op.attributes[name]
            new = self._attribute(old)
            if new is not None:
                op.attributes[name] = new
        if op.name == "llvm.mlir.global":
            op.attributes["addr_space"] = ir.Attribute.parse("0 : i32")
        if op.name == "llvm.addrspacecast":
            self._casts.append(op)

    def _retype(self, value: ir.Value) -> None:
        new = self._type(value.type)
        if new != value.type:
            value.set_type(new)

    def _type(self, old: ir.Type) -> ir.Type:
        if old not in self._types:
            text = str(old)
            new = _POINTER.sub(lambda m: m[0] if m[0].startswith('"') else "ptr", text)
            self._types[old] = old if new == text else ir.Type.parse(new)
        return self._types[old]

    def _attribute(self, old: ir.Attribute) -> ir.Attribute | None:
        """Return the attribute without address spaces, or ``None`` when nothing changes."""
        if isinstance(old, ir.TypeAttr):
            new = self._type(old.value)
            return None if new == old.value else ir.TypeAttr.get(new)
        if isinstance(old, ir.ArrayAttr):
            items = [self._attribute(item) for item in old]
            if all(item is None for item in items):
                return None
            return ir.ArrayAttr.get([n if n is not None else o for o, n in zip(old, items, strict=True)])
        if isinstance(old, ir.DictAttr):
            entries = {old[i].name: old[i].attr for i in range(len(old))}
            changed = {k: self._attribute(v) for k, v in entries.items()}
            if all(v is None for v in changed.values()):
                return None
            return ir.DictAttr.get({k: n if (n := changed[k]) is not None else v for k, v in entries.items()})
        return None
