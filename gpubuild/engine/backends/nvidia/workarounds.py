"""Workarounds of errors in LLVM's code generator for NVIDIA GPUs.

Odd signatures: LLVM packs the elements of ``vector<4xi1>`` bit by bit in memory, and so does the host that
passes one to a kernel. The code generator declares a parameter of that size, and reads each element from
bytes of its own, after the parameter's end (measured with LLVM 22.1.8; ptxas crashes on some). Kernels take
such vectors as bytes, which have the same bits; functions with them are inlined. Among several results an
``i7`` is written after the end: these functions are inlined too. In functions called by address, integers
of other than 8, 16, 32 and 64 bits end the process: they are refused.

Constant guards: the nvvm dialect writes a guarded instruction as inline assembly, ``@$0 instruction``. Where
the guard becomes a constant, as in a loop of one iteration, LLVM writes ``@0 instruction``, which ptxas
refuses. No other PTX has ``@0``.

Comparisons of bf16 have no ``.ftz`` in PTX, but LLVM 22.1 writes it where f32 is flushed, and ptxas refuses
it (``Illegal modifier '.ftz' for instruction 'setp'``). Without it, subnormals are compared unchanged.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir import contexts, diagnostics, llvm
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Lowering, Pass, contains
from gpubuild.engine.ir.query import callee, operations
from gpubuild.engine.ir.workarounds import Workaround
from gpubuild.errors import StepError

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
_ARRAY = re.compile(r"((?:!llvm\.)?array<(\d+) x )(.*)>")
_PACKED = re.compile(r"vector<\d+xi(?!(?:8|16|32|64|128)>)\d+>")
_ODD_INTEGER = re.compile(r"\bi(?!(?:8|16|32|64|128)\b)\d+\b")
_PACKED_IN_LLVM = re.compile(r"<\d+ x i(?!(?:8|16|32|64|128)>)\d+>")


_USES = ("llvm.call", "llvm.mlir.addressof")  # of functions
_SIGNATURES = ("llvm.func", *_USES)


def _inline_odd_signatures(module: ir.Module, state: Lowering) -> None:
    """Change kernels and functions with such parameters or results, and refuse calls of them by address."""
    for kernels in contexts.gpu_modules(module):
        if contains(kernels, _USES):
            found = operations(kernels, _SIGNATURES)
        else:  # without a walk
            found = [op.operation for op in kernels.regions[0].blocks[0]]
        by_address = {
            ir.FlatSymbolRefAttr(op.attributes["global_name"]).value
            for op in found
            if op.name == "llvm.mlir.addressof"
        }
        for function in (op for op in found if op.name == "llvm.func"):
            kind = str(function.attributes["function_type"])
            packed = _PACKED.search(kind)
            if "nvvm.kernel" in function.attributes:
                if packed:
                    _take_bytes(function, state.source)
            elif function.attributes["sym_name"].value in by_address:
                if odd := packed or _ODD_INTEGER.search(kind):
                    raise _refused(function, "a function that is called by address", odd[0], state.source)
            elif function.regions[0].blocks and (packed or ("struct<" in kind and _ODD_INTEGER.search(kind))):
                function.attributes["always_inline"] = ir.UnitAttr.get()
                if "no_inline" in function.attributes:
                    del function.attributes["no_inline"]
        for call in (op for op in found if op.name == "llvm.call"):
            kind = " ".join(str(value.type) for value in (*call.operands, *call.results))
            if not callee(call) and (odd := _PACKED.search(kind) or _ODD_INTEGER.search(kind)):
                raise _refused(call, "a call by address", odd[0], state.source)


def _refused(op: ir.Operation, what: str, kind: str, source: SourceText) -> StepError:
    message = f"{kind} cannot be passed to or returned by {what} on NVIDIA GPUs"
    return StepError(
        message,
        diagnostics=(diagnostics.about(op, message, source),),
        hint="pass whole bytes, such as i8 or vector<4xi8>",
    )


def _take_bytes(kernel: ir.Operation, source: SourceText) -> None:
    """Change packed vectors among the parameters of a kernel, and arrays of them, to bytes."""
    block = kernel.regions[0].blocks[0]
    first = block.operations[0].operation
    kinds = []
    for argument in block.arguments:
        kind = str(argument.type)
        if packed := _PACKED.search(kind):
            taken = _as_bytes(kind)
            if _PACKED.search(taken):
                raise _refused(kernel, "a kernel inside another type", packed[0], source)
            given = argument.type
            argument.set_type(ir.Type.parse(taken))
            made: list[ir.Operation] = []
            value = _unpacked(Emitter(first), argument, given, made)
            argument.replace_all_uses_except(value, made)
        kinds.append(str(argument.type))
    kernel.attributes["function_type"] = ir.Attribute.parse(f"!llvm.func<void ({', '.join(kinds)})>")


def _as_bytes(kind: str) -> str:
    """Return the type of bytes to take instead of a packed vector; it is as large and aligned."""
    if array := _ARRAY.fullmatch(kind):
        return f"{array[1]}{_as_bytes(array[3])}>"
    found = _VECTOR.fullmatch(kind)
    if found is None or not _PACKED.fullmatch(kind):
        return kind
    size = -(-int(found["count"]) * int(found["bits"]) // 8)
    return f"i{8 * size}" if size in (1, 2, 4, 8) else f"vector<{size}xi8>"


def _unpacked(emit: Emitter, value: ir.Value, wanted: ir.Type, made: list[ir.Operation]) -> ir.Value:
    """Return bytes as the type ``wanted``; ``made`` gets the operations."""

    def op(name: str, operands: list[ir.Value], kind: ir.Type, position: int | None = None) -> ir.Value:
        where = {} if position is None else {"position": ir.DenseI64ArrayAttr.get([position])}
        result = emit.value(f"llvm.{name}", operands, kind, where)
        made.append(result.owner.operation)
        return result

    if array := _ARRAY.fullmatch(str(wanted)):
        given = ir.Type.parse(_as_bytes(_member(array[3])))
        whole = op("mlir.poison", [], wanted)
        for number in range(int(array[2])):
            part = op("extractvalue", [value], given, number)
            part = _unpacked(emit, part, ir.Type.parse(_member(array[3])), made)
            whole = op("insertvalue", [whole, part], wanted, number)
        return whole
    found = _VECTOR.fullmatch(str(wanted))
    assert found is not None  # noqa: S101 - other types are refused
    bits = int(found["count"]) * int(found["bits"])
    steps = [("bitcast", f"i{-(-bits // 8) * 8}"), ("trunc", f"i{bits}"), ("bitcast", str(wanted))]
    for name, to in steps:
        if str(value.type) != to:
            value = op(name, [value], ir.Type.parse(to))
    return value


def _member(kind: str) -> str:
    """Return the type of an array's elements, which may lack the prefix of the dialect."""
    return f"!llvm.{kind}" if kind.startswith("array<") else kind


def refuse_packed_calls(module: llvm.Module) -> None:
    """Raise ``StepError`` if optimised code still calls functions with packed vectors."""
    for function in module.functions:
        odd = _PACKED_IN_LLVM.search(str(function.global_value_type))
        if odd and not function.name.startswith(llvm.PREFIX):
            raise StepError(
                f"{odd[0]} cannot be passed to or returned by @{function.name} on NVIDIA GPUs, since "
                "it is recursive or a function of a library",
                hint="pass whole bytes, such as i8 or vector<4xi8>",
            )


INLINE_ODD_SIGNATURES: Pass[Lowering] = Pass(name="inline-odd-signatures", run=_inline_odd_signatures)


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
        name="INLINE_ODD_SIGNATURES",
        bug="elements of vectors that are not of whole bytes are read after the end of a parameter",
        seen="LLVM 22.1.8",
        package="llvmlite",
        remove_when="0.51",
    ),
)
