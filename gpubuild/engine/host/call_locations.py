"""Insert calls of the runtime for its messages into host code.

Some name the operation for which host code calls the runtime next: ``gpubuildPlace``
(``runtime/core/location.c``) keeps the text until the next call. Others report failed assertions.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, file_position
from gpubuild.engine.ir.locations import address
from gpubuild.engine.ir.passes import Lowering
from gpubuild.engine.ir.query import callee, operations, symbol_name
from gpubuild.support.text import escaped

_FUNCTION = "gpubuildPlace"
_FAILED = "gpubuildAssertionFailed"  # runtime/core/message.c
_NAMED = ("gpu.", "nvgpu.", "cf.assert")
_CALLS = ("mgpu", "gpubuild")  # prefixes of the runtime's functions
_ANY_CALL = frozenset({"llvm.call", "llvm.invoke", "llvm.call_intrinsic"})

Names = dict[tuple[str, int, int], str]


def names(module: ir.Module) -> Names:
    """Return names of gpu operations and assertions in host code that is not lowered, by their positions."""
    found: Names = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        position = file_position(op.location) if op.name.startswith(_NAMED) else None
        if position is not None:
            around = op
            while around is not None and not symbol_name(around):
                around = around.parent
            found.setdefault(position, f"{op.name} in @{symbol_name(around) if around is not None else '?'}")
        return ir.WalkResult.ADVANCE

    for top in module.body:
        if top.operation.name not in {"gpu.module", "gpu.binary"}:
            top.operation.walk(visit)
    return found


def insert_calls(module: ir.Module, known: Names, text_digest: str) -> None:
    """Insert the calls, in place, into a module that is lowered to the LLVM dialect."""
    texts: dict[str, str] = {}  # to their symbols
    for function in list(module.body):
        if function.operation.name == "llvm.func":
            for region in function.operation.regions:
                for block in region.blocks:
                    _mark_block(block, known, text_digest, texts)
    define_texts(module, _FUNCTION, {text.encode(): symbol for text, symbol in texts.items()})


def report_assertions(module: ir.Module, _: Lowering) -> None:
    """Replace ``cf.assert`` by branches to calls of the runtime, which writes the text on stderr.

    Upstream's conversion calls ``puts`` and ``abort``: the text is lost where stdout is a file or a pipe.
    """
    symbols: dict[bytes, str] = {}  # by message
    for op in operations(module.operation, ("cf.assert",)):
        message = op.attributes["msg"].value_bytes
        symbol = symbols.setdefault(message, f"gpubuild.assertion.{len(symbols)}")
        emit = Emitter(op)
        failed = emit.binary("arith.xori", op.operands[0], emit.constant(1, op.operands[0].type))
        inside = emit.inside(emit.op("scf.if", [failed], [], regions=2).regions[0].blocks.append())
        call(inside, _FAILED, symbol)
        inside.op("scf.yield", [], [])
        op.erase()
    define_texts(module, _FAILED, symbols)


def define_texts(module: ir.Module, function: str, texts: Mapping[bytes, str]) -> None:
    """Declare a ``function`` of the runtime that takes a text, and define ``texts`` by their symbols."""
    if not texts:
        return
    lines = [f"llvm.func @{function}(!llvm.ptr)"]
    for text, symbol in texts.items():
        value = f'"{escaped(text + bytes(1))}"'
        lines.append(f"llvm.mlir.global internal constant @{symbol}({value}) {{addr_space = 0 : i32}}")
    made = ir.Module.parse("\n".join(lines))  # a variable: its operations die with it
    for view in made.body:
        module.body.append(view.operation.clone())


def call(emit: Emitter, function: str, symbol: str) -> None:
    """Call such a function with the text that ``symbol`` defines, or with a null pointer without one."""
    pointer = ir.Type.parse("!llvm.ptr")
    if symbol:
        name = {"global_name": ir.FlatSymbolRefAttr.get(symbol)}
        text = emit.value("llvm.mlir.addressof", [], pointer, name)
    else:
        text = emit.value("llvm.mlir.zero", [], pointer)
    emit.call(function, [text])


def _mark_block(block: ir.Block, known: Names, text_digest: str, texts: dict[str, str]) -> None:
    current = ""
    ops = [view.operation for view in block.operations]
    for op in ops:
        if op.name == "gpu.launch_func" or (op.name == "llvm.call" and callee(op).startswith(_CALLS)):
            # Operations that passes add, such as waits for a launch, belong to the one before.
            text = _text(op, known, text_digest) or current
        elif op.name in _ANY_CALL or op == ops[-1]:
            text = ""  # other functions call the runtime for other operations
        else:
            continue
        if text != current:
            symbol = texts.setdefault(text, f"gpubuild.place.{len(texts)}") if text else ""
            call(Emitter(op), _FUNCTION, symbol)
            current = text


def _text(op: ir.Operation, known: Names, text_digest: str) -> str:
    position = file_position(op.location)
    name = known.get(position) if position is not None else None
    if position is None or name is None:
        return ""
    if position[0] == UNNAMED_BUFFER:
        return name + address(text_digest, op)
    return f"{name} at {position[0]}:{position[1]}:{position[2]}"
