"""Barriers that only some work-items reach are reported, and no others."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from kernels.divergent import FORMS, HELPERS, kernel
from kernels.divergent_barriers import ALWAYS, KERNELS, MAYBE, NEVER, source
from kernels.operations.groups import GROUPS
from kernels.random.kernel import RandomKernel, module_text

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.source import divergence
from gpubuild.errors import StepError

ROOT = Path(__file__).parents[4]
RANDOM = int(os.environ.get("GPUBUILD_TEST_KERNELS", "25"))
SHAPES = [(64, 1, 1), (7, 5, 1), (3, 5, 7)]
LOWER_HALF = KERNELS["lower_half"]
# These can be barriers, or may not return.
OPAQUE = {
    "amdgpu.lds_barrier": "",
    "func.call @unknown() : () -> ()": "func.func private @unknown()",
    "llvm.call @llvm.nvvm.barrier0() : () -> ()": "llvm.func @llvm.nvvm.barrier0()",
    'llvm.call_intrinsic "llvm.trap"() : () -> ()': "",
    'llvm.inline_asm has_side_effects "bar.sync 0;", "" : () -> ()': "",
    "llvm.intr.trap": "",
    "nvvm.barrier": "",
    "rocdl.s.barrier": "",
}


def reported(text: str) -> tuple[str, str]:
    """Return the kind of the message, and the message."""
    with contexts.context():
        module = contexts.parse(text)
        try:
            warnings = divergence.check_divergence(module, SourceText(text, "k.mlir"))
        except StepError as error:
            return ALWAYS, error.render()
        return (MAYBE if warnings else NEVER), "\n".join(warning.render() for warning in warnings)


@pytest.mark.parametrize("name", KERNELS)
def test_who_reaches_what(name: str) -> None:
    """Nothing is reported without a difference between work-items."""
    given = KERNELS[name]
    kind, message = reported(source(given))
    assert kind == given.reported, message
    for part in given.says:
        assert part in message
    if kind:
        assert re.search(r"^k\.mlir:\d+:\d+: (error|warning): @k::@f: work-item \(", message, re.MULTILINE)
        before, after = given.better
        whole = given.module + "\0" + given.body
        assert before in whole
        module, _, body = whole.replace(before, after).partition("\0")
        assert reported(source(replace(given, module=module, body=body))) == (NEVER, "")


@pytest.mark.parametrize("op", OPAQUE)
def test_work_items_that_may_wait_elsewhere_are_not_reported(op: str) -> None:
    lower = "%lower = arith.cmpi ult, %t, %c16 : index\n"
    upper = "%upper = arith.cmpi uge, %t, %c16 : index\n"
    for body in (
        f"{lower}scf.if %lower {{ gpu.barrier }} else {{\n{op}\n}}",
        f"{lower}{upper}scf.if %upper {{\n{op}\n}}\nscf.if %lower {{ gpu.barrier }}",
        f"{lower}{upper}scf.if %upper {{ func.call @inner() : () -> () }}\nscf.if %lower {{ gpu.barrier }}",
    ):
        module = f"{OPAQUE[op]}\nfunc.func @inner() {{\n{op}\nreturn }}"
        assert reported(source(replace(LOWER_HALF, body=body, module=module))) == (NEVER, "")


def test_the_message_as_a_whole() -> None:
    _, message = reported(source(KERNELS["both_arms"]))
    text = "  scf.if %lower { gpu.barrier } else { gpu.barrier }"
    line = source(KERNELS["both_arms"]).splitlines().index(text.strip()) + 1
    assert message == "\n".join(
        [
            "deadlock in a kernel: some work-items never reach a barrier that others wait at",
            f"k.mlir:{line}:17: error: @k::@f: work-item (0, 0, 0) waits here at gpu.barrier, but work-item "
            "(16, 0, 0) of its workgroup waits at another gpu.barrier, in workgroups of 64 x 1 x 1",
            text, " " * 18 + "^",
            f"k.mlir:{line}:38: note: work-item (16, 0, 0) waits here", text, " " * 39 + "^",
            f"k.mlir:{line}:1: note: condition: true for work-item (0, 0, 0), false for (16, 0, 0)",
            text, "  ^",
            "  hint: barrier divergence: all work-items of a workgroup must execute a barrier, or none (of a "
            "subgroup, for its operations); move it out of the code that only some of them run",
        ]
    )  # fmt: skip


def launch(block: str, grid: str = "%c2") -> str:
    """Return a launch of a kernel that is correct in workgroups of up to 16."""
    return f"gpu.launch_func @k::@f blocks in ({grid}, %c1, %c1) threads in ({block}, %c1, %c1)\n"


RIGHT, WRONG, WRONG_TOO, UNKNOWN = (launch(f"%{size}") for size in ("c16", "c64", "c32", "n"))
ONE, EMPTY = launch("%c1"), launch("%c64", grid="%c0")
MANY = "".join(launch("%c64", grid=f"%c{n}") for n in (1, 2, 16, 32, 64)) + WRONG_TOO
SIZE = " attributes {known_block_size = array<i32: 64, 1, 1>}"


@pytest.mark.parametrize(
    ("host", "size", "expected"),
    [
        (WRONG, "", ALWAYS),
        (WRONG + WRONG_TOO, "", ALWAYS),
        (WRONG * 20, "", ALWAYS),
        (WRONG + EMPTY, "", ALWAYS),
        (f"scf.if %b {{ {WRONG} }}\n{WRONG_TOO}", "", ALWAYS),
        (UNKNOWN, SIZE, ALWAYS),
        ("", SIZE, ALWAYS),
        (WRONG + RIGHT, "", MAYBE),
        (RIGHT + WRONG, "", MAYBE),
        (WRONG + UNKNOWN, "", MAYBE),
        (WRONG + ONE, "", MAYBE),
        (MANY + RIGHT, "", MAYBE),
        (f"scf.if %b {{ {WRONG} }} else {{ {RIGHT} }}", "", MAYBE),
        (f"scf.if %b {{ {WRONG} }} else {{ {WRONG_TOO} }}", "", MAYBE),
        (f"scf.for %i = %c0 to %n step %c1 {{ {WRONG} }}", "", MAYBE),
        (f"cf.cond_br %b, ^run, ^end\n^run:\n{WRONG}cf.br ^end\n^end:", "", MAYBE),
        (f"scf.if %b {{ {UNKNOWN} }}", SIZE, MAYBE),
        (EMPTY + RIGHT, "", NEVER),
        (EMPTY, SIZE, NEVER),
        (RIGHT, "", NEVER),
        (ONE, "", NEVER),
    ],
)
def test_which_launches_are_wrong(host: str, size: str, expected: str) -> None:
    """A kernel with one correct launch is not refused."""
    kind, message = reported(f"""module attributes {{gpu.container_module}} {{
      gpu.module @k {{
        gpu.func @f() kernel{size} {{
          %t = gpu.thread_id x
          %c16 = arith.constant 16 : index
          %lower = arith.cmpi ult, %t, %c16 : index
          scf.if %lower {{ gpu.barrier }}
          gpu.return
        }}
      }}
      func.func @main(%b: i1, %n: index) {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c2 = arith.constant 2 : index
        %c16 = arith.constant 16 : index
        %c32 = arith.constant 32 : index
        %c64 = arith.constant 64 : index
        {host}
        return
      }}
    }}""")
    assert kind == expected, message
    if expected == MAYBE:
        assert "launched here with workgroups of" in message and "when it is launched so" in message


def in_workgroups(text: str, shape: tuple[int, ...]) -> str:
    """Return ``text`` with this size for all kernels without one."""
    size = ", ".join(map(str, (*shape, 1, 1)[:3]))
    return re.sub(r"\) kernel \{", f") kernel attributes {{known_block_size = array<i32: {size}>}} {{", text)


def test_right_kernels_of_random_control_flow() -> None:
    kernels = [RandomKernel(seed, f"k{seed}") for seed in range(7000, 7000 + RANDOM)]
    free = module_text([k for k in kernels if not k.known])
    texts = [free, *(in_workgroups(free, shape) for shape in SHAPES)]
    texts += [in_workgroups(module_text([k]), k.known) for k in kernels if k.known]
    for text in texts:
        assert reported(text) == (NEVER, "")


def test_right_kernels_that_part_and_meet() -> None:
    text = "gpu.module @k {" + HELPERS + "".join(kernel(n, body) for n, (body, _) in FORMS.items()) + "}"
    for one in (text, *(in_workgroups(text, shape) for shape in SHAPES)):
        assert reported(one) == (NEVER, "")


def test_the_programs_of_the_tree() -> None:
    folders = ("examples/**", "tests/integration", "bench/**")
    texts = [path.read_text() for folder in folders for path in ROOT.glob(f"{folder}/*.mlir")]
    texts += ["gpu.module @k {" + p.text() + "}" for programs in GROUPS.values() for p in programs]
    meeting = [text for text in texts if divergence.has_sites(text)]
    assert len(meeting) > 50
    for text in meeting:
        assert reported(text) == (NEVER, ""), text


def test_long_chains_and_deep_nesting_end_quietly() -> None:
    """Python's stack is short."""
    chain = "".join(f"%v{i + 1} = arith.addi %v{i}, %c1 : index\n" for i in range(3000))
    body = f"%v0 = arith.addi %t, %c1 : index\n{chain}%e = arith.cmpi ult, %v3000, %c4 : index\n"
    assert reported(source(replace(LOWER_HALF, body=f"{body}scf.if %e {{ gpu.barrier }}")))[0] == NEVER
    for condition, expected in (("%t", {ALWAYS, NEVER}), ("%n", {NEVER})):
        decision = f"%e = arith.cmpi eq, {condition}, %c3 : index\n%p = arith.cmpi eq, %t, %c1 : index\n"
        nest = "scf.if %e { scf.execute_region {" * 600 + "gpu.barrier" + "\nscf.yield }}" * 600
        assert reported(source(replace(LOWER_HALF, body=f"{decision}{nest}\nscf.if %p {{ }}")))[0] in expected


def test_large_kernels_are_compared_by_fewer_work_items_or_not_at_all() -> None:
    def kind(prints: int) -> str:
        body = 'gpu.printf "many"\n' * prints + LOWER_HALF.body
        return reported(source(replace(LOWER_HALF, body=body)))[0]

    assert (kind(1000), kind(3000)) == (ALWAYS, NEVER)
