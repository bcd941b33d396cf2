"""Counts: how often the fault tests injected what they say, shown after every run of the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

PROPERTY = "counted"
Counted = Callable[..., None]


@pytest.fixture
def counted(record_property: Callable[[str, object], None]) -> Counted:
    """``counted("bits flipped", n, at_least=m)`` fails below ``m`` and shows the sum at the end."""

    def note(what: str, number: int, *, at_least: int) -> None:
        assert number >= at_least, f"{what}: {number}, expected at least {at_least}"
        record_property(PROPERTY, (what, number))

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add up what the tests noted; it travels with their reports, from worker processes too."""
    sums: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == PROPERTY:
                what, number = value
                sums[what] += number
    if sums:
        terminalreporter.section("faults injected")
        for what, number in sorted(sums.items()):
            terminalreporter.write_line(f"{number:7,} {what}")
