"""Atomic operations and fences, in LLVM IR text: LLVM's code generator gives them semantics without memory.

It writes the order alone, which then holds for no class of memory, and the scope of all devices, which OpenCL
devices need not have. As calls of SPIR-V's functions they have the scope of the device, and order global and
workgroup memory, as on other GPUs.
"""

from __future__ import annotations

import re

_RESULT, _POINTER = r"(?P<result>\s*%\S+ = )", r"(?P<pointer>ptr(?: addrspace\((?P<space>\d)\))? \S+), "
_SCOPE, _REST = r'(?: syncscope\("(?P<scope>[\w-]+)"\))? (?P<order>\w+)', r"(?:, align \d+)?(?P<rest>.*)"
_ATOMIC = re.compile(
    rf"{_RESULT}atomicrmw (?:volatile )?(?P<what>\w+) {_POINTER}(?P<type>\w+) (?P<value>\S+){_SCOPE}{_REST}"
)
_EXCHANGE = re.compile(
    rf"{_RESULT}cmpxchg (?:weak )?(?:volatile )?{_POINTER}(?P<type>\w+) (?P<old>\S+), \w+ (?P<value>\S+)"
    rf"{_SCOPE} (?P<failed>\w+){_REST}"
)
_FENCE = re.compile(rf"\s*fence{_SCOPE}(?P<rest>.*)")
_OPERATIONS = {
    "add": "IAdd", "sub": "ISub", "xchg": "Exchange", "and": "And", "or": "Or", "xor": "Xor",
    "max": "SMax", "min": "SMin", "umax": "UMax", "umin": "UMin",
}  # fmt: skip
_MANGLED = {"i32": "i", "i64": "l", "float": "f", "double": "d"}
_SCOPES = {"workgroup": 2, "block": 2, "subgroup": 3, "wavefront": 3, "singlethread": 4}
_DEVICE = 1
_ORDERS = {"monotonic": 0, "acquire": 2, "release": 4, "acq_rel": 8, "seq_cst": 16}
_MEMORY = 0x300  # WorkgroupMemory, CrossWorkgroupMemory


def with_memory(text: str) -> str:
    """Return LLVM IR text whose atomic operations and fences are calls of SPIR-V's functions."""
    if not any(word in text for word in ("atomicrmw", "cmpxchg", "fence")):
        return text
    declared: dict[str, str] = {}
    lines = [_line(number, line, declared) for number, line in enumerate(text.split("\n"))]
    return "\n".join(lines + list(declared.values()))


def _line(number: int, line: str, declared: dict[str, str]) -> str:
    if found := _ATOMIC.fullmatch(line):
        if found["what"] in _OPERATIONS and found["type"] in _MANGLED:
            name = f"__spirv_Atomic{_OPERATIONS[found['what']]}"
            call = _call(name, found, [_order(found["order"])], [found["value"]], declared)
            return f"{found['result']}{call}{found['rest']}"
    elif found := _EXCHANGE.fullmatch(line):
        if found["type"] in _MANGLED:
            orders = [_order(found["order"]), _order(found["failed"])]
            values = [found["value"], found["old"]]
            call = _call("__spirv_AtomicCompareExchange", found, orders, values, declared)
            return _pair(number, found, call)
    elif found := _FENCE.fullmatch(line):
        declared["fence"] = "declare void @_Z21__spirv_MemoryBarrierii(i32, i32)"
        scope, order = _SCOPES.get(found["scope"], _DEVICE), _order(found["order"])
        return f"  call void @_Z21__spirv_MemoryBarrierii(i32 {scope}, i32 {order}){found['rest']}"
    return line


def _call(
    name: str, found: re.Match[str], orders: list[int], values: list[str], declared: dict[str, str]
) -> str:
    kind, letter = found["type"], _MANGLED[found["type"]]
    space = f"U3AS{found['space']}" if found["space"] else ""
    mangled = f"_Z{len(name)}{name}P{space}{letter}{'i' * (1 + len(orders))}{letter * len(values)}"
    numbers = [_SCOPES.get(found["scope"], _DEVICE), *orders]
    types = [found["pointer"].rpartition(" ")[0], *["i32"] * len(numbers), *[kind] * len(values)]
    declared[mangled] = f"declare {kind} @{mangled}({', '.join(types)})"
    given = [found["pointer"], *(f"i32 {n}" for n in numbers), *(f"{kind} {value}" for value in values)]
    return f"call {kind} @{mangled}({', '.join(given)})"


def _pair(number: int, found: re.Match[str], call: str) -> str:
    """Make what cmpxchg returns: the value before, and whether it was the expected one."""
    kind, rest = found["type"], found["rest"]
    old, same, half = (f"%gpubuild.{what}.{number}" for what in ("old", "same", "half"))
    return "\n".join(
        (
            f"  {old} = {call}{rest}",
            f"  {same} = icmp eq {kind} {old}, {found['old']}",
            f"  {half} = insertvalue {{ {kind}, i1 }} poison, {kind} {old}, 0",
            f"{found['result']}insertvalue {{ {kind}, i1 }} {half}, i1 {same}, 1",
        )
    )


def _order(word: str) -> int:
    order = _ORDERS[word]
    return order | _MEMORY if order else 0
