"""Table: what is known of instructions, by their opcode with all its modifiers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from simulators.ptx.body import Body
from simulators.ptx.source import Instruction

Meaning = Callable[[Body, Instruction, "re.Match[str]"], None]
_TABLE: dict[str, list[tuple[re.Pattern[str], Meaning]]] = {}


def means(stems: str, modifiers: str = "") -> Callable[[Meaning], Meaning]:
    """What opcodes mean that are one of ``stems`` with ``modifiers``, a pattern for all that follows."""

    def keep(meaning: Meaning) -> Meaning:
        for stem in stems.split():
            _TABLE.setdefault(stem, []).append((re.compile(modifiers), meaning))
        return meaning

    return keep


@cache
def meaning_of(opcode: str) -> tuple[Meaning, re.Match[str]] | None:
    """And the match of its modifiers; ``None`` where nothing is known of one of them."""
    stem, dot, rest = opcode.partition(".")
    for pattern, meaning in _TABLE.get(stem, ()):
        if match := pattern.fullmatch(dot + rest):
            return meaning, match
    return None
