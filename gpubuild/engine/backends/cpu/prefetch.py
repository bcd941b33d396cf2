"""Prefetch: kernels that do little but read memory ask for what later workgroups will load.

Processors see by themselves that lines follow each other, but stop at the end of a page, and wait where a
workgroup's sum needs all of its values. So a kernel that loads whole lines asks for those some kilobytes
ahead, too. Nothing but time depends on it, and no address is wrong for it. Kernels that store vectors do
not: what they wait for is that memory takes what they write.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from llvmlite import binding

from gpubuild.engine.backends.cpu.nontemporal import BITS, FUNCTIONS
from gpubuild.engine.ir import llvm

AHEAD_BYTES = 8192  # of 1 to 8 KiB the best, in reductions of vectors larger than the caches
_LINE_BYTES = 64
_NAME = re.compile(r"@(\"[^\"]*\"|[^(\s]+)\(")
_ADDRESS = re.compile(
    r"  (?P<name>%\S+) = getelementptr [^\n]*?(?P<type>\S+), ptr (?P<base>%[^,\s]+), (?P<index>.*)"
)
_NUMBER = re.compile(r"i64 (-?\d+)$")
_STORE = re.compile(r"  store <\d+ x \w+> [^\n]*, ptr (?P<address>%[^,\s]+), align")
_LOAD = re.compile(r"  %\S+ = load <(?P<count>\d+) x (?P<element>\w+)>, ptr (?P<address>%[^,\s]+)")
_DECLARATION = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"


def prefetch_ahead(module: binding.ModuleRef, entries: Collection[str]) -> binding.ModuleRef:
    """Have the functions named in ``entries`` prefetch what they load as vectors out of their arguments.

    Returns a copy of ``module`` if there is any such load: only after all optimisation is it known.
    """
    if not entries:
        return module
    text = str(module)

    def rewrite(found: re.Match[str]) -> str:
        name = _NAME.search(found[0])
        return _Function(found[0]).rewritten() if name and name[1].strip('"') in entries else found[0]

    done = FUNCTIONS.sub(rewrite, text)
    if done == text:
        return module
    return llvm.parse_assembly(f"{done}\n{_DECLARATION}\n", llvm.new_context())


class _Function:
    """LLVM IR of one function; places are (address that an instruction computed, bytes behind it)."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._places: dict[str, tuple[str, int]] = {}
        self._bases: dict[str, str] = {}
        for line in self._lines:
            if found := _ADDRESS.match(line):
                self._bases[found["name"]] = found["base"]
                number = _NUMBER.match(found["index"])
                if found["type"] == "i8" and number:
                    self._places[found["name"]] = (found["base"], int(number[1]))

    def rewritten(self) -> str:
        stores = map(_STORE.match, self._lines)
        if any(self._is_argument(found["address"]) for found in stores if found):
            return "\n".join(self._lines)
        done: list[str] = []
        block: list[str] = []
        for line in [*self._lines, "end:"]:
            if line and not line[0].isspace() and line.split(";")[0].rstrip().endswith(":"):
                done += self._with_prefetches(block, len(done))
                block = []
            block.append(line)
        return "\n".join(done)

    def _with_prefetches(self, block: list[str], number: int) -> list[str]:
        sizes: dict[str, int] = {}  # bytes that one iteration loads behind an address
        lines: dict[int, tuple[str, int]] = {}  # by the number of the load that comes to a line first
        for at, line in enumerate(block):
            found = _LOAD.match(line)
            if found is None or not self._is_argument(found["address"]):
                continue
            root, offset = self._place(found["address"])
            sizes[root] = sizes.get(root, 0) + int(found["count"]) * BITS.get(found["element"], 0) // 8
            place = (root, offset // _LINE_BYTES * _LINE_BYTES)
            if place not in lines.values():
                lines[at] = place
        done: list[str] = []
        for at, line in enumerate(block):
            root, offset = lines.get(at, ("", 0))
            if sizes.get(root, 0) >= _LINE_BYTES:
                name = f"%ahead.{number}.{at}"
                done.append(f"  {name} = getelementptr i8, ptr {root}, i64 {offset + AHEAD_BYTES}")
                done.append(f"  call void @llvm.prefetch.p0(ptr {name}, i32 0, i32 3, i32 1)")
            done.append(line)
        return done

    def _place(self, address: str) -> tuple[str, int]:
        offset = 0
        while address in self._places:
            address, more = self._places[address]
            offset += more
        return address, offset

    def _is_argument(self, address: str) -> bool:
        while address in self._bases:
            address = self._bases[address]
        return address.startswith("%arg")
