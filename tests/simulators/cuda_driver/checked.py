"""Add calls to device IR by which the driver checks each access to memory.

A GPU's MMU ends a kernel that uses an address of the host or beyond an allocation. Here both are memory of
one process.
"""

from __future__ import annotations

import re

from simulators.device_ir.host_form import split, type_of

_ACCESS = re.compile(
    r"^\s*(?:%\S+ = )?(?P<what>load|store|atomicrmw|cmpxchg)\b(?: atomic\b| volatile\b| weak\b)* (?P<rest>.*)"
)
_POINTER = re.compile(r"ptr(?: addrspace\((?P<space>\d+)\))? (?P<name>%[\w.$-]+)$")
_BYTES = {"half": 2, "bfloat": 2, "float": 4, "double": 8, "ptr": 8, "fp128": 16}
_OF_THE_HOST = "%slot."  # registers, which are no memory of the program
_CHECKED_SPACES = (None, "1")


def size_of(kind: str) -> int:
    """Bytes of an LLVM type in memory."""
    if kind in _BYTES or kind.startswith("ptr"):
        return _BYTES.get(kind, 8)
    if number := re.fullmatch(r"i(\d+)", kind):
        return -(-int(number[1]) // 8)
    if many := re.fullmatch(r"[<\[](\d+) x (.*)[>\]]", kind):
        return int(many[1]) * size_of(many[2])
    if parts := re.fullmatch(r"<?\{ ?(.*?) ?\}>?", kind):
        return sum(size_of(part) for part in split(parts[1]))
    raise ValueError(f"no size is known of {kind}")


def checked(text: str) -> str:
    """``text`` with a call before each access through a global or generic address."""
    lines: list[str] = []
    number = 0
    for line in text.split("\n"):
        found = _ACCESS.match(line)
        access = _access(found["what"], found["rest"]) if found else None
        if access is not None:
            pointer, space, size = access
            if space:
                number += 1
                lines.append(
                    f"  %cuda.check.{number} = addrspacecast ptr addrspace({space}) {pointer} to ptr"
                )
                pointer = f"%cuda.check.{number}"
            begins = int(line.lstrip().startswith("%"))  # a store may end what a load has begun
            lines.append(f"  call void @cuda_check(ptr {pointer}, i64 {size}, i32 {begins})")
        lines.append(line)
    return "\n".join([*lines, ""])


def _access(what: str, rest: str) -> tuple[str, str | None, int] | None:
    """Name and space of the pointer, and bytes; none for memory that is not the program's."""
    parts = split(rest)
    if what == "load":
        kind, pointer = parts[0], parts[1]
    elif what == "store":
        kind, pointer = type_of(parts[0]), parts[1]
    elif what == "atomicrmw":
        pointer = parts[0][parts[0].index("ptr") :]
        kind = type_of(parts[1])
    else:
        pointer, kind = parts[0].removeprefix("weak ").removeprefix("volatile "), type_of(parts[1])
    found = _POINTER.match(pointer)
    if found is None or found["name"].startswith(_OF_THE_HOST) or found["space"] not in _CHECKED_SPACES:
        return None
    return found["name"], found["space"], size_of(kind)
