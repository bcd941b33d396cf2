"""Judging: which results are wrong, and why."""

from __future__ import annotations

from collections.abc import Sequence

from devices.cases import Case
from devices.pack import Result


def wrong(cases: Sequence[Case], results: Sequence[Result]) -> dict[str, str]:
    """What is said of each case that is not right, by its name."""
    found = {}
    for case, result in zip(cases, results, strict=True):
        try:
            assert not result.failed, result.failed
            case.judge(result)
        except AssertionError as error:
            found[case.name] = f"{case.name}: {error}"
    return found
