"""Names of SSA values, which MLIR forgets when it parses, as locations that debuggers' variables come from.

The location of a parsed operation points behind ``%name = ``, that of an argument of a block to its
``%name``. So the text tells the names. A name becomes a ``NameLoc`` around the location. Text in MLIR's own
syntax lacks the locations of most arguments, so there the operation around them lists their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.ir.query import (
    KERNEL_OPERANDS,
    defining_op,
    launch_operands,
    matching,
    operations,
    symbol_name,
)

ARGUMENTS = "gpubuild.argument_names"
_NAME = re.compile(r"[A-Za-z_$][\w$.-]*|%\d+")
_ARGUMENT = re.compile(rb"%([\w$.-]+)")
_RESULT = re.compile(rb"%([\w$.-]+)(?:\s*,\s*%[\w$.-]+)*\s*=\s*$")  # of several results the first
_LAUNCH = "gpu.launch"
_IDS = [f"gpu.{what} {axis}" for what in ("block_id", "thread_id", "grid_dim", "block_dim") for axis in "xyz"]
_CLUSTER_IDS = [f"gpu.{what} {axis}" for what in ("cluster_id", "cluster_dim") for axis in "xyz"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A value or a piece of memory of the source, with its type there."""

    name: str
    type: ir.Type
    function: str = ""  # which alone has this memory
    argument: bool = False  # of a block, also what becomes one
    simple: bool = True  # its operation becomes one


@dataclass(slots=True)
class Names:
    """Values by the text of their location, variables by symbol, and the private memory of functions."""

    values: dict[str, Named] = field(default_factory=dict)
    globals: dict[str, Named] = field(default_factory=dict)
    private: dict[str, list[Named]] = field(default_factory=dict)


def name_of(location: ir.Location) -> str:
    """Return the name of a value with ``location``; empty if it has none, or one that is no identifier."""
    if location.is_a_name() and _NAME.fullmatch(location.name_str):
        return str(location.name_str)
    return ""


def name_values(module: ir.Module, text: str, source_name: str) -> None:
    """Give operations with results and arguments in ``module``, parsed from ``text``, their names there."""
    lines = [line.encode() for line in text.split("\n")]

    def named(location: ir.Location, *, result: bool) -> ir.Location:
        if not _is_written(location, source_name):
            return location
        line, column = lines[location.start_line - 1], location.start_col - 1
        found = _RESULT.search(line, 0, column) if result else _ARGUMENT.match(line, column)
        if found is None:
            return location
        name = found[1].decode()
        return ir.Location.name("%" + name if name.isdecimal() else name, location)

    for op in _operations(module):
        if len(op.results) and op.name != _LAUNCH:
            op.location = named(op.location, result=True)
        for argument in _arguments(op):
            argument.set_location(named(argument.location, result=False))


def argument_names(module: ir.Module, text: str, source_name: str) -> dict[str, list[str]]:
    """Return the names of the arguments of functions in ``module``, parsed from ``text``.

    By function, or MODULE::FUNCTION for those of a gpu.module.
    """
    lines = [line.encode() for line in text.split("\n")]
    top = [op.operation for op in module.body]
    functions = {symbol_name(op): op for op in top if op.name == "func.func"}
    for inner in top:
        if inner.name == "gpu.module":
            kernels = (op.operation for op in inner.regions[0].blocks[0])
            functions |= {
                f"{symbol_name(inner)}::{symbol_name(op)}": op for op in kernels if op.name == "gpu.func"
            }
    return {
        name: [_argument_name(a.location, lines, source_name) for a in op.regions[0].blocks[0].arguments]
        for name, op in functions.items()
        if op.regions[0].blocks
    }


def _is_written(location: ir.Location, source_name: str) -> bool:
    """Return whether it is where the parser found something."""
    return bool(location.is_a_file() and location.filename == source_name)


def _argument_name(location: ir.Location, lines: list[bytes], source_name: str) -> str:
    if not _is_written(location, source_name):
        return name_of(location)
    found = _ARGUMENT.match(lines[location.start_line - 1], location.start_col - 1)
    name = found[1].decode() if found is not None else ""
    return "" if name.isdecimal() else name


def names_of_launches(module: ir.Module) -> dict[str, list[str]]:
    """Return the names of the arguments in the body of each gpu.launch, by its location."""
    launches = operations(module.operation, (_LAUNCH,))
    return {
        str(op.location): [name_of(a.location) for a in op.regions[0].blocks[0].arguments] for op in launches
    }


def name_kernels(module: ir.Module, launches: dict[str, list[str]]) -> None:
    """Give the names of :func:`names_of_launches` and of arguments to the kernels made of launches."""
    captured = {}
    for op in operations(module.operation, ("gpu.launch_func",)):
        numbers = launch_operands(op, KERNEL_OPERANDS)
        captured[str(op.location)] = [name_of(_location(op.operands[number])) for number in numbers]
    for kernel in operations(module.operation, ("gpu.func",)):
        where = str(kernel.location)
        if where not in launches:
            continue
        names = launches[where]
        arguments = list(kernel.regions[0].blocks[0].arguments)
        own = captured.get(where, [])
        attributions = len(arguments) - len(own)
        ids = [*_IDS, *_CLUSTER_IDS][: len(names) - attributions]
        by_id = dict(zip(ids, names, strict=False))
        for argument, name in zip(arguments, [*own, *names[len(ids) :]], strict=False):
            _name(argument, name, kernel.location)
        for op in _operations(kernel):
            if "dimension" in op.attributes and str(op.location) == where:
                axis = str(op.attributes["dimension"]).removesuffix(">")[-1]
                if own_name := by_id.get(f"{op.name} {axis}"):
                    op.location = ir.Location.name(own_name, op.location)


def _location(value: ir.Value) -> ir.Location:
    owner = defining_op(value)
    return ir.BlockArgument(value).location if owner is None else owner.location


def _name(argument: ir.BlockArgument, name: str, location: ir.Location) -> None:
    if name and not name_of(argument.location):
        argument.set_location(ir.Location.name(name, location))


def write_argument_names(module: ir.Module) -> None:
    """List the names of arguments in attributes, for text."""
    for op in _operations(module):
        names = [name_of(argument.location) for argument in _arguments(op)]
        if any(names):
            op.attributes[ARGUMENTS] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])


def read_argument_names(module: ir.Module) -> None:
    """Replace the attributes ``ARGUMENTS`` by locations."""
    for op in _operations(module):
        if ARGUMENTS not in op.attributes:
            continue
        names = [ir.StringAttr(name).value for name in op.attributes[ARGUMENTS]]
        del op.attributes[ARGUMENTS]
        arguments = list(_arguments(op))
        if len(names) == len(arguments):  # else a pass changed them
            for name, argument in zip(names, arguments, strict=True):
                _name(argument, name, op.location)


def _operations(root: ir.Module | ir.Operation) -> list[ir.Operation]:
    return matching(root.operation, lambda _: True)


def _arguments(op: ir.Operation) -> Iterator[ir.BlockArgument]:
    return (argument for region in op.regions for block in region.blocks for argument in block.arguments)
