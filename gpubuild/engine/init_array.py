"""Init array: make constructors and destructors of LLVM IR reach every linker.

llvmlite emits ``@llvm.global_ctors`` into ``.ctors`` sections, which lld drops without a word, so
that modules would never be loaded. What other compilers emit is written out here instead:
pointers in ``.init_array`` and ``.fini_array`` sections, whose names carry the priority.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

DEFAULT_PRIORITY = 65535
_SECTIONS = {"ctors": ".init_array", "dtors": ".fini_array"}
_NAME = r'@(?:"[^"]*"|[-\w$.]+)'
_TYPE = r'(?:\{ i32, ptr, ptr \}|%(?:"[^"]*"|[-\w$.]+))'
# LLVM prints one global variable per line; quotes inside strings and names are written as \22.
_ARRAY = re.compile(
    r"^@llvm\.global_(?P<which>ctors|dtors) = appending (?:\w+ )*global \[\d+ x [^\]]*\] (?P<value>.*)\n?",
    re.MULTILINE,
)
_ENTRY = re.compile(
    rf"{_TYPE} \{{ i32 (?P<priority>-?\d+), "
    rf"ptr (?P<function>{_NAME}|null), ptr (?:{_NAME}|null) \}}(?:, )?"
)
_USED = re.compile(
    r"^@llvm\.used = appending (?:\w+ )*global \[\d+ x ptr\] \[(?P<items>.*)\](?P<rest>, section .*)$",
    re.MULTILINE,
)


def rewrite(text: str) -> str:
    """LLVM IR text as LLVM prints it, with its two arrays replaced.

    Order within a priority is kept. Raises ``ValueError`` for an entry in a form LLVM 22 does not
    print (a constant expression instead of a function).
    """
    pointers: list[str] = []
    kept: list[str] = []

    def replace(match: re.Match[str]) -> str:
        for number, (priority, function) in enumerate(_entries(match["value"])):
            section = _SECTIONS[match["which"]]
            if priority != DEFAULT_PRIORITY:
                section += f".{priority:05d}"  # as gcc pads it: linkers sort by number or by name
            name = f"@gpubuild.{match['which']}.{number}"
            kept.append(name)
            pointers.append(f'{name} = internal global ptr {function}, section "{section}", align 8\n')
        return ""

    text = _ARRAY.sub(replace, text)
    if not pointers:
        return text
    return _with_used(text, kept) + "\n" + "".join(pointers)


def _entries(value: str) -> Iterator[tuple[int, str]]:
    if value.startswith(("zeroinitializer", "undef", "poison")):
        return
    end = 1  # behind the bracket
    while match := _ENTRY.match(value, end):
        end = match.end()
        if match["function"] != "null":  # a null entry ends the list; LLVM skips it
            # The priority is printed as a signed number and means an unsigned one.
            yield int(match["priority"]) % 2**32, match["function"]
    if value[end:] != "]":
        raise ValueError(f"an entry of a constructor list that LLVM does not print: {value[:200]}")


def _with_used(text: str, names: list[str]) -> str:
    """Add to ``@llvm.used``, so that no optimisation and no linker drops the pointers."""
    items = [f"ptr {name}" for name in names]
    match = _USED.search(text)
    if match is None:
        rest = ', section "llvm.metadata"'
        return f"{text}\n@llvm.used = appending global [{len(items)} x ptr] [{', '.join(items)}]{rest}\n"
    items = re.findall(rf"ptr {_NAME}", match["items"]) + items
    line = f"@llvm.used = appending global [{len(items)} x ptr] [{', '.join(items)}]{match['rest']}"
    return text[: match.start()] + line + text[match.end() :]
