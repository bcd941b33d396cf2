"""Contractions: ``fma`` of f32 on CPUs without an instruction for it.

The product is exact in f64. The sum is rounded to odd there: towards zero, with the last bit set where
something was lost, so that rounding it again gives what rounding once would.
"""

from __future__ import annotations

from gpubuild.engine.mathlib.expressions import Real, two_sum
from gpubuild.engine.mathlib.polynomials import Code, Maker


def _fma(code: Code) -> str:
    a, b, c = (Real(code, f"%{i}", "float").wide() for i in range(3))
    total, lost = two_sum(a * b, c)
    bits = total.bits()
    # Nearest may be further from zero than the exact sum; then the number before it is the one.
    further = (lost.is_("ogt", 0.0) & total.is_("olt", 0.0)) | (lost.is_("olt", 0.0) & total.is_("ogt", 0.0))
    step = code.value(f"sext i1 {further.name} to i64")
    some = code.value(f"zext i1 {lost.is_('one', 0.0).name} to i64")
    odd = code.value(f"or i64 {code.value(f'add i64 {bits}, {step}')}, {some}")
    return total.made(f"bitcast i64 {odd} to double").narrow().name


UNFUSED: dict[str, Maker] = {"fmaf": _fma}
