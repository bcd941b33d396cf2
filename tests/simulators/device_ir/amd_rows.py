"""The table's programs whose results depend on how many lanes a subgroup has, for subgroups of 64."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

from kernels.program import Program

LANES = 64
# Written for 32 lanes: what lanes from `width` on get is undefined, or the text says 32.
_LEFT_OUT = frozenset({"gpu_shuffle_vector", "gpu_warp_execute_on_lane_0"})


@cache
def programs() -> tuple[Program, ...]:
    """Those of ``kernels/operations/subgroup_ops.py``, and what NumPy says of them with 64 lanes."""
    return tuple(
        replace(program, block=LANES) if program.name.startswith("gpu_mma") else program
        for program in _subgroup_ops().PROGRAMS
        if program.name not in _LEFT_OUT
    )


def _subgroup_ops() -> ModuleType:
    """The module once more, with another number in it: all that it says follows from that."""
    spec = importlib.util.find_spec("kernels.operations.subgroup_ops")
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text()
    module = importlib.util.module_from_spec(spec)
    assert text.count("\nLANES = 32\n") == 1
    exec(compile(text.replace("\nLANES = 32\n", f"\nLANES = {LANES}\n"), spec.origin, "exec"), vars(module))
    return module
