"""Divergence: barriers that only some work-items reach are told, and no others."""

# ruff: noqa: E501  (programs inside strings)

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from e2e.divergent_kernels import FORMS, HELPERS, kernel
from e2e.random_kernels import RandomKernel, module_text
from mlir import ir
from op_coverage.table import GROUPS
from unit.engine.divergent_programs import ALWAYS, KERNELS, MAYBE, NEVER, source
from unit.engine.walk_ends import HARMLESS, UNTOLD

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.query import kernel_functions
from gpubuild.engine.source import divergence
from gpubuild.engine.source.reach.decode import Code
from gpubuild.engine.source.reach.effort import STEPS, Effort
from gpubuild.engine.source.reach.search import search
from gpubuild.engine.source.reach.walk import Situation
from gpubuild.errors import StepError

ROOT = Path(__file__).parents[4]
RANDOM = range(7000, 7150)
SHAPES = [(64, 1, 1), (7, 5, 1), (3, 5, 7)]


def told(text: str) -> tuple[str, str]:
    """What kind of message there is, and the message."""
    with contexts.context():
        return _told(text)


def _told(text: str) -> tuple[str, str]:
    module = contexts.parse(text)
    try:
        warnings = divergence.check_reach(module, SourceText(text, "k.mlir"))
    except StepError as error:
        return ALWAYS, error.render()
    return (MAYBE if warnings else NEVER), "\n".join(warning.render() for warning in warnings)


@pytest.mark.parametrize("name", KERNELS)
def test_who_reaches_what(name: str) -> None:
    """And without the difference between work-items nothing is told."""
    given = KERNELS[name]
    kind, message = told(source(given))
    assert kind == given.told, message
    for part in given.says:
        assert part in message
    if not kind:
        return
    assert f"k.mlir:{_line_of(message)}:" in message and "@k::@f: work-item (" in message
    before, after = given.better
    whole = given.module + "\0" + given.body
    assert before in whole
    module, _, body = whole.replace(before, after).partition("\0")
    assert told(source(replace(given, module=module, body=body))) == (NEVER, "")


@pytest.mark.parametrize("op", [*UNTOLD, *HARMLESS])
def test_nobody_is_missed_who_may_wait_elsewhere(op: str) -> None:
    functions = {**UNTOLD, **HARMLESS}[op]
    expected = NEVER if op in UNTOLD else ALWAYS
    lower, barrier = "%lower = arith.cmpi ult, %t, %c16 : index\n", "scf.if %lower { gpu.barrier }"
    upper = "%upper = arith.cmpi uge, %t, %c16 : index\n"
    for body in (
        f"{lower}scf.if %lower {{ gpu.barrier }} else {{\n{op}\n}}",
        f"{lower}{upper}scf.if %upper {{\n{op}\n}}\n{barrier}",
        f"{lower}{upper}scf.if %upper {{ func.call @inner() : () -> () }}\n{barrier}",
    ):
        inner = "%i1 = arith.constant 1 : i32\n%i32 = arith.constant 32 : i32\n"
        module = f"{functions}\nfunc.func @inner() {{\n{inner}{op}\nreturn }}"
        kind, message = told(source(replace(KERNELS["lower_half"], body=body, module=module)))
        assert kind == expected, message


def _line_of(message: str) -> str:
    first = next(line for line in message.splitlines() if line.startswith("k.mlir:"))
    return first.split(":")[1]


def test_the_message_as_a_whole() -> None:
    _, message = told(source(KERNELS["both_arms"]))
    line = (
        source(KERNELS["both_arms"]).splitlines().index("scf.if %lower { gpu.barrier } else { gpu.barrier }")
        + 1
    )
    text = "  scf.if %lower { gpu.barrier } else { gpu.barrier }"
    assert message == "\n".join(
        [
            "the file has a kernel whose work-items wait, on every target, for some that never come",
            f"k.mlir:{line}:17: error: @k::@f: work-item (0, 0, 0) waits here at gpu.barrier, but work-item (16, 0, 0) "
            "of its workgroup waits at another gpu.barrier, in workgroups of 64 x 1 x 1",
            text, " " * 18 + "^",
            f"k.mlir:{line}:38: note: work-item (16, 0, 0) waits here", text, " " * 39 + "^",
            f"k.mlir:{line}:1: note: what decides here is true for work-item (0, 0, 0), false for (16, 0, 0)",
            text, "  ^",
            f"k.mlir:{line - 1}:14: note: which is computed here",
            "      %lower = arith.cmpi ult, %t, %c16 : index", " " * 15 + "^",
            "  hint: either all work-items of a workgroup execute a barrier, or none (of a subgroup, for its "
            "operations): move it out of what only some of them run",
        ]
    )  # fmt: skip


def wrong_in(text: str, shapes: list[tuple[int, int, int]]) -> list[str]:
    """Kernels of which something is told in workgroups of these shapes, or of any."""
    found = []
    with contexts.context():
        module = contexts.parse(text)
        for kernels in contexts.gpu_modules(module):
            meets, functions = divergence.what_meets(kernels)
            for op in kernel_functions(kernels):
                known = [Situation(block=shape, grid=(3, 2, 1)) for shape in shapes]
                for situations in (known, []):
                    if op in meets and search(op, Code(functions, meets), situations) is not None:
                        found.append(ir.StringAttr(op.attributes["sym_name"]).value)
    return found


def test_nothing_is_told_of_right_kernels_of_random_control_flow() -> None:
    kernels = [RandomKernel(seed, f"k{seed}") for seed in RANDOM]
    free = module_text([k for k in kernels if not k.known])
    assert wrong_in(free, SHAPES) == []
    for one in kernels:
        if one.known:
            x, y, z = (*one.known, 1, 1)[:3]
            assert wrong_in(module_text([one]), [(x, y, z)]) == []


