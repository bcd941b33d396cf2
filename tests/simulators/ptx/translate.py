"""Translate PTX text to LLVM IR that ``simulators.device_ir`` runs.

:func:`device_ir` returns text for ``simulators.device_ir.runner.DeviceModule.load(text, chip)``. Kernels keep
their names and the order of their parameters: ``.u64 .b32 …`` become ``i64 i32 …``, bytes (``.b8 x[16]``)
become ``[16 x i8]``. Variables keep their names.

- An unknown instruction ends the kernel that executes it, with a message that contains its line and text.
  ``HostForm.unknown`` lists them by kernel. With ``strict=True`` it raises :class:`PtxError`.
- Every access is checked for alignment, and in shared memory for its bounds. Addresses of ``.shared``,
  ``.local`` and ``.const`` need ``cvta`` before they are generic addresses.
- Registers and local memory have an improbable value until they are written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from functools import partial

from simulators.device_ir.host_form import split
from simulators.ptx import (  # they fill the table
    control,
    conversions,
    integers,
    lanes,
    matrices,
    memory,
    reals,
)
from simulators.ptx.body import TAGS, Body
from simulators.ptx.control import block
from simulators.ptx.source import Function, Instruction, Module, PtxError, Variable, bits_of, parse
from simulators.ptx.table import meaning_of

assert all((control, conversions, integers, lanes, matrices, memory, reals))
_POISON_BYTE = 0xE5
_SYMBOL = re.compile(
    r"(?P<generic>generic\s*\(\s*)?(?P<name>[A-Za-z_$][\w$]*)\s*\)?\s*(?:\+\s*(?P<offset>\d+))?"
)


def device_ir(ptx: str, *, strict: bool = False) -> str:
    """Return the LLVM IR of a PTX module. Raises :class:`PtxError`, which contains the line."""
    module = parse(ptx)
    names: dict[str, Variable | Function] = {v.name: v for v in module.variables}
    names.update(module.functions)
    needs: dict[str, str] = {}
    texts = [_function(f, names, needs, module, strict) for f in module.functions.values() if f.defined]
    variables = [_at(v.line, partial(_variable, v, names)) for v in module.variables]
    return "\n".join([*variables, *texts, *needs.values()]) + "\n"


def _at(line: int, make: Callable[[], str]) -> str:
    try:
        return make()
    except PtxError as error:
        raise PtxError(f"line {line}: {error}") from error


# ---- variables ----

_SPACE_NUMBERS = {"global": 1, "shared": 3, "const": 4}


def _variable(v: Variable, names: dict[str, Variable | Function]) -> str:
    kind, value = _initial(v, names) if v.initial else (f"[{v.bytes} x i8]", "zeroinitializer")
    if v.space == "shared":
        outside = v.external or v.count == 0
        kind = "external addrspace(3) global [0 x i8]" if outside else (
            f"internal addrspace(3) global [{v.bytes} x i8] undef")  # fmt: skip
        return f"@{v.name} = {kind}, align {v.align}"
    if v.external:
        raise PtxError(f"{v.name} is not defined")
    linkage = "" if v.visible else "internal "
    return f"@{v.name} = {linkage}addrspace({_SPACE_NUMBERS[v.space]}) global {kind} {value}, align {v.align}"


def _initial(v: Variable, names: dict[str, Variable | Function]) -> tuple[str, str]:
    """Return type and value."""
    size = bits_of(v.kind) // 8
    elements = _flat(v.initial)
    left = (1 if v.count is None else v.count) - len(elements)
    if left < 0:
        raise PtxError(f"{v.name} has more values than elements")
    plain = [_number(e, v.kind) for e in elements]
    if all(p is not None for p in plain):
        data = b"".join(p for p in plain if p is not None) + bytes(left * size)
        return f"[{len(data)} x i8]", 'c"' + "".join(f"\\{byte:02X}" for byte in data) + '"'
    if size != 8:
        raise PtxError(f"{v.name} contains parts of addresses")
    words = [f"i64 {_address(e, names)}" if p is None else f"i64 {struct.unpack('<Q', p)[0]}"
             for e, p in zip(elements, plain, strict=True)]  # fmt: skip
    return f"[{len(elements) + left} x i64]", f"[{', '.join([*words, *(['i64 0'] * left)])}]"


def _flat(text: str) -> list[str]:
    text = text.strip()
    return [e for part in split(text[1:-1].strip()) for e in _flat(part)] if text.startswith("{") else [text]


def _number(text: str, kind: str) -> bytes | None:
    """Return the bytes of a number; ``None`` for anything else."""
    size = bits_of(kind) // 8
    if found := re.fullmatch(r"0[fFdD]([0-9a-fA-F]+)", text):
        return int(found[1], 16).to_bytes(size, "little")
    if re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|\d+)U?", text):
        return (int(text.rstrip("U"), 0) % (1 << 8 * size)).to_bytes(size, "little")
    return None


def _address(text: str, names: dict[str, Variable | Function]) -> str:
    found = _SYMBOL.fullmatch(text)
    target = names.get(found["name"]) if found else None
    if found is None or target is None:
        raise PtxError(f"cannot read {text}")
    offset = int(found["offset"] or 0)
    if isinstance(target, Variable):
        if target.space not in ("global", "const"):
            raise PtxError(f"the address of {target.name} is not known before a launch")
        offset += 0 if found["generic"] else TAGS.get(target.space, 0)
    value = f"ptrtoint (ptr @{found['name']} to i64)"
    return f"add (i64 {value}, i64 {offset})" if offset else value


# ---- functions ----


def _function(
    function: Function,
    names: dict[str, Variable | Function],
    needs: dict[str, str],
    module: Module,
    strict: bool,
) -> str:
    f = Body(function=function, globals=names, needs=needs)
    module_variables = []
    for variable in function.variables:
        if variable.space in ("shared", "global", "const"):
            if variable.name in names:
                raise PtxError(f"line {variable.line}: {variable.name} is declared twice")
            names[variable.name] = variable
            module_variables.append(variable)
        else:
            f.local[variable.name] = variable
            f.head.append(
                f"  {f.variable(variable.name)} = alloca [{variable.bytes} x i8], align {variable.align}"
            )
            f.head.append(
                f"  call void @llvm.memset.p0.i64(ptr {f.variable(variable.name)}, i8 {_POISON_BYTE - 256}, "
                f"i64 {variable.bytes}, i1 false)"
            )
            needs.setdefault("llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    module.variables += module_variables
    parameters = _parameters(f)
    for instruction in function.body:
        _instruction(f, instruction, strict)
    kind = "ptx_kernel void" if function.kernel else "internal void"
    if f.open:  # the end is not reachable
        f.end("unreachable")
    return "\n".join([f"define {kind} @{function.name}({parameters}) {{", "entry:", *f.head,
                      "  br label %.start", ".start:", *f.lines, "}"])  # fmt: skip


def _parameters(f: Body) -> str:
    """Return the parameters. Kernels copy them; functions access the memory of their callers."""
    function = f.function
    for variable in (*function.results, *function.parameters):
        f.local[variable.name] = variable
    if not function.kernel:
        return ", ".join(f"ptr {f.variable(v.name)}" for v in (*function.results, *function.parameters))
    parts = []
    for number, v in enumerate(function.parameters):
        kind = f"i{bits_of(v.kind)}" if v.count is None else f"[{v.bytes} x i8]"
        parts.append(f"{kind} %a.{number}")
        f.head.append(f"  {f.variable(v.name)} = alloca {kind}, align {v.align}")
        f.head.append(f"  store {kind} %a.{number}, ptr {f.variable(v.name)}, align {v.align}")
    return ", ".join(parts)


def _instruction(f: Body, i: Instruction, strict: bool) -> None:
    if i.opcode == ":":
        if f.open:
            f.end(f"br label %{block(i.operands[0])}")
        f.begin(block(i.operands[0]))
        return
    if not f.open:
        f.begin(f.label())
    behind = ""
    if i.guard:
        is_branch = i.opcode in ("bra", "bra.uni") and len(i.operands) == 1
        inside, behind = block(i.operands[0]) if is_branch else f.label(), f.label()
        sides = (behind, inside) if i.negated else (inside, behind)
        f.end(f"br i1 {f.bits(i.guard, 1)}, label %{sides[0]}, label %{sides[1]}")
        f.begin(behind if is_branch else inside)
        if is_branch:
            return
    try:
        found = meaning_of(i.opcode)
        if found is None:
            raise PtxError("not known here")
        found[0](f, i, found[1])
    except PtxError as error:
        if strict:
            raise PtxError(f"line {i.line}: {i.opcode} {', '.join(i.operands)}: {error}") from error
        message = re.sub(r"[^\w.]+", "_", f"{i.opcode} {error}")
        f.call("void", f"ptx.line.{i.line}.{message}")
    if behind:
        if f.open:
            f.end(f"br label %{behind}")
        f.begin(behind)
