"""Special registers, and instructions that lanes execute together, as NVVM's intrinsics of the device IR."""

from __future__ import annotations

import re

from simulators.ptx.body import Body, known
from simulators.ptx.source import Instruction, PtxError
from simulators.ptx.table import means

Match = re.Match[str]
_AXES = re.compile(r"%(tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.([xyz])")


def special_register(f: Body, name: str) -> tuple[str, int]:
    """The value, and its bits."""
    found = _AXES.fullmatch(name)
    if not found and name != "%laneid":
        raise PtxError(f"the register {name} is not known here")
    register = f"{found[1].replace('_', '.')}.{found[2]}" if found else "laneid"
    return f.call("i32", f"llvm.nvvm.read.ptx.sreg.{register}"), 32


@means("shfl", r"\.sync\.(?P<mode>up|down|bfly|idx)\.b32")
def _shuffle(f: Body, i: Instruction, m: Match) -> None:
    results, a, b, c, members = known(i, 5)
    d, _, p = (part.strip() for part in results.partition("|"))
    mode = m["mode"]
    value = f.call("{ i32, i1 }", f"llvm.nvvm.shfl.sync.{mode}.i32p",
                   *(f"i32 {f.bits(o, 32)}" for o in (members, a, b, c)))  # fmt: skip
    f.put(d, 32, f"extractvalue {{ i32, i1 }} {value}, 0")
    if p:
        f.put(p, 1, f"extractvalue {{ i32, i1 }} {value}, 1")


@means("vote", r"\.sync\.ballot\.b32")
def _ballot(f: Body, i: Instruction, m: Match) -> None:
    d, a, members = known(i, 3)
    f.put_value(d, 32, f.call("i32", "llvm.nvvm.vote.ballot.sync", f"i32 {f.bits(members, 32)}",
                              f"i1 {f.predicate(a)}"))  # fmt: skip


@means("redux", r"\.sync\.(?P<op>add|min|max)\.(?P<sign>[su])32")
@means("redux", r"\.sync\.(?P<op>and|or|xor)\.(?P<sign>b)32")
def _reduced(f: Body, i: Instruction, m: Match) -> None:
    d, a, members = known(i, 3)
    op = ("u" if m["sign"] == "u" and m["op"] != "add" else "") + m["op"]
    f.put_value(d, 32, f.call("i32", f"llvm.nvvm.redux.sync.{op}", f"i32 {f.bits(a, 32)}",
                              f"i32 {f.bits(members, 32)}"))  # fmt: skip


@means("activemask", r"\.b32")
def _active(f: Body, i: Instruction, m: Match) -> None:
    (d,) = known(i, 1)
    f.put_value(d, 32, f.call("i32", "llvm.nvvm.activemask"))


@means("elect", r"\.sync")
def _elected(f: Body, i: Instruction, m: Match) -> None:
    results, members = known(i, 2)
    d, _, p = (part.strip() for part in results.partition("|"))
    value = f.call("{ i32, i1 }", "llvm.nvvm.elect.sync", f"i32 {f.bits(members, 32)}")
    f.put(d, 32, f"extractvalue {{ i32, i1 }} {value}, 0")
    f.put(p, 1, f"extractvalue {{ i32, i1 }} {value}, 1")


@means("bar", r"\.warp\.sync")
def _subgroup_barrier(f: Body, i: Instruction, m: Match) -> None:
    (members,) = known(i, 1)
    f.call("void", "llvm.nvvm.bar.warp.sync", f"i32 {f.bits(members, 32)}")


@means("bar", r"(?:\.cta)?\.sync")
def _barrier(f: Body, i: Instruction, m: Match) -> None:
    (number,) = known(i, 1)
    f.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", f"i32 {f.bits(number, 32)}")
