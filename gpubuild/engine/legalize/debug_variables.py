"""Variables in debug information (``debug: full``): named values, arguments and memory of the source.

``RECORD`` notes the names and types of the source. The pass of ``describe`` looks for the values in LLVM's
dialect. Only values that it recognises beyond doubt have variables, so that debuggers show nothing wrong.

A variable has its value from the definition up to where control flow may arrive without it. In code that is
not optimised, values are also stored in memory, since registers are reused after the last use.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import prod

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import file_position
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import (
    attributions,
    is_contiguous,
    matching,
    operations,
    symbol_name,
    terminator,
)
from gpubuild.engine.ir.value_names import Named, Names, name_of, read_argument_names
from gpubuild.engine.legalize.state import Legalization

# Each operation of these becomes one with its value, also where passes copy code. Others may become
# blocks, in which the last operation need not be the value.
_SIMPLE = re.compile(
    r"(arith|complex|index|llvm|nvvm|rocdl)\.|affine\.(apply|load)|func\.call|gpu\.\w+_(id|dim|size)$|"
    r"memref\.(alloca|dim|load)$|vector\.(load|extract)$"
)
_BRANCH = "scf.if"  # its result becomes an argument of the block behind
_WITH_REGIONS = (_BRANCH, "gpu.all_reduce")  # of loops the results are arguments that have names of their own
_ENCODINGS = {"f": "float", "i": "signed", "si": "signed", "ui": "unsigned"}
_NUMBER = re.compile(r"(f|i|si|ui)(\d+)")
_BITS = frozenset({1, 8, 16, 32, 64, 80, 128})
_SMALL_FLOAT = re.compile(r"f(\d+)E\w+")  # debuggers show its bits
_POINTER = "!llvm.ptr"
_WORKGROUP_POINTER = "!llvm.ptr<3>"
_VARIABLES = "gpubuild.variables"


@dataclass(slots=True, kw_only=True)
class _Variable:
    """A variable, and its values in a function, each with the operation that follows its definition."""

    named: Named
    type: str
    location: ir.Location
    values: list[tuple[ir.Value, ir.Operation]]
    argument: int = 0  # from 1
    memory: bool = False  # on the stack, at the value


def _record(module: ir.Module, state: Legalization) -> None:
    read_argument_names(module)
    names = state.names
    for op in matching(module.operation, lambda _: True):
        followed = not len(op.regions) or op.name in _WITH_REGIONS
        if len(op.results) and followed and (name := name_of(op.location)):
            names.values[str(op.location)] = Named(
                name=name,
                type=op.results[0].type,
                argument=op.name == _BRANCH,
                simple=_SIMPLE.match(op.name) is not None,
            )
        for block in (block for region in op.regions for block in region.blocks):
            for argument in block.arguments:
                if name := name_of(argument.location):
                    names.values[str(argument.location)] = Named(name=name, type=argument.type, argument=True)
        if op.name == "memref.global":
            name = symbol_name(op)
            names.globals[name] = Named(name=name, type=op.attributes["type"].value)
        elif op.name == "gpu.func" and len(op.regions[0].blocks):
            _record_attributions(op, names)


def _record_attributions(function: ir.Operation, names: Names) -> None:
    owner = symbol_name(function)
    shared, private = (
        [Named(name=name_of(a.location), type=a.type, function=owner) for a in memory]
        for memory in attributions(function)
    )
    names.private[owner] = private
    for number, named in enumerate(shared):
        names.globals[f"__wg_{owner}_{number}"] = named  # the name that upstream gives the variable


# ---- types ----


def _scalar(kind: ir.Type) -> tuple[str, int]:
    """Return a type of debug information, and its bits; an empty text if there is none."""
    text = str(kind)
    if text == "index":
        return _basic(text, 64, "signed"), 64
    if text == "bf16":
        return _basic("__bf16", 16, "float"), 16  # gdb knows the format by this name
    if found := _SMALL_FLOAT.fullmatch(text):
        return _basic(text, 8, "unsigned"), 8
    if found := _NUMBER.fullmatch(text):
        bits = int(found[2])
        if bits in _BITS:
            size = max(bits, 8)
            return _basic(text, size, "boolean" if bits == 1 else _ENCODINGS[found[1]]), size
    if text.startswith("complex<f"):
        bits = 2 * _scalar(kind.element_type)[1]
        return _basic(text, bits, "complex_float"), bits
    if isinstance(kind, ir.VectorType) and len(kind.shape) == 1 and not kind.scalable:
        element, bits = _scalar(kind.element_type)
        if element and str(kind.element_type) != "i1":
            return _array(element, bits, kind.shape, "flags = Vector, "), bits * kind.shape[0]
    return "", 0


def _basic(name: str, bits: int, encoding: str) -> str:
    return (
        f'#llvm.di_basic_type<tag = DW_TAG_base_type, name = "{name}", sizeInBits = {bits}, '
        f"encoding = DW_ATE_{encoding}>"
    )


def _array(element: str, bits: int, shape: Sequence[int], flags: str = "") -> str:
    if not shape:
        return element
    counts = ", ".join(f"#llvm.di_subrange<count = {n} : i64>" for n in shape)
    return (
        f"#llvm.di_composite_type<tag = DW_TAG_array_type, baseType = {element}, {flags}"
        f"sizeInBits = {bits * prod(shape)}, elements = {counts}>"
    )


def _pointer(base: str = "", what: str = "pointer") -> str:
    base = f"baseType = {base}, " if base else ""
    return f"#llvm.di_derived_type<tag = DW_TAG_{what}_type, {base}sizeInBits = 64>"


def _memory(kind: ir.Type) -> str:
    """Return the type of the memory of an allocation; empty if its size is not known."""
    if not isinstance(kind, ir.MemRefType) or not kind.has_static_shape:
        return ""
    element, bits = _scalar(kind.element_type)
    return _array(element, bits, kind.shape) if element else ""


def _pointer_to(kind: ir.MemRefType) -> str:
    """Return the type of a pointer to the elements, or to rows of them where C has that: ``m[i][j]``."""
    element, bits = _scalar(kind.element_type)
    inner = kind.shape[1:]
    if not element or not is_contiguous(kind):
        return _pointer(element)
    if any(n == ir.ShapedType.get_dynamic_size() for n in inner):
        return _pointer(element)
    return _pointer(_array(element, bits, inner))


def _type_of(kind: ir.Type, lowered: ir.Type) -> str:
    """Return the type of a value of the source that became one of type ``lowered``; empty if unclear."""
    text, found = str(lowered), str(kind)
    if found.startswith(_POINTER):
        return _pointer() if text.startswith(_POINTER) else ""
    if found == "index" and text == "i32":  # a register that upstream has not extended
        return _basic("index", 32, "signed")
    expected = {found, re.sub(r"\b[su]i(?=\d)", "i", found).replace("index", "i64")}
    if found == "bf16":
        expected.add("i16")
    if _SMALL_FLOAT.fullmatch(found):
        expected.add("i8")
    return _scalar(kind)[0] if text in expected else ""


# ---- variables in LLVM's dialect ----


def _variables(function: ir.Operation, names: Names, *, workgroup_variables: bool) -> Iterator[_Variable]:
    blocks = list(function.regions[0].blocks)
    yield from _arguments(blocks, names)
    yield from _results(blocks, names)
    yield from _attributions(function, blocks[0], names, workgroup_variables=workgroup_variables)


def _arguments(blocks: Sequence[ir.Block], names: Names) -> Iterator[_Variable]:
    number = 0
    for block in blocks:
        start = block.operations[0].operation
        for location, group in groupby(block.arguments, lambda argument: str(argument.location)):
            values = list(group)
            named = names.values.get(location)
            if named is None or not named.argument:
                continue
            value, kind = values[0], ""
            if isinstance(named.type, ir.MemRefType):  # a descriptor, whose second part points to elements
                value = values[min(1, len(values) - 1)]
                if str(value.type).startswith(_POINTER):
                    kind = _pointer_to(named.type)
            elif len(values) == 1:
                kind = _type_of(named.type, value.type)
            if kind:
                number += 1
                yield _Variable(
                    named=named,
                    type=kind,
                    location=value.location,
                    values=[(value, start)],
                    argument=number if block == blocks[0] else 0,
                )


def _results(blocks: Sequence[ir.Block], names: Names) -> Iterator[_Variable]:
    found: dict[str, list[dict[ir.Operation, ir.Operation]]] = defaultdict(list)
    for block in blocks:
        here: dict[str, dict[ir.Operation, ir.Operation]] = defaultdict(dict)
        ops = [op.operation for op in block.operations]
        for op, following in pairwise(ops):
            named = names.values.get(location := str(op.location))
            if named is not None and not named.argument:
                here[location][op] = following
        for location, part in here.items():
            found[location].append(part)
    for location, parts in found.items():
        named = names.values[location]
        copies = {tuple(op.name for op in part) for part in parts}
        if len(parts) > 1 and not (named.simple and len(copies) == 1):
            continue
        memory = _memory(named.type)
        defining = [_defining(part, named, memory) for part in parts]
        values = [
            (op.results[0], part[op]) for op, part in zip(defining, parts, strict=True) if op is not None
        ]
        if len(values) == len(parts) and not (memory and len(parts) > 1):
            value = values[0][0]
            yield _Variable(
                named=named,
                type=memory or _type_of(named.type, value.type),
                location=value.owner.location,
                values=values,
                memory=bool(memory),
            )


def _defining(part: dict[ir.Operation, ir.Operation], named: Named, memory: str) -> ir.Operation | None:
    """Return the operation of ``part``, all with one location, that has the value of ``named``."""
    if memory:
        allocations = [op for op in part if op.name == "llvm.alloca"]
        return allocations[0] if len(allocations) == 1 else None
    last = [op for op in part if len(op.results) and _type_of(named.type, op.results[0].type)][-1:]
    if last and not any(use.owner.operation in part for use in last[0].results[0].uses):
        return last[0]
    return None


def _attributions(
    function: ir.Operation, entry: ir.Block, names: Names, *, workgroup_variables: bool
) -> Iterator[_Variable]:
    """Yield private memory, and memory of the workgroup where the target has no variables for it.

    The latter are references: LLVM loses a part of dereferenced addresses when it optimises.
    """
    private = names.private.get(symbol_name(function), [])
    ops = list(pairwise(op.operation for op in entry.operations))
    slots = [op for op, _ in ops if op.name == "llvm.alloca" and op.location == function.location]
    owners = dict(zip(slots, private, strict=True)) if len(slots) == len(private) else {}
    for op, following in ops:
        named, shared = owners.get(op), False
        if not workgroup_variables and op.name == "llvm.mlir.addressof":
            named = names.globals.get(op.attributes["global_name"].value)
            shared = True
            if str(op.results[0].type) != _WORKGROUP_POINTER:
                continue
        if named is not None and named.name and (kind := _memory(named.type)):
            yield _Variable(
                named=named,
                type=_pointer(kind, "reference") if shared else kind,
                location=function.location,
                values=[(op.results[0], following)],
                memory=not shared,
            )


# ---- debug information ----


class _Metadata:
    """Collects attributes of debug information, which refer to each other, and parses them at once."""

    def __init__(self, *, optimized: bool) -> None:
        self._optimized = optimized
        self._scopes: dict[str, int] = {}
        self._lines: list[str] = []
        self._wanted: list[str] = []

    def scope(self, function: ir.Operation) -> str:
        """Return the name of the attribute of a function with a location in a file."""
        name = symbol_name(function)
        if name not in self._scopes:
            number = self._scopes[name] = len(self._scopes) + 1
            file, line = _file(function.location), _line(function.location)
            if number == 1:
                self._lines.append(
                    "#cu = #llvm.di_compile_unit<id = distinct[0]<>, sourceLanguage = DW_LANG_C, "
                    f'file = {file}, producer = "gpubuild", '
                    f"isOptimized = {str(self._optimized).lower()}, emissionKind = Full>"
                )
            flags = "Definition|Optimized" if self._optimized else "Definition"
            self._lines.append(
                f"#sp{number} = #llvm.di_subprogram<id = distinct[{number}]<>, compileUnit = #cu, "
                f"scope = {file}, name = {_quoted(name)}, linkageName = {_quoted(name)}, file = {file}, "
                f'line = {line}, scopeLine = {line}, subprogramFlags = "{flags}", '
                "type = #llvm.di_subroutine_type<types = #llvm.di_null_type>>"
            )
        return f"#sp{self._scopes[name]}"

    def add(self, text: str) -> int:
        """Add an attribute; return its index among those of :meth:`parse`."""
        self._wanted.append(text)
        return len(self._wanted) - 1

    def local(self, variable: _Variable, scope: str) -> int:
        """Add a local variable."""
        argument = f"arg = {variable.argument}, " if variable.argument else ""
        where = variable.location
        return self.add(
            f"#llvm.di_local_variable<scope = {scope}, name = {_quoted(variable.named.name)}, "
            f"file = {_file(where)}, line = {_line(where)}, {argument}type = {variable.type}>"
        )

    def parse(self) -> list[ir.Attribute]:
        """Return all attributes that were added."""
        text = "\n".join(
            [*self._lines, f"module attributes {{{_VARIABLES} = [{', '.join(self._wanted)}]}} {{}}"]
        )
        return list(contexts.parse(text).operation.attributes[_VARIABLES])


def _file(location: ir.Location) -> str:
    position = file_position(location)
    return f"#llvm.di_file<{_quoted(position[0] if position else '')} in {_quoted('')}>"


def _line(location: ir.Location) -> int:
    position = file_position(location)
    return position[1] if position else 0


def _quoted(text: str) -> str:
    return str(ir.StringAttr.get(text))


def describe(
    *, workgroup_variables: bool, fixed_slots: bool = False, only_registers: bool = False
) -> Pass[Legalization]:
    """Return the pass that adds the variables that RECORD has found the names of.

    With ``workgroup_variables`` memory of the workgroup is a variable of the device. With ``fixed_slots``
    its debuggers do not know where in the code a variable has its value. With ``only_registers`` they do not
    know the address spaces of pointers; and booleans are masks of lanes.
    """

    def known(variable: _Variable) -> bool:
        return not only_registers or not (variable.memory or str(variable.named.type) == "i1")

    def run(module: ir.Module, state: Legalization) -> None:
        kernels = contexts.gpu_modules(module)[0]
        functions = [
            op
            for op in operations(kernels, ("llvm.func",))
            if len(op.regions[0].blocks) and file_position(op.location) is not None
        ]
        metadata = _Metadata(optimized=not state.keep_values)
        scopes = [(function, metadata.add(metadata.scope(function))) for function in functions]
        variables = [
            (function, variable, metadata.local(variable, metadata.scope(function)))
            for function in functions
            for variable in _variables(function, state.names, workgroup_variables=workgroup_variables)
            if known(variable)
        ]
        shared = _globals(kernels, functions, state.names, metadata) if workgroup_variables else []
        attributes = metadata.parse()
        for function, number in scopes:
            function.location = ir.Location.fused([function.location], attributes[number])
        for op, number in shared:
            op.attributes["dbg_exprs"] = ir.ArrayAttr.get([attributes[number]])
        writer = _Writer(state, fixed_slots=fixed_slots)
        for function, variable, number in variables:
            writer.end(function, variable, attributes[number])
        for function, variable, number in variables:
            writer.begin(function, variable, attributes[number])

    return Pass(name="describe-variables", run=run, when=lambda state: state.debug_variables)


def _globals(
    kernels: ir.Operation, functions: Sequence[ir.Operation], names: Names, metadata: _Metadata
) -> list[tuple[ir.Operation, int]]:
    """Add the variables of the device that are in the source; return them with the numbers of attributes."""
    owners = {symbol_name(function): function for function in functions}
    found = []
    for op in operations(kernels, ("llvm.mlir.global",)):
        named = names.globals.get(symbol_name(op))
        if named is None or not named.name or not (kind := _memory(named.type)):
            continue
        owner = owners.get(named.function)
        where = (owner or op).location
        if file_position(where) is None or not functions:
            continue
        scope = metadata.scope(owner) if owner else "#cu"
        number = metadata.add(
            "#llvm.di_global_variable_expression<var = #llvm.di_global_variable<"
            f"scope = {scope}, name = {_quoted(named.name)}, linkageName = {_quoted(symbol_name(op))}, "
            f"file = {_file(where)}, line = {_line(where)}, type = {kind}, "
            "isLocalToUnit = true, isDefined = true>, expr = <>>"
        )
        found.append((op, number))
    return found


class _Writer:
    """Creates the operations that give variables their values."""

    def __init__(self, state: Legalization, *, fixed_slots: bool) -> None:
        self._slots = state.keep_values
        self._fixed = fixed_slots and state.keep_values
        space = state.capabilities.private_space
        self._pointer = ir.Type.parse(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")
        self._frontiers: dict[ir.Block, list[ir.Block]] = {}
        self._expressions = [
            ir.Attribute.parse(f"#llvm.di_expression<{text}>") for text in ("", "[DW_OP_deref]")
        ]

    def end(self, function: ir.Operation, variable: _Variable, attribute: ir.Attribute) -> None:
        """End the variable wherever its definition does not certainly come before."""
        if self._fixed or variable.memory:
            return
        frontier: dict[ir.Block, ir.Value] = {}
        for value, following in variable.values:
            defining = following.block
            if defining not in self._frontiers:
                self._frontiers[defining] = _frontier(defining, list(function.regions[0].blocks))
            frontier.update(dict.fromkeys(self._frontiers[defining], value))
        for block, value in frontier.items():
            emit = Emitter(block.operations[0].operation, location=_plain(variable.location))
            none = emit.value("llvm.mlir.poison", [], value.type)
            self._describe(emit, attribute, none)

    def begin(self, function: ir.Operation, variable: _Variable, attribute: ir.Attribute) -> None:
        """Give the variable each of its values."""
        slot = None
        for value, following in variable.values:
            emit = Emitter(following, location=_plain(variable.location))
            if not self._slots or variable.memory:
                self._describe(emit, attribute, value, declare=variable.memory)
                continue
            if slot is None:
                slot = self._slot(function, variable, value.type)
                if self._fixed:
                    self._describe(emit, attribute, slot, declare=True)
            emit.op("llvm.store", [value, slot], [], {"ordering": ir.Attribute.parse("0 : i64")})
            if not self._fixed:
                self._describe(emit, attribute, slot, dereferenced=True)

    def _slot(self, function: ir.Operation, variable: _Variable, kind: ir.Type) -> ir.Value:
        entry = function.regions[0].blocks[0].operations[0].operation
        emit = Emitter(entry, location=_plain(variable.location))
        i32 = ir.IntegerType.get_signless(32)
        one = emit.value("llvm.mlir.constant", [], i32, {"value": ir.IntegerAttr.get(i32, 1)})
        return emit.value("llvm.alloca", [one], self._pointer, {"elem_type": ir.TypeAttr.get(kind)})

    def _describe(
        self,
        emit: Emitter,
        variable: ir.Attribute,
        value: ir.Value,
        *,
        dereferenced: bool = False,
        declare: bool = False,
    ) -> None:
        attributes = {"varInfo": variable, "locationExpr": self._expressions[dereferenced]}
        emit.op("llvm.intr.dbg.declare" if declare else "llvm.intr.dbg.value", [value], [], attributes)


def _plain(location: ir.Location) -> ir.Location:
    file, line, column = file_position(location) or ("", 0, 0)
    return ir.Location.file(file, line, column)


def _frontier(block: ir.Block, blocks: Sequence[ir.Block]) -> list[ir.Block]:
    """Return the dominance frontier of ``block``: there control flow may come from elsewhere, too."""
    if len(blocks) == 1:
        return []
    # Blocks that are reached without passing `block` are not dominated by it.
    seen: set[ir.Block] = set()
    pending = [blocks[0]] if blocks[0] != block else []
    while pending:
        one = pending.pop()
        if one not in seen:
            seen.add(one)
            pending += [b for b in _successors(one) if b != block]
    dominated = [one for one in blocks if one not in seen]
    targets = {b for one in dominated for b in _successors(one)}
    return [one for one in blocks if one in targets and (one in seen or one == block)]


def _successors(block: ir.Block) -> list[ir.Block]:
    return list(terminator(block).successors)


RECORD: Pass[Legalization] = Pass(
    name="record-variable-names", run=_record, when=lambda state: state.debug_variables
)
