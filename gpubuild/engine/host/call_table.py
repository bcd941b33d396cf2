"""LLVM IR of the entry points that headers and Python modules call.

Each function has an entry point whose symbol names its ABI. It takes types that every compiler passes in
the same way: the bits of 16-bit floats, and the parts of complex numbers. The call table has, for each
function, a variant that takes an array of pointers to its arguments, and the images of each gpu.module.
"""

from __future__ import annotations

from gpubuild.engine.host.gpu_binary import images_symbol
from gpubuild.engine.host.interface import (
    Function,
    Interface,
    Kind,
    abi_name,
    modules,
    returns_by_pointer,
    table_name,
)
from gpubuild.support.text import escaped

_TYPES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double", "index": "i64"}
_BITS = {"f16": "i16", "bf16": "i16", "i1": "i8"}
RUNTIME = "gpubuildCalls"  # functions of the runtime for Python modules: runtime/abi/library.c


def write(program: str, interface: Interface, *, table: bool) -> str:
    """Return LLVM IR that defines the entry points and, for Python, the call table."""
    usable = [function for function in interface["functions"] if not function["reason"]]
    parts = [_entry_point(function) for function in usable]
    if table:
        parts += [_packed(function, number) for number, function in enumerate(usable)]
        parts += _table(program, interface, len(usable))
    return "\n".join(parts) + "\n"


def _table(program: str, interface: Interface, functions: int) -> list[str]:
    parts = [f"@{RUNTIME} = external constant ptr"]
    pointers = [f"ptr @{RUNTIME}", *(f"ptr @packed.{number}" for number in range(functions))]
    for module in modules(interface):
        images = escaped(images_symbol(module).encode())
        parts.append(f'@"{images}" = external hidden constant i8')
        parts.append(f'@"{images}.size" = external hidden constant i64')
        pointers += [f'ptr @"{images}"', f'ptr @"{images}.size"']
    name = table_name(program, interface)
    return [*parts, f"@{name} = constant [{len(pointers)} x ptr] [{', '.join(pointers)}]"]


def _type(element: str) -> str:
    if element.startswith("complex"):
        part = _type(element[len("complex<") : -1])
        return f"{{ {part}, {part} }}"
    return _TYPES.get(element, element)


def _passed(kind: Kind) -> list[str]:
    """Return the types of the parameters that an argument becomes."""
    element = kind["element"]
    if kind["sizes"] is not None:
        return ["ptr"]
    if element.startswith("complex"):
        return [_type(element[len("complex<") : -1])] * 2
    return [_BITS.get(element, _type(element))]


def _result(function: Function) -> str:
    """Return the type that the entry point returns."""
    if returns_by_pointer(function) or not function["results"]:
        return "void"
    return _passed(function["results"][0]["type"])[0]


def _extension(function: Function) -> str:
    """Return how C expects a narrow result."""
    type_ = _result(function)
    if type_ not in ("i8", "i16"):
        return ""
    return "zeroext " if function["results"][0]["type"]["element"] in _BITS else "signext "


def _parameters(function: Function) -> list[str]:
    passed = [type_ for argument in function["arguments"] for type_ in _passed(argument["type"])]
    return ["ptr", *passed] if returns_by_pointer(function) else passed


def _entry_point(function: Function) -> str:
    wrapper = escaped(f"_mlir_ciface_{function['name']}".encode())
    target = f'@"{wrapper}"'
    lines: list[str] = []
    operands: list[str] = []
    types: list[str] = []
    number = 0
    if returns_by_pointer(function):
        operands, types, number = ["ptr %0"], ["ptr"], 1
    for argument in function["arguments"]:
        kind = argument["type"]
        element, value = kind["element"], f"%v{number}"
        type_ = "ptr" if kind["sizes"] is not None else _type(element)
        if kind["sizes"] is None and element.startswith("complex"):
            part = _passed(kind)[0]
            lines.append(f"{value}.re = insertvalue {type_} poison, {part} %{number}, 0")
            lines.append(f"{value} = insertvalue {type_} {value}.re, {part} %{number + 1}, 1")
            number += 1
        elif kind["sizes"] is None and element == "i1":
            lines.append(f"{value} = icmp ne i8 %{number}, 0")
        elif kind["sizes"] is None and element in _BITS:
            lines.append(f"{value} = bitcast i16 %{number} to {type_}")
        else:
            value = f"%{number}"
        number += 1
        operands.append(f"{type_} {value}")
        types.append(type_)
    returned = _result(function)
    native = returned if returned == "void" else _type(function["results"][0]["type"]["element"])
    call = f"call {native} {target}({', '.join(operands)})"
    if returned == "void":
        lines += [call, "ret void"]
    else:
        lines.append(f"%r = {call}")
        if native != returned:
            lines.append(f"%x = {'zext' if native == 'i1' else 'bitcast'} {native} %r to {returned}")
        lines.append(f"ret {returned} {'%r' if native == returned else '%x'}")
    parameters = ", ".join(f"{type_} %{n}" for n, type_ in enumerate(_parameters(function)))
    body = "\n".join(f"  {line}" for line in lines)
    return (
        f"declare {native} {target}({', '.join(types)})\n"
        f"define {_extension(function)}{returned} @{abi_name(function)}({parameters}) {{\n{body}\n}}\n"
    )


def _packed(function: Function, number: int) -> str:
    """Return a function that loads arguments from memory. The first pointer is where a result goes."""
    lines: list[str] = []
    operands: list[str] = []

    def pointer(slot: int) -> str:
        lines.append(f"%s{slot} = getelementptr ptr, ptr %arguments, i64 {slot}")
        lines.append(f"%p{slot} = load ptr, ptr %s{slot}")
        return f"%p{slot}"

    returned = _result(function)
    result = pointer(0) if function["results"] else ""
    if returns_by_pointer(function):
        operands.append(f"ptr {result}")
    for slot, argument in enumerate(function["arguments"], 1):
        place = pointer(slot)
        types = _passed(argument["type"])
        if types == ["ptr"]:
            operands.append(f"ptr {place}")
            continue
        for part, type_ in enumerate(types):
            value = f"%a{slot}.{part}"
            lines.append(f"{value}.p = getelementptr {type_}, ptr {place}, i64 {part}")
            lines.append(f"{value} = load {type_}, ptr {value}.p")
            operands.append(f"{type_} {value}")
    call = f"call {_extension(function)}{returned} @{abi_name(function)}({', '.join(operands)})"
    lines += [call] if returned == "void" else [f"%r = {call}", f"store {returned} %r, ptr {result}"]
    body = "\n".join(f"  {line}" for line in lines)
    return f"define internal void @packed.{number}(ptr %arguments) {{\n{body}\n  ret void\n}}\n"
