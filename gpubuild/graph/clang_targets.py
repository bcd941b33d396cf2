"""Clang targets: which targets of a module clang-linker-wrapper can keep apart (``offload: clang``).

It links all device code of a program that is for one triple and chip into one image, whatever other
options it was compiled with.
"""

from __future__ import annotations

from itertools import combinations

from gpubuild.errors import UsageError
from gpubuild.graph.modules import ModuleTargets
from gpubuild.model.target import Kind, Target, target_id


def check_targets(program: str, settled: ModuleTargets) -> None:
    """Raise ``UsageError`` for targets that would be linked into one image, or cannot be linked."""
    where = f"program {program}: gpu.module @{settled.module.name}"
    for target in settled.targets:
        if target.kind is Kind.CPU and not target.triple.startswith("x86_64"):
            raise UsageError(
                f"{where}: offload: clang has no CPU images for {target.triple}: "
                f"clang-linker-wrapper links them with -march={target.chip}, a name of x86-64's",
                hint=f"leave {target.name} out of this program, or use offload: dispatch",
            )
    for one, other in combinations(settled.targets, 2):
        if _linked_together(one, other):
            raise UsageError(
                f"{where}: targets {one.name} and {other.name} are both for {_shared(one, other)}, and "
                "clang-linker-wrapper links what is for one chip into one image",
                hint="leave one of them out of this program, or use offload: dispatch",
            )


def _linked_together(one: Target, other: Target) -> bool:
    if (one.kind, one.triple) != (other.kind, other.triple):
        return False
    if one.kind is not Kind.ROCDL:
        return one.chip == other.chip
    # An object that leaves a setting open goes into the image of either setting.
    (chip, *settings), (other_chip, *other_settings) = (
        target_id(t.chip, t.features).split(":") for t in (one, other)
    )
    contrary = {f[:-1] + ("-" if f[-1] == "+" else "+") for f in settings}
    return chip == other_chip and not contrary & set(other_settings)


def _shared(one: Target, other: Target) -> str:
    names = {target_id(t.chip, t.features) if t.kind is Kind.ROCDL else t.chip for t in (one, other)}
    return " or ".join(sorted(names))
