"""What formats of ``gpu.printf`` ask for, and that the arguments get just that."""

import re

import pytest
from unit.engine.legalized import prepared

from gpubuild.engine.legalize import printf


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("plain, 100%%", []),
        ("%d%i%u%o%x%X%c", [32] * 7),
        ("%hhd %hd", [32, 32]),
        ("%ld %lld %jd %zu %td %p", [64] * 6),
        ("%a%A%e%E%f%F%g%G%Lf", [None] * 9),
        ("%-+ #05.3d|%.2f|%.f", [32, None, None]),
        ("%*d %-*.*f", [32, 32, 32, 32, None]),
        ("%%%d%%", [32]),
    ],
)
def test_conversions(text: str, bits: list[int | None]) -> None:
    assert [c.bits for c in printf.conversions(text)] == bits


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("%s", "asks for a string"),
        ("100% sure", "'% s' asks for a string, which kernels do not have (write %% for a percent sign)"),
        ("%n", "'%n' is no conversion"),
        ("50%\n", "is no conversion"),
        ("50%", "'%' is no conversion of numbers (write %% for a percent sign)"),
        ("% %", "is no conversion"),
    ],
)
def test_what_cannot_be_printed(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        printf.conversions(text)


@pytest.mark.parametrize(
    ("form", "given", "cast"),
    [
        ("%d", "%i : index", "arith.index_cast %arg2 : index to i32"),
        ("%lld", "%n : i32", "arith.extsi %arg4 : i32 to i64"),
        ("%x", "%w : i64", "arith.trunci %arg5 : i64 to i32"),
        ("%ld", "%b : i1", "arith.extui %arg6 : i1 to i64"),
        ("%d", "%b : i1", "arith.extui %arg6 : i1 to i32"),
    ],
)
def test_integers_get_the_width_that_is_printed(form: str, given: str, cast: str) -> None:
    """NVIDIA's vprintf takes what follows an index for %d from 4 bytes too early."""
    assert cast in prepared(f'gpu.printf "{form}", {given}', arguments="%w: i64, %b: i1")


@pytest.mark.parametrize(("form", "given"), [("%d", "%n : i32"), ("%lu", "%i : index"), ("%f", "%x : f32")])
def test_what_fits_stays(form: str, given: str) -> None:
    text = prepared(f'gpu.printf "{form}", {given}')
    assert "arith." not in text
