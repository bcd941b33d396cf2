"""The record of a workaround, and the workarounds that every MLIR pipeline needs.

A module ``workarounds`` at each level has the code and a table ``WORKAROUNDS``. A test lists all tables
and fails when a package that ``pyproject.toml`` pins reaches the version at which to remove one.
"""

from __future__ import annotations

import re
from functools import cache

from gpubuild.support.frozen import frozen


@frozen
class Workaround:
    """A workaround of an upstream error, and when to remove it."""

    name: str  # of the function or pass in its module
    bug: str
    seen: str  # upstream's issue, or the version that it was measured with
    package: str  # that has the error, as pyproject.toml pins it
    remove_when: str  # the version of the package at which to remove it, or to look again


# Class names of patterns, as the compilers that MLIR is built with spell anonymous namespaces.
_WRONG = ",".join(
    f"{namespace}::IndexCast{sign}OfIndexCast{sign}"
    for namespace in ("{anonymous}", "(anonymous namespace)")
    for sign in ("", "UI")
)
_OPTION = f"disable-patterns={{{_WRONG}}}"
_PASS = re.compile(r"(?<![-\w])canonicalize(?![-\w])(\{)?")


@cache
def keep_narrow_casts(pipeline: str) -> str:
    """Return ``pipeline`` whose ``canonicalize`` passes do not fold index casts.

    The patterns remove ``index`` to ``i8`` and back, although the first cast cuts bits off.
    """
    return _PASS.sub(lambda found: f"canonicalize{{{_OPTION}{' ' if found[1] else '}'}", pipeline)


_SWITCH = re.compile(r"\b(?:cf|llvm)\.switch\s+%[^:]+:\s*i(\d+)|(?<=[\[,\s])(-?\d+)(?=\s*:\s*\^)")
_TOO_LARGE = str(2**64)  # is reported, at its location


def sign_cases(text: str) -> str:
    """Return MLIR text whose ``cf.switch`` and ``llvm.switch`` have signed case values.

    MLIR prints -1 of i8 as 255, which its parser does not take: it ends the process.
    """
    if ".switch" not in text:
        return text
    bits = 0

    def sign(found: re.Match[str]) -> str:
        nonlocal bits
        if found[1]:
            bits = int(found[1])
        elif bits:
            value = int(found[2])
            if not -(1 << bits - 1) <= value < 1 << bits:
                return _TOO_LARGE
            return str(value - (value >> bits - 1 << bits)) if value > 0 else found[0]
        return found[0]

    return _SWITCH.sub(sign, text)


WORKAROUNDS = (
    Workaround(
        name="keep_narrow_casts",
        bug="canonicalize removes an index cast that cuts bits off and the cast back",
        seen="llvm/llvm-project#90238, llvm/llvm-project#90296",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
    Workaround(
        name="sign_cases",
        bug="the parser ends the process on the case values of switches that the printer writes",
        seen="MLIR 22.1.8",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
)
