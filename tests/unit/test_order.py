"""tests/order.py: the files whose times and sharing it knows are there."""

from pathlib import Path

import order

TESTS = Path(__file__).parents[1]


def test_files_exist() -> None:
    for file in {*order.SECONDS, *order.BY_FUNCTION, *order.BY_CASE}:
        assert (TESTS / file).is_file(), f"{file} was renamed or split: say so in tests/order.py"


def test_what_goes_to_one_worker() -> None:
    assert order.scope("tests/unit/build/test_lock.py::test_a[1]") == "unit/build/test_lock.py"
    by_function = f"tests/{order.BY_FUNCTION[0]}::test_a"
    assert order.scope(f"{by_function}[1]") == by_function
    by_case = f"tests/{order.BY_CASE[0]}::test_a[1]"
    assert order.scope(by_case) == by_case
