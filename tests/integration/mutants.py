"""Mutants: all programs with their changes, in one executable, since there are many and each is small.

Kernels of modules of the same name come together in one, so that they are compiled at once; ``main``
becomes ``main_0``, ``main_1``, …, and the executable's first argument says which of them is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from integration.program import Program

from gpubuild.engine.ir import contexts

_DEFINED = re.compile(r"(?:func\.func|gpu\.func|memref\.global)(?: \"private\" constant)? @(\w+)")
_MAIN = """#include <stdlib.h>
{declarations}
int main(int count, char **arguments) {{
    int (*const mutants[])(void) = {{{names}}};
    return count == 2 ? mutants[atoi(arguments[1])]() : 2;
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One program and one of its changes; without a change it must still be right."""

    program: Program
    change: str = ""

    def text(self, number: int) -> str:
        """The changed code, with names that no other mutant has."""
        code = self.program.broken(self.change) if self.change else self.program.code
        for name in sorted(set(_DEFINED.findall(code))):
            code = re.sub(rf"@{name}\b", f"@{name}_{number}", code)
        return code


def own_names(trace: str, number: int) -> str:
    """What the runtime tells about a mutant, with the names that the program has."""
    return re.sub(rf"(?<=::)(\w+)_{number}\b", r"\1", trace)


def all_of(programs: Iterable[Program]) -> list[Mutant]:
    """Every change of every program."""
    return [Mutant(program=p, change=change) for p in programs for change in p.breaks]


def main_c(count: int) -> str:
    """The C function that picks a mutant."""
    names = [f"main_{n}" for n in range(count)]
    return _MAIN.format(
        declarations="\n".join(f"int {name}(void);" for name in names), names=", ".join(names)
    )


def together(mutants: Sequence[Mutant]) -> str:
    """All of them as one source."""
    with contexts.context():
        whole = contexts.parse("module attributes {gpu.container_module} {}")
        seen: dict[str, Any] = {}
        for number, mutant in enumerate(mutants):
            part = contexts.parse(mutant.text(number))
            for operation in list(part.body.operations):
                _move(operation.operation, whole.body, seen)
        whole.operation.verify()
        return str(whole)


def _move(operation: Any, block: Any, seen: dict[str, Any]) -> None:
    name = operation.attributes["sym_name"].value
    if name not in seen:
        block.append(operation)
        seen[name] = operation
    elif operation.name == "gpu.module":
        kernels = seen[name].regions[0].blocks[0]
        for child in list(operation.regions[0].blocks[0].operations):
            kernels.append(child.operation)
    else:
        assert not operation.regions[0].blocks, name  # a declaration, of which one is enough
