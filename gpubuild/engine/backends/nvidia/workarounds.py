"""Workarounds of errors in LLVM's code generator for NVIDIA GPUs.

Packed vectors: LLVM packs the elements of ``vector<4xi1>`` bit by bit in memory, and so does the host that
passes one to a kernel. The code generator declares a parameter of that size, and reads each element from
bytes of its own, after the parameter's end (measured with LLVM 22.1.8; ptxas crashes on some). Functions
pass such vectors as vectors of bytes, which have the same bits. In functions called by address, integers of
other than 8, 16, 32 and 64 bits, ``i1`` among them, end the process, and among several results an ``i7`` is
written after the end. There they are passed as the next wider type.

Constant guards: the nvvm dialect writes a guarded instruction as inline assembly, ``@$0 instruction``. Where
the guard becomes a constant, as in a loop of one iteration, LLVM writes ``@0 instruction``, which ptxas
refuses. No other PTX has ``@0``.

Comparisons of bf16 have no ``.ftz`` in PTX, but LLVM 22.1 writes it where f32 is flushed, and ptxas refuses
it (``Illegal modifier '.ftz' for instruction 'setp'``). Without it, subnormals are compared unchanged.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass
from gpubuild.engine.ir.query import callee, operations
from gpubuild.engine.ir.workarounds import Workaround

_GUARDED = re.compile(
    r"(?P<before>^[ \t]*|[;{}][ \t]*)@(?P<not>!?)(?P<guard>-?\d+)[ \t]+"
    r"(?P<instruction>[^;{}\n]*(?:\{[^;\n]*)?;)",
    re.MULTILINE,
)


def fold_constant_guards(ptx: str) -> str:
    """Return ``ptx`` with instructions guarded by a constant written without the guard, or left out."""
    return _GUARDED.sub(_folded, ptx) if "@" in ptx else ptx


def _folded(match: re.Match[str]) -> str:
    taken = (int(match["guard"]) != 0) is not bool(match["not"])
    return match["before"] + (match["instruction"] if taken else "")


_FLUSHED = re.compile(r"(\bsetp\.[\w.]+?)\.ftz(\.bf16(?:x2)?\b)")


def keep_bf16_subnormals(ptx: str) -> str:
    """Return ``ptx`` with comparisons of bf16 written without ``.ftz``."""
    return _FLUSHED.sub(r"\1\2", ptx) if ".ftz.bf16" in ptx else ptx


_VECTOR = re.compile(r"vector<(?P<count>\d+)xi(?P<bits>\d+)>")
_WHOLE = frozenset((8, 16, 32, 64, 128))
_INTEGER = re.compile(r"i(\d+)")
_AGGREGATE = re.compile(r"(?:!llvm\.)?(array|struct)<")
_ARRAY = re.compile(r"((?:!llvm\.)?array<\d+ x )(.*)>", re.DOTALL)
_STRUCT = re.compile(r'((?:!llvm\.)?struct<)(?:"[^"]*", )?(packed )?\((.*)\)>', re.DOTALL)
# Strings and arrows, whose characters do not count, and the brackets and commas that do.
_MARK = re.compile(r'"[^"]*"|->|[<>(),]')


def _pass_in_bytes(kernels: ir.Operation) -> None:
    """Change functions of the gpu.module and the calls of them."""
    functions = {
        op.attributes["sym_name"].value: op.operation
        for op in kernels.regions[0].blocks[0]
        if op.operation.name == "llvm.func"
    }
    if not any(_changes(function) for function in functions.values()):
        return
    by_address, calls = _uses(kernels)
    changed = {}
    for name, function in functions.items():
        if not function.regions[0].blocks and name not in by_address:
            continue  # defined elsewhere, and called only by its declared type
        kind = str(function.attributes["function_type"])
        integers = "nvvm.kernel" not in function.attributes and (name in by_address or "struct<" in kind)
        wanted = _in_bytes(kind, integers=integers)
        if wanted != kind:
            function.attributes["function_type"] = ir.Attribute.parse(wanted)
            for each, attribute in _without_ranges(function).items():
                function.attributes[each] = attribute
            changed[name] = integers
    for name, integers in changed.items():
        if functions[name].regions[0].blocks:
            _take_bytes(functions[name], integers=integers)
    for call in calls if changed else ():
        name = callee(call)
        if name in changed or name not in functions:  # by address, or by an alias
            _pass_bytes(call, integers=changed.get(name, True))


def _changes(function: ir.Operation) -> bool:
    kind = str(function.attributes["function_type"])
    return _in_bytes(kind, integers="nvvm.kernel" not in function.attributes) != kind


def _uses(kernels: ir.Operation) -> tuple[set[str], list[ir.Operation]]:
    """Return the names whose addresses are taken, of functions and variables, and all calls."""
    taken = operations(kernels, ("llvm.mlir.addressof",))
    by_address = {ir.FlatSymbolRefAttr(op.attributes["global_name"]).value for op in taken}
    return by_address, operations(kernels, ("llvm.call",))


def _without_ranges(op: ir.Operation) -> dict[str, ir.Attribute]:
    """Return the attributes of parameters and results without ranges, which are of the old types."""
    found: dict[str, ir.Attribute] = {}
    for name in ("arg_attrs", "res_attrs"):
        if name in op.attributes:
            each = [ir.DictAttr(one) for one in ir.ArrayAttr(op.attributes[name])]
            kept = [{a.name: a.attr for a in one if a.name != "llvm.range"} for one in each]
            found[name] = ir.ArrayAttr.get([ir.DictAttr.get(one) for one in kept])
    return found


def _in_bytes(kind: str, *, integers: bool) -> str:
    """Return the type to pass instead of ``kind``; a named struct loses its name if a member changes."""
    if found := _VECTOR.fullmatch(kind):
        return _as_bytes(found)
    if found := _INTEGER.fullmatch(kind):
        return _as_whole(found) if integers else kind
    if found := _ARRAY.fullmatch(kind):
        return f"{found[1]}{_in_bytes(found[2], integers=integers)}>"
    if found := _STRUCT.fullmatch(kind):
        old = _parts(found[3])
        new = [_in_bytes(part, integers=integers) for part in old]
        return kind if new == old else f"{found[1]}{found[2] or ''}({', '.join(new)})>"
    if kind.startswith("!llvm.func<"):
        inner = kind.removeprefix("!llvm.func<").removesuffix(")>")
        result = inner[: _parameters_start(inner)]
        parameters = _parts(inner[len(result) + len(" (") :])
        new = [_in_bytes(part, integers=integers) for part in parameters]
        return f"!llvm.func<{_in_bytes(result, integers=integers)} ({', '.join(new)})>"
    return kind


def _parameters_start(function: str) -> int:
    """Return the end of the result of a function type, which may have brackets itself."""
    depth = 0
    for mark in _MARK.finditer(function):
        if mark[0] == "(" and depth == 0:
            return mark.start() - 1
        depth += (mark[0] in "<(") - (mark[0] in ">)")
    raise ValueError(f"not a function type: {function}")


def _parts(text: str) -> list[str]:
    """Split at commas that are in no bracket and in no name."""
    parts, depth, start = [], 0, 0
    for mark in _MARK.finditer(text):
        depth += (mark[0] in "<(") - (mark[0] in ">)")
        if mark[0] == "," and depth == 0:
            parts.append(text[start : mark.start()].strip())
            start = mark.end()
    return [*parts, text[start:].strip()] if text.strip() else []


def _as_whole(found: re.Match[str]) -> str:
    bits = int(found[1])
    return f"i{max(8, 1 << (bits - 1).bit_length())}"


def _as_bytes(found: re.Match[str]) -> str:
    count, bits = int(found["count"]), int(found["bits"])
    if bits in _WHOLE:
        return found[0]
    size = -(-count * bits // 8)
    # As large and aligned as the vector. A vector of one byte would have the same error in a struct.
    return f"i{8 * size}" if size in (1, 2, 4, 8) else f"vector<{size}xi8>"


def _take_bytes(function: ir.Operation, *, integers: bool) -> None:
    """Convert the parameters and results inside a changed function."""
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


def _pass_bytes(call: ir.Operation, *, integers: bool) -> None:
    """Convert the operands and results of a call of a changed function, or by address."""
    emit = Emitter(call)
    attributes = {name: call.attributes[name] for name in call.attributes}
    own = ir.DenseI32ArrayAttr(attributes["operandSegmentSizes"])[0]  # the others are of bundles
    if variadic := attributes.get("var_callee_type"):
        attributes["var_callee_type"] = ir.Attribute.parse(_in_bytes(str(variadic), integers=integers))
        inner = str(variadic).removeprefix("!llvm.func<").removesuffix(")>")
        named = len(_parts(inner[_parameters_start(inner) + len(" (") :])) - 1
        own = named + ("callee" not in attributes)  # the callee reads those of "..."
    operands = list(call.operands)
    for number, operand in enumerate(operands[:own]):
        wanted = ir.Type.parse(_in_bytes(str(operand.type), integers=integers))
        if wanted != operand.type:
            operands[number] = _converted(emit, operand, wanted, from_bytes=False)
    results = [ir.Type.parse(_in_bytes(str(result.type), integers=integers)) for result in call.results]
    if operands == list(call.operands) and results == [r.type for r in call.results]:
        return
    made = emit.op("llvm.call", operands, results, attributes | _without_ranges(call))
    for old, new in zip(call.results, made.results, strict=True):
        same = old.type == new.type
        old.replace_all_uses_with(new if same else _converted(emit, new, old.type, from_bytes=True))
    call.erase()


def _converted(emit: Emitter, value: ir.Value, wanted: ir.Type, *, from_bytes: bool) -> ir.Value:
    """Return ``value`` with its packed vectors as bytes, or the reverse."""
    kind = str(wanted if from_bytes else value.type)
    if value.type == wanted:
        return value
    if _AGGREGATE.match(kind):
        return _aggregate(emit, value, wanted, from_bytes=from_bytes)
    found = _VECTOR.fullmatch(kind)
    if found is None and _INTEGER.fullmatch(kind):
        return emit.value("llvm.trunc" if from_bytes else "llvm.zext", [value], wanted)
    if found is None:
        return value
    bits = int(found["count"]) * int(found["bits"])
    narrow, wide = ir.IntegerType.get_signless(bits), ir.IntegerType.get_signless(-(-bits // 8) * 8)
    steps = [("llvm.bitcast", narrow), ("llvm.zext", wide), ("llvm.bitcast", wanted)]
    if from_bytes:
        steps = [("llvm.bitcast", wide), ("llvm.trunc", narrow), ("llvm.bitcast", wanted)]
    else:  # one poison element would make all of them poison
        value = emit.value("llvm.freeze", [value], value.type)
    for name, to in steps:
        if value.type != to:
            value = emit.value(name, [value], to)
    return value


def _aggregate(emit: Emitter, value: ir.Value, wanted: ir.Type, *, from_bytes: bool) -> ir.Value:
    made = emit.value("llvm.mlir.poison", [], wanted)
    for number, (old, new) in enumerate(zip(_members(value.type), _members(wanted), strict=True)):
        position = {"position": ir.DenseI64ArrayAttr.get([number])}
        part = emit.value("llvm.extractvalue", [value], old, position)
        part = _converted(emit, part, new, from_bytes=from_bytes)
        made = emit.value("llvm.insertvalue", [made, part], wanted, position)
    return made


def _members(kind: ir.Type) -> list[ir.Type]:
    text = str(kind)
    if text.startswith("!llvm.array<"):
        count, _, member = text.removeprefix("!llvm.array<").removesuffix(">").partition(" x ")
        return [_parsed(member)] * int(count)
    found = _STRUCT.fullmatch(text)
    return [_parsed(part) for part in _parts(found[3])] if found else []


def _parsed(member: str) -> ir.Type:
    """Parse the type of a member, which may lack the prefix of the dialect."""
    if re.match(r"(?:array|struct|ptr|func)\b", member):
        member = f"!llvm.{member}"
    return ir.Type.parse(member)


def _run(module: ir.Module, _: Lowering) -> None:
    for kernels in contexts.gpu_modules(module):
        _pass_in_bytes(kernels)


PASS_IN_BYTES: Pass[Lowering] = Pass(name="packed-vectors-to-bytes", run=_run)


WORKAROUNDS = (
    Workaround(
        name="fold_constant_guards",
        bug="a guard of PTX that is constant is written as a number, which ptxas refuses",
        seen="LLVM 22.1.8",
        package="llvmlite",
        remove_when="0.51",
    ),
    Workaround(
        name="keep_bf16_subnormals",
        bug="comparisons of bf16 are written with .ftz, which ptxas refuses",
        seen="LLVM 22.1.8",
        package="llvmlite",
        remove_when="0.51",
    ),
    Workaround(
        name="PASS_IN_BYTES",
        bug="elements of vectors that are not of whole bytes are read after the end of a parameter",
        seen="LLVM 22.1.8",
        package="llvmlite",
        remove_when="0.51",
    ),
)
