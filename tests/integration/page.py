"""Page: docs/reference/operations.md, which lists the programs with their first sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from integration.program import Program

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reference" / "operations.md"
_INTRODUCTION = """# A program for each operation

Made by `python tests/integration/refresh.py`; do not edit.

Each file of [`tests/integration`](../../tests/integration) is a complete program for one operation: host
code that allocates and fills memory, launches a kernel and prints the result. Read, copy and run them.
[What each target can compile](coverage.md) lists all forms and types of an operation.

<!-- tested by tests/integration/test_integration.py -->
```console
$ GPUBUILD_DEVICE=cpu gpubuild run -f tests/integration/targets.yaml gpu.thread_id
…
Unranked Memref base@ = 0x55e1f4f2d800 rank = 2 offset = 0 sizes = [3, 4] strides = [4, 1] data =
[[0,   1,   2,   3],
 [10,   11,   12,   13],
 [20,   21,   22,   23]]
```

- **CHECK** lines have the expected output. NumPy computed them (`tests/integration/expected.py`), and
  FileCheck compares them with each run on the CPU, and on a GPU if there is one.
- **BREAK** lines are changes in the syntax of `sed` that must change the output: no barrier, another
  mode or width. Each is built, run and rejected by FileCheck, on the CPU, where one thread runs the
  work-items in a known order.
- **TRACE** lines must appear in the output of `GPUBUILD_TRACE=1`: some host operations have no other
  effect on the CPU.

`gpu.binary` has no program, since it contains machine code
(`tests/e2e/test_programs.py::test_a_ready_gpu_binary_passes_through`). Operations on sparse matrices
are in a larger program (`tests/e2e/test_sparse.py::test_every_operation`).
"""


def first_sentences(program: Program) -> str:
    """What the comment at its beginning says."""
    lines = []
    for line in program.text.splitlines():
        if not line.startswith("// ") or re.match(r"// [A-Z]+: ", line):
            break
        lines.append(line.removeprefix("// "))
    return " ".join(lines).removeprefix(f"{program.name}: ")


def render(programs: Iterable[Program]) -> str:
    """The document."""
    parts = [_INTRODUCTION]
    dialect = ""
    for program in sorted(programs, key=lambda p: (not p.name.startswith("gpu."), p.name)):
        if not program.name.startswith(f"{dialect}.") or not dialect:
            dialect = program.name.partition(".")[0]
            parts.append(f"\n## {dialect}\n\n| operation | |\n|---|---|\n")
        link = f"[{program.name}](../../tests/integration/{program.path.name})"
        parts.append(f"| {link} | {first_sentences(program)} |\n")
    return "".join(parts)
