"""Index casts: passes of MLIR that leave alone what they would get wrong.

Until LLVM 23, the patterns of ``canonicalize`` take two casts for none where the first one cuts bits off:
``index`` to ``i8`` and back gave the whole index (llvm/llvm-project issues 90238 and 90296).
"""

from __future__ import annotations

import re
from functools import cache

# By the names of their classes, which are spelled as the compiler that MLIR was built with spells them.
_WRONG = ",".join(
    f"{namespace}::IndexCast{sign}OfIndexCast{sign}"
    for namespace in ("{anonymous}", "(anonymous namespace)")
    for sign in ("", "UI")
)
_OPTION = f"disable-patterns={{{_WRONG}}}"
_PASS = re.compile(r"(?<![-\w])canonicalize(?![-\w])(\{)?")


@cache
def keep_narrow_casts(pipeline: str) -> str:
    """``pipeline`` with its ``canonicalize`` kept from folding index casts; its own options stay."""
    return _PASS.sub(lambda found: f"canonicalize{{{_OPTION}{' ' if found[1] else '}'}", pipeline)
