"""Workarounds of errors in MLIR and LLVM: the record, and those that any pipeline needs.

A module ``workarounds`` at each level has the code and a table ``WORKAROUNDS``. A test lists all tables
and fails where a package that ``pyproject.toml`` pins has reached the version to remove one at.

Index casts: passes of MLIR that leave alone what they would get wrong.

Until LLVM 23, the patterns of ``canonicalize`` take two casts for none where the first one cuts bits off:
``index`` to ``i8`` and back gave the whole index (llvm/llvm-project issues 90238 and 90296).
"""

from __future__ import annotations

import re
from functools import cache

from gpubuild.support.frozen import frozen


@frozen
class Workaround:
    """What works around an error, and until when."""

    name: str  # of the function or pass in its module
    bug: str
    seen: str  # upstream's issue, or the version that it was measured with
    package: str  # that has the error, as pyproject.toml pins it
    remove_when: str  # the version of the package at which to remove it, or to look again


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


WORKAROUNDS = (
    Workaround(
        name="keep_narrow_casts",
        bug="canonicalize takes an index cast that cuts bits and one back for none",
        seen="llvm/llvm-project#90238, llvm/llvm-project#90296",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
)
