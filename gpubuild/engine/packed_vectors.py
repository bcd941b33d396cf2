"""Packed vectors: parameters and results of functions whose elements are not of whole bytes, for NVIDIA.

In memory LLVM packs such elements bit by bit, and so does the host that hands them to a kernel:
``vector<4xi1>`` is one byte. The NVPTX code generator of LLVM 22.1 declares a parameter of that size, and
reads each element from bytes of its own, behind the parameter's end (measured with LLVM 22.1.8; ptxas ends
in a crash on some). Such vectors are handed on as vectors of bytes, which hold the same bits.

Where functions are called by address, it ends the process over integers of other than 8, 16, 32 and 64
bits, ``i1`` among them, and of several results it puts an ``i7`` behind the end. Functions of these two
kinds take and give the next larger type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mlir import ir

from gpubuild.engine.emit import Emitter

_VECTOR = re.compile(r"vector<(?P<count>\d+)xi(?P<bits>\d+)>")
_WHOLE = frozenset((8, 16, 32, 64, 128))
_INTEGER = re.compile(r"(?<!\w)i(\d+)\b")
_AGGREGATE = re.compile(r"!llvm\.(array|struct)<")


def pass_in_bytes(kernels: ir.Operation) -> None:
    """Change functions of the module, kernels and others, and the calls of them."""
    functions = [op.operation for op in kernels.regions[0].blocks[0] if op.operation.name == "llvm.func"]
    odd = [f for f in functions if f.regions[0].blocks and _changes(f)]
    if not odd:
        return
    by_address = _called_by_address(functions)
    changed = {}
    for function in odd:
        name = function.attributes["sym_name"].value
        kind = str(function.attributes["function_type"])
        integers = "nvvm.kernel" not in function.attributes and (name in by_address or "struct<" in kind)
        wanted = _in_bytes(kind, integers=integers)
        if wanted != kind:
            function.attributes["function_type"] = ir.Attribute.parse(wanted)
            changed[name] = integers
    if not changed:
        return
    for function in functions:
        name = function.attributes["sym_name"].value
        if name in changed:
            _take_bytes(function, integers=changed[name])
        for block in function.regions[0].blocks:
            for op in list(block.operations):
                if op.operation.name == "llvm.call":
                    _hand_on_bytes(op.operation, changed)


def _changes(function: ir.Operation) -> bool:
    kind = str(function.attributes["function_type"])
    return _in_bytes(kind, integers="nvvm.kernel" not in function.attributes) != kind


def _called_by_address(functions: Sequence[ir.Operation]) -> set[str]:
    """Names whose addresses are taken, which may be those of variables, too."""
    return {
        ir.FlatSymbolRefAttr(op.operation.attributes["global_name"]).value
        for function in functions
        for block in function.regions[0].blocks
        for op in block.operations
        if op.operation.name == "llvm.mlir.addressof"
    }


def _in_bytes(kind: str, *, integers: bool) -> str:
    kind = _VECTOR.sub(_as_bytes, kind)
    return _INTEGER.sub(_as_whole, kind) if integers else kind


def _as_whole(found: re.Match[str]) -> str:
    bits = int(found[1])
    return f"i{max(8, 1 << (bits - 1).bit_length())}"


def _as_bytes(found: re.Match[str]) -> str:
    count, bits = int(found["count"]), int(found["bits"])
    if bits in _WHOLE:
        return found[0]
    size = -(-count * bits // 8)
    # As large and aligned as the vector; one of a single byte would itself get bytes of its own in a struct.
    return f"i{8 * size}" if size in (1, 2, 4, 8) else f"vector<{size}xi8>"


def _take_bytes(function: ir.Operation, *, integers: bool) -> None:
    """Parameters and results of the function itself."""
    blocks = function.regions[0].blocks
    for argument in blocks[0].arguments:
        kind = argument.type
        wanted = ir.Type.parse(_in_bytes(str(kind), integers=integers))
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
                wanted = ir.Type.parse(_in_bytes(str(operand.type), integers=integers))
                if wanted != operand.type:
                    last.operands[number] = _converted(Emitter(last), operand, wanted, from_bytes=False)


def _made_before(first: ir.Operation, block: ir.Block) -> list[ir.Operation]:
    made = []
    for op in block.operations:
        if op.operation == first:
            break
        made.append(op.operation)
    return made


def _hand_on_bytes(call: ir.Operation, changed: Mapping[str, bool]) -> None:
    """A call of one of ``changed``, or by address: what has one has been changed as well."""
    integers = True
    if "callee" in call.attributes:
        name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if name not in changed:
            return
        integers = changed[name]
    emit = Emitter(call)
    operands = []
    for operand in call.operands:
        wanted = ir.Type.parse(_in_bytes(str(operand.type), integers=integers))
        operands.append(
            operand if wanted == operand.type else _converted(emit, operand, wanted, from_bytes=False)
        )
    results = [ir.Type.parse(_in_bytes(str(result.type), integers=integers)) for result in call.results]
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
    if value.type == wanted:
        return value
    found = _VECTOR.fullmatch(kind)
    if found is None and _INTEGER.fullmatch(kind):
        return emit.op("llvm.trunc" if from_bytes else "llvm.zext", [value], [wanted]).results[0]
    if found is None:
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
