"""Modules after all passes of legalization for a chip, in a child."""

from unit.engine.device_steps import in_child, kernel

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.lowering import run_range

FIRST, LAST = "expand-matrices", "lower-vector-patterns"


def legalized(text: str, chip: str, *, fast_math: bool = False) -> str:
    return in_child(run_range, text, target_params(chip, fast_math=fast_math), FIRST, LAST, name="k.mlir")


def prepared(body: str, chip: str = "sm_60", *, arguments: str = "") -> str:
    """The same of a kernel with ``body``."""
    return legalized(kernel(body, arguments=arguments), chip)
