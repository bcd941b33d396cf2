"""Text of ``#gpu.kernel_table``, the list of an object's kernels, which the bindings cannot take apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from gpubuild.engine.ir.query import symbol_name
from gpubuild.support.frozen import frozen, replace
from gpubuild.support.text import escaped

Value = int | str | Sequence[int]

_PREFIX, _SUFFIX = "#gpu.kernel_table<[", "]>"
_ITEM = "#gpu.kernel_metadata<"
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|>=|[<({\[\])}>,]')


@frozen
class KernelEntry:
    """One ``#gpu.kernel_metadata``, with its parameters as text; empty where it has none."""

    name: str
    function_type: str
    arg_attrs: str = ""
    metadata: str = ""


def entry_of(function: ir.Operation, *, hidden: int = 0) -> KernelEntry:
    """Return the entry of an ``llvm.func``, without its last ``hidden`` parameters."""
    if not hidden:
        kind = str(function.attributes["function_type"].value)
    else:
        types = [str(argument.type) for argument in function.regions[0].blocks[0].arguments]
        kind = str(ir.Type.parse(f"!llvm.func<void ({', '.join(types[:-hidden])})>"))
    attributes = ""
    if "arg_attrs" in function.attributes:
        given = list(function.attributes["arg_attrs"])
        attributes = str(ir.ArrayAttr.get(given[:-hidden] if hidden else given))
    return KernelEntry(name=symbol_name(function), function_type=kind, arg_attrs=attributes)


def table_text(entries: Sequence[KernelEntry], metadata: Mapping[str, Mapping[str, Value]]) -> str:
    """Return a table of ``entries`` with the known ``metadata`` of each; MLIR cannot parse an empty one."""
    return _text([replace(e, metadata=_dictionary(metadata.get(e.name, {}))) for e in entries])


def without_metadata(text: str) -> str:
    """Return a table without what only machine code determines."""
    return _text([replace(entry, metadata="") for entry in read_table(text)])


def _text(entries: Sequence[KernelEntry]) -> str:
    items = []
    for entry in entries:
        parts = [f'"{escaped(entry.name.encode())}"', entry.function_type]
        parts += [f"arg_attrs = {entry.arg_attrs}"] * bool(entry.arg_attrs)
        parts += [f"metadata = {entry.metadata}"] * bool(entry.metadata)
        items.append(f"{_ITEM}{', '.join(parts)}>")
    return f"{_PREFIX}{', '.join(items)}{_SUFFIX}" if items else ""


def _dictionary(values: Mapping[str, Value]) -> str:
    texts = []
    for name, value in sorted(values.items()):
        if isinstance(value, int):
            texts.append(f"{name} = {value} : i64")
        elif isinstance(value, str):
            texts.append(f'{name} = "{escaped(value.encode())}"')
        else:
            texts.append(f"{name} = array<i32: {', '.join(map(str, value))}>")
    return f"{{{', '.join(texts)}}}" if texts else ""


def read_table(text: str) -> list[KernelEntry]:
    """Return the entries of a table as MLIR prints it. Needs a context."""
    found = []
    for item in _items(text.removeprefix(_PREFIX).removesuffix(_SUFFIX)):
        name, kind, *others = _items(item.removeprefix(_ITEM).removesuffix(">"))
        named = dict(other.split(" = ", 1) for other in others)
        found.append(
            KernelEntry(
                name=ir.StringAttr(ir.Attribute.parse(name)).value,
                function_type=kind,
                arg_attrs=named.get("arg_attrs", ""),
                metadata=named.get("metadata", ""),
            )
        )
    return found


def described(text: str) -> list[dict[str, object]]:
    """Return a table as values of JSON. Needs a context."""
    return [
        {
            "name": entry.name,
            "function_type": entry.function_type,
            "arg_attrs": [str(a) for a in ir.ArrayAttr(ir.Attribute.parse(entry.arg_attrs or "[]"))],
            "metadata": {
                item.name: _value(item.attr)
                for item in ir.DictAttr(ir.Attribute.parse(entry.metadata or "{}"))
            },
        }
        for entry in read_table(text)
    ]


def _value(attribute: ir.Attribute) -> int | str | list[int]:
    if isinstance(attribute, ir.IntegerAttr | ir.StringAttr):
        value: int | str = attribute.value
        return value
    return list(attribute) if isinstance(attribute, ir.DenseI32ArrayAttr) else str(attribute)


def _items(text: str) -> Iterator[str]:
    """Yield the parts of a list that its outer commas separate."""
    depth = start = 0
    for match in _TOKEN.finditer(text):
        if match[0] in tuple("<({["):
            depth += 1
        elif match[0] in tuple(">)}]"):
            depth -= 1
        elif match[0] == "," and not depth:
            yield text[start : match.start()].strip()
            start = match.end()
    if rest := text[start:].strip():
        yield rest
