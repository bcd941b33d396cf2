"""Effort: how much may be done for one kernel, over all of its launches and work-items.

Most kernels are right, and nobody waits for long to hear that. Counted in steps, so that it does not
depend on the machine what is found.
"""

from __future__ import annotations

from dataclasses import dataclass

# Some 2 to 4 us of CPU each. The largest kernel that tests expect something of takes 810.
STEPS = 15_000


class SpentError(Exception):
    """Nothing is left: nothing is told of the kernel."""


@dataclass(slots=True, kw_only=True)
class Effort:
    """``left``: steps of walks and of comparisons that may still be taken."""

    left: int = STEPS

    def spend(self, steps: int = 1) -> None:
        """Take ``steps``. Raises ``SpentError`` when there are no more."""
        self.left -= steps
        if self.left < 0:
            raise SpentError
