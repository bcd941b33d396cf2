"""Variants: cases of which one of the same kind runs in every run of the tests, and the others nightly."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

VARIANTS = "GPUBUILD_TEST_VARIANTS" in os.environ
nightly = pytest.mark.skipif(not VARIANTS, reason="a variant, for .ci/nightly: set GPUBUILD_TEST_VARIANTS=1")


def few(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """The first ``count`` cases, values or tuples of values; the others are marked ``nightly``."""
    listed = list(cases)
    rest = [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=nightly)
        for case in listed[count:]
    ]
    return [*listed[:count], *rest]
