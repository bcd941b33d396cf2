"""Kernel writer: the text of a random kernel under construction."""

from __future__ import annotations

import random


class KernelWriter:
    """Lines of a kernel's body, names for its values, and the source of chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def _name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def _emit(self, *lines: str) -> None:
        self.lines.extend("    " + line for line in lines)

    def _pick(self, values):
        return self.random.choice(values)
