"""Depfile: the make rule in which a C compiler lists the files it read."""

from __future__ import annotations

import re

# A backslash escapes a blank, a hash or itself before one; `$$` is a dollar.
_TOKEN = re.compile(r"(?:\\[ \t#]|\\(?!\r?\n)|\$\$|[^\s\\])+")
_ESCAPE = re.compile(r"\\([ \t#])|\$(\$)")


def parse_depfile(text: str) -> list[str]:
    """The prerequisites of the first rule, in order, each once.

    Raises ``ValueError`` when there is no rule.
    """
    first = re.split(r"(?<!\\)\r?\n", text.lstrip(), maxsplit=1)[0]
    _, colon, rest = first.partition(":")
    if not colon:
        raise ValueError("a dependency file without a rule")
    names = (_ESCAPE.sub(lambda m: m[1] or m[2], token) for token in _TOKEN.findall(rest))
    return list(dict.fromkeys(names))