def test_nothing_is_told_of_right_kernels_that_part_and_meet() -> None:
    text = "gpu.module @k {" + HELPERS + "".join(kernel(n, body) for n, (body, _) in FORMS.items()) + "}"
    assert wrong_in(text, SHAPES) == []


def test_nothing_is_told_of_the_programs_of_the_tree() -> None:
    files = [
        *ROOT.glob("examples/**/*.mlir"),
        *ROOT.glob("tests/integration/*.mlir"),
        *ROOT.glob("bench/**/*.mlir"),
    ]
    texts = [path.read_text() for path in files]
    texts += ["gpu.module @k {" + p.text() + "}" for programs in GROUPS.values() for p in programs]
    meeting = [text for text in texts if divergence.may_meet(text)]
    assert len(meeting) > 50
    with contexts.context():
        for text in meeting:
            assert _told(text) == (NEVER, ""), text


def test_long_chains_of_values_end_quietly() -> None:
    """Python's stack is short."""
    chain = "".join(f"%v{i + 1} = arith.addi %v{i}, %c1 : index\n" for i in range(3000))
    body = f"%v0 = arith.addi %t, %c1 : index\n{chain}%c = arith.cmpi ult, %v3000, %c4 : index\nscf.if %c {{ gpu.barrier }}"
    assert told(source(replace(KERNELS["lower_half"], body=body)))[0] in {NEVER, ALWAYS}


@pytest.mark.parametrize("depth", [600, 1500])
def test_what_is_nested_deeply_ends_quietly(depth: int) -> None:
    body = "%e = arith.cmpi eq, %t, %c3 : index\n" + "scf.if %e {" * depth + "gpu.barrier" + "}" * depth
    assert told(source(replace(KERNELS["lower_half"], body=body)))[0] in {NEVER, ALWAYS}
    unknown = "%e = arith.cmpi eq, %n, %c3 : index\n" + "scf.if %e {" * depth + "gpu.barrier" + "}" * depth
    assert told(source(replace(KERNELS["lower_half"], body=unknown)))[0] == NEVER
    both = unknown + "\n%p = arith.cmpi eq, %t, %c3 : index\nscf.if %p { gpu.barrier }"
    assert told(source(replace(KERNELS["lower_half"], body=both)))[0] in {NEVER, MAYBE}


def effort_of(body: str, grid: tuple[int, int, int]) -> tuple[int, bool]:
    """How many steps a search takes, and whether it finds something."""
    with contexts.context():
        module = contexts.parse(source(replace(KERNELS["lower_half"], body=body)))
        kernels = next(iter(contexts.gpu_modules(module)))
        meets, functions = divergence.what_meets(kernels)
        op = next(iter(kernel_functions(kernels)))
        known = [Situation(block=(256, 1, 1), grid=grid)]
        effort = Effort()
        found = search(op, Code(functions, meets), known, effort=effort)
        return STEPS - effort.left, found is not None


@pytest.mark.parametrize("turns", [(16,), (16, 16), (16, 16, 4), (16, 16, 16)])
def test_loops_in_loops_take_little(turns: tuple[int, ...]) -> None:
    """All walks through a kernel, and all comparisons, have one limit."""
    body = "%big = arith.constant 100000 : index\n%in = arith.cmpi ult, %g, %big : index\n"
    body += "%q = arith.cmpi eq, %n, %c1 : index\nscf.if %in {\n"
    for depth, turn in enumerate(turns):
        body += f"%u{depth} = arith.constant {turn} : index\n"
        body += f"scf.for %turn{depth} = %c0 to %u{depth} step %c1 {{\n"
    body += "scf.if %q { gpu.barrier }\ngpu.barrier\n" + "}" * (1 + len(turns))
    taken, found = effort_of(body, (9, 9, 9))
    assert not found
    assert taken <= STEPS + 100  # what the last thing took
    assert len(turns) > 1 or taken < STEPS


def test_comparing_is_counted() -> None:
    """Choices one after the other, each of which has all that follows behind it."""
    body = "".join(
        f"%v{i} = arith.constant {i} : index\n%q{i} = arith.cmpi ugt, %n, %v{i} : index\n"
        f"%e{i} = arith.cmpi ugt, %t, %v{i} : index\n"
        f"scf.if %q{i} {{ scf.if %e{i} {{ gpu.barrier }} }}\n"
        for i in range(200)
    )
    assert effort_of(body, (1, 1, 1))[0] <= STEPS + 100


def test_many_ways_take_little() -> None:
    """A walk that would take too long is given up."""
    body = "%e = arith.cmpi eq, %t, %c3 : index\n"
    for depth in range(12):
        body += (
            f"%u{depth} = arith.constant {depth} : index\n%w{depth} = arith.cmpi ugt, %n, %u{depth} : index\n"
        )
        body += f"scf.if %w{depth} {{\n"
    body += "scf.if %e { gpu.barrier }\n" + "}" * 12
    assert told(source(replace(KERNELS["lower_half"], body=body)))[0] == MAYBE
    branches = "".join(
        f"%b{i} = arith.cmpi ugt, %n, %c{i % 3} : index\ncf.cond_br %b{i}, ^x{i}, ^y{i}\n^x{i}:\ncf.br ^y{i}\n^y{i}:\n"
        for i in range(30)
    )
    assert (
        told(source(replace(KERNELS["lower_half"], body=branches + KERNELS["lower_half"].body)))[0] == NEVER
    )
