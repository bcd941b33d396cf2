"""Launches: a kernel that one of them gets right is not refused."""

from __future__ import annotations

import pytest

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.source import divergence
from gpubuild.errors import StepError

ALWAYS, MAYBE, NEVER = "error", "warning", ""


def launch(block: str, grid: str = "%c2") -> str:
    """One of the kernel, which is right in workgroups of up to 16."""
    return f"gpu.launch_func @k::@f blocks in ({grid}, %c1, %c1) threads in ({block}, %c1, %c1)\n"


RIGHT, WRONG, WRONG_TOO, UNKNOWN = (launch(f"%{size}") for size in ("c16", "c64", "c32", "n"))
EMPTY = launch("%c64", grid="%c0")
SIZE = " attributes {known_block_size = array<i32: 64, 1, 1>}"


def told(host: str, size: str) -> tuple[str, str]:
    text = f"""module attributes {{gpu.container_module}} {{
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
        %false = arith.constant false
        {host}
        return
      }}
    }}"""
    with contexts.context():
        try:
            found = divergence.check_reach(contexts.parse(text), SourceText(text, "k.mlir"))
        except StepError as error:
            return ALWAYS, error.render()
        return (MAYBE if found else NEVER), "\n".join(one.render() for one in found)


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
        (WRONG + launch("%c1"), "", MAYBE),
        ("".join(launch("%c64", grid=f"%c{n}") for n in (1, 2, 16, 32, 64)) + WRONG_TOO + RIGHT, "", MAYBE),
        (f"scf.if %b {{ {WRONG} }} else {{ {RIGHT} }}", "", MAYBE),
        (f"scf.if %b {{ {WRONG} }} else {{ {WRONG_TOO} }}", "", MAYBE),
        (f"scf.if %false {{ {WRONG} }}", "", MAYBE),
        (f"scf.for %i = %c0 to %n step %c1 {{ {WRONG} }}", "", MAYBE),
        (f"cf.cond_br %b, ^run, ^end\n^run:\n{WRONG}cf.br ^end\n^end:", "", MAYBE),
        (f"scf.if %b {{ {UNKNOWN} }}", SIZE, MAYBE),
        (EMPTY + RIGHT, "", NEVER),
        (EMPTY, SIZE, NEVER),
        (RIGHT, "", NEVER),
    ],
)
def test_which_launches_are_wrong(host: str, size: str, expected: str) -> None:
    kind, message = told(host, size)
    assert kind == expected, message
    if expected == MAYBE:
        assert "launched here with workgroups of" in message and "when it is launched so" in message
