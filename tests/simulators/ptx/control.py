"""Branches, calls and ends."""

from __future__ import annotations

import re

from simulators.ptx.body import Body, known
from simulators.ptx.source import Function, Instruction, PtxError, Variable, bits_of
from simulators.ptx.table import means

Match = re.Match[str]
# Functions of the driver: result and parameters.
PROVIDED = {
    "vprintf": ("i32", ("ptr", "ptr")),
    "__assertfail": ("void", ("ptr", "ptr", "i32", "ptr", "i64")),
    "malloc": ("ptr", ("i64",)),
    "free": ("void", ("ptr",)),
}
_PROVIDED_BITS = {"i32": 32, "i64": 64, "ptr": 64}


def block(name: str) -> str:
    """Return the name of a label in LLVM IR."""
    return f"L.{name.lstrip('%')}"


@means("bra", r"(?:\.uni)?")
def _branch(f: Body, i: Instruction, m: Match) -> None:
    """The caller handles guards and begins the next block."""
    (target,) = known(i, 1)
    f.end(f"br label %{block(target)}")


@means("brx", r"\.idx(?:\.uni)?")
def _branch_by_index(f: Body, i: Instruction, m: Match) -> None:
    index, table = known(i, 2)
    targets = f.function.targets.get(table)
    if targets is None:
        raise PtxError(f"{table} has no .branchtargets")
    beyond = f.label()
    cases = " ".join(f"i32 {n}, label %{block(t)}" for n, t in enumerate(targets))
    f.end(f"switch i32 {f.bits(index, 32)}, label %{beyond} [ {cases} ]")
    f.begin(beyond)
    f.call("void", "nv_trap")
    f.end("unreachable")


@means("ret", r"(?:\.uni)?")
def _return(f: Body, i: Instruction, m: Match) -> None:
    known(i, 0)
    f.end("ret void")


@means("exit")
def _exit(f: Body, i: Instruction, m: Match) -> None:
    known(i, 0)
    if f.function.kernel:
        f.end("ret void")
    else:
        f.call("void", "nv_exit")
        f.end("unreachable")


@means("trap")
def _trap(f: Body, i: Instruction, m: Match) -> None:
    known(i, 0)
    f.call("void", "nv_trap")
    f.end("unreachable")


@means("call", r"(?:\.uni)?")
def _call(f: Body, i: Instruction, m: Match) -> None:
    operands = list(i.operands)
    results = _names(operands.pop(0)) if operands and operands[0].startswith("(") else []
    if not operands:
        raise PtxError("no function is named")
    called = operands.pop(0)
    given = _names(operands.pop(0)) if operands and operands[0].startswith("(") else []
    names = [*results, *given]
    variables = [_own(f, name) for name in names]
    if called in f.function.registers:
        if len(operands) != 1 or operands[0] not in f.function.prototypes:
            raise PtxError("a call by address needs a prototype")
        wanted, parameters = f.function.prototypes[operands[0]]
        _check(called, [*wanted, *parameters], variables)
        target = f.temp(f"inttoptr i64 {f.bits(called, 64)} to ptr")
        f.add(f"call void {target}({', '.join(f'ptr {f.variable(n)}' for n in names)})")
        return
    function = f.globals.get(called)
    if not isinstance(function, Function):
        raise PtxError(f"{called} is not declared")
    _check(called, [*function.results, *function.parameters], variables)
    if len(results) != len(function.results):
        raise PtxError(f"{called} has {len(function.results)} results")
    if function.defined:
        f.add(f"call void @{called}({', '.join(f'ptr {f.variable(n)}' for n in names)})")
        return
    _call_provided(f, called, results, given)


def _call_provided(f: Body, called: str, results: list[str], given: list[str]) -> None:
    """Call by value, with the types of C."""
    if called not in PROVIDED:
        raise PtxError(f"{called} is not defined")
    result, kinds = PROVIDED[called]
    if len(given) != len(kinds) or any(
        f.local[n].bytes * 8 != _PROVIDED_BITS[k] for n, k in zip(given, kinds, strict=True)
    ):
        raise PtxError(f"{called} has other parameters")
    values = [f.temp(f"load {kind}, ptr {f.variable(n)}") for n, kind in zip(given, kinds, strict=True)]
    value = f.call(result, called, *(f"{k} {v}" for k, v in zip(kinds, values, strict=True)))
    if results:
        f.add(f"store {result} {value}, ptr {f.variable(results[0])}")


def _names(operand: str) -> list[str]:
    return [part.strip() for part in operand[1:-1].split(",") if part.strip()]


def _own(f: Body, name: str) -> Variable:
    if name not in f.local or f.local[name].space != "param":
        raise PtxError(f"{name} is no .param of this function")
    return f.local[name]


def _check(called: str, wanted: list[Variable], given: list[Variable]) -> None:
    """Compare sizes and alignments."""
    if len(wanted) != len(given):
        raise PtxError(f"{called} takes {len(wanted)} values, not {len(given)}")
    for one, other in zip(wanted, given, strict=True):
        if one.bytes != other.bytes or bits_of(one.kind) != bits_of(other.kind) or one.align > other.align:
            raise PtxError(f"{called} takes {one.name} of other size or alignment than {other.name}")
