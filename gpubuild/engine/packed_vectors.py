"""Packed vectors: parameters and results of functions whose elements are not of whole bytes, for NVIDIA.

In memory LLVM packs such elements bit by bit, and so does the host that hands them to a kernel:
``vector<4xi1>`` is one byte. The NVPTX code generator of LLVM 22.1 declares a parameter of that size, and
reads each element from bytes of its own, behind the parameter's end (measured with LLVM 22.1.8; ptxas ends
in a crash on some). Such vectors are handed on as vectors of bytes, which hold the same bits.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.emit import Emitter

_VECTOR = re.compile(r"vector<(?P<count>\d+)xi(?P<bits>\d+)>")
_WHOLE = frozenset((8, 16, 32, 64, 128))
_AGGREGATE = re.compile(r"!llvm\.(array|struct)<")


def pass_in_bytes(kernels: ir.Operation) -> None:
    """Change functions of the module, kernels and others, and the calls of them."""
    functions = [op.operation for op in kernels.regions[0].blocks[0] if op.operation.name == "llvm.func"]
    changed = set()
    for function in functions:
        kind = function.attributes["function_type"]
        if function.regions[0].blocks and (wanted := _in_bytes(str(kind))) != str(kind):
            function.attributes["function_type"] = ir.Attribute.parse(wanted)
            changed.add(function.attributes["sym_name"].value)
    if not changed:
        return
    for function in functions:
        if function.attributes["sym_name"].value in changed:
            _take_bytes(function)
        for block in function.regions[0].blocks:
            for op in list(block.operations):
                if op.operation.name == "llvm.call":
                    _hand_on_bytes(op.operation, changed)


def _in_bytes(kind: str) -> str:
    return _VECTOR.sub(_as_bytes, kind)


def _as_bytes(found: re.Match[str]) -> str:
    count, bits = int(found["count"]), int(found["bits"])
    return found[0] if bits in _WHOLE else f"vector<{-(-count * bits // 8)}xi8>"


def _take_bytes(function: ir.Operation) -> None:
    """Parameters and results of the function itself."""
    blocks = function.regions[0].blocks
    for argument in blocks[0].arguments:
        kind = argument.type
        wanted = ir.Type.parse(_in_bytes(str(kind)))
        if wanted != kind:
            argument.set_type(wanted)
            first = blocks[0].operations[0].operation
            value = _converted(Emitter(first), argument, kind, from_bytes=True)
            made = _made_before(first, blocks[0])
            argument.replace_all_uses_except(value, made)
    for block in blocks:
        last = block.operations[len(block.operations) - 1].operation
        if last.name == "llvm.return":
            for number, operand in enumerate(last.operands):
                wanted = ir.Type.parse(_in_bytes(str(operand.type)))
                if wanted != operand.type:
                    last.operands[number] = _converted(Emitter(last), operand, wanted, from_bytes=False)


def _made_before(first: ir.Operation, block: ir.Block) -> list[ir.Operation]:
    made = []
    for op in block.operations:
        if op.operation == first:
            break
        made.append(op.operation)
    return made


def _hand_on_bytes(call: ir.Operation, changed: set[str]) -> None:
    """A call of one of ``changed``, or by address: what has one has been changed as well."""
    if "callee" in call.attributes and ir.FlatSymbolRefAttr(call.attributes["callee"]).value not in changed:
        return
    emit = Emitter(call)
    operands = []
    for operand in call.operands:
        wanted = ir.Type.parse(_in_bytes(str(operand.type)))
        operands.append(
            operand if wanted == operand.type else _converted(emit, operand, wanted, from_bytes=False)
        )
    results = [ir.Type.parse(_in_bytes(str(result.type))) for result in call.results]
    if operands == list(call.operands) and results == [r.type for r in call.results]:
        return
    attributes = {name: call.attributes[name] for name in call.attributes}
    made = emit.op("llvm.call", operands, results, attributes)
    for old, new in zip(call.results, made.results, strict=True):
        same = old.type == new.type
        old.replace_all_uses_with(new if same else _converted(emit, new, old.type, from_bytes=True))
    call.erase()


def _converted(emit: Emitter, value: ir.Value, wanted: ir.Type, *, from_bytes: bool) -> ir.Value:
    """``value`` with its packed vectors as bytes, or the other way."""
    kind = str(wanted if from_bytes else value.type)
    if _AGGREGATE.match(kind):
        return _aggregate(emit, value, wanted, from_bytes=from_bytes)
    found = _VECTOR.fullmatch(kind)
    if found is None or value.type == wanted:
        return value
    bits = int(found["count"]) * int(found["bits"])
    narrow, wide = ir.IntegerType.get_signless(bits), ir.IntegerType.get_signless(-(-bits // 8) * 8)
    steps = [("llvm.bitcast", narrow), ("llvm.zext", wide), ("llvm.bitcast", wanted)]
    if from_bytes:
        steps = [("llvm.bitcast", wide), ("llvm.trunc", narrow), ("llvm.bitcast", wanted)]
    for name, to in steps:
        if value.type != to:
            value = emit.op(name, [value], [to]).results[0]
    return value


def _aggregate(emit: Emitter, value: ir.Value, wanted: ir.Type, *, from_bytes: bool) -> ir.Value:
    made = emit.op("llvm.mlir.poison", [], [wanted]).results[0]
    for number, (old, new) in enumerate(zip(_members(value.type), _members(wanted), strict=True)):
        position = {"position": ir.DenseI64ArrayAttr.get([number])}
        part = emit.op("llvm.extractvalue", [value], [old], position).results[0]
        part = _converted(emit, part, new, from_bytes=from_bytes)
        made = emit.op("llvm.insertvalue", [made, part], [wanted], position).results[0]
    return made


def _members(kind: ir.Type) -> list[ir.Type]:
    text = str(kind)
    if text.startswith("!llvm.array<"):
        count, _, member = text.removeprefix("!llvm.array<").removesuffix(">").partition(" x ")
        return [_parsed(member)] * int(count)
    inner = text.removeprefix("!llvm.struct<").removesuffix(">").removeprefix("packed ").strip("()")
    members, depth, start = [], 0, 0
    for at, letter in enumerate(f"{inner},"):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            members.append(_parsed(inner[start:at].strip()))
            start = at + 1
    return members


def _parsed(member: str) -> ir.Type:
    """A type as it stands within another one of the dialect, where the prefix may be left out."""
    if re.match(r"(?:array|struct|ptr|func)\b", member):
        member = f"!llvm.{member}"
    return ir.Type.parse(member)
