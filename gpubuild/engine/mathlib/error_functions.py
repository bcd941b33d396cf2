"""Error functions ``erf`` and ``erfc`` of f32 and f64.

erfc x = e^(-x^2) P(u) / (1 + 2x) with u = (x - k) / (x + k). Near zero, erf x = x + x Q(x^2). ``erff``
computes in f32. Coefficients are minimax fits; docs/explanation/cpu.md has bounds on errors.
"""

from __future__ import annotations

from gpubuild.engine.mathlib.exp_log import exp_f32, exp_short
from gpubuild.engine.mathlib.expressions import Function, Real, in_f64, not_tiny
from gpubuild.engine.mathlib.hyperbolic import exp_of_sum

# erf x / x - 1 in x^2, up to 0.93^2
_NEAR_F32 = (0.12837915122509003, -0.3761247992515564, 0.11281681805849075, -0.026761693879961967,
             0.004985906183719635, -0.00059535849140957)  # fmt: skip
# -log(erfc x) / x - 1, from 0.92 to 4
_FAR_F32 = (0.12864868342876434, 0.6351504921913147, 0.10623837262392044, -0.023763462901115417,
            0.0036431888584047556, -0.0003230035654269159, 1.1253626325924415e-05)  # fmt: skip
# erfc x e^(x^2) (1 + 2x) in (x - 2) / (x + 2), up to x = 10.6, to 2^-37
_ERFC_F32 = (
    1.2769783815557239, -0.09276382652581859, -0.1660303981539218, 0.16405127624418428, -0.054219985801406335,
    -0.008033942918426908, 0.008722503447668017, 0.0012707096592422607, -0.0014561950210186883,
    -0.00045144995495641715, 0.0002056018710792212, 0.00014384858614582182, -3.2686107067560917e-06,
    -2.7471622882064776e-05, -7.4958246301854766e-06,
)  # fmt: skip

# erf x / x - 1 in x^2, up to 1
_NEAR_F64 = (
    0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072816,
    0.005223977624780078, -0.0008548326978695855, 0.00012055331035174545, -1.4925593464649804e-05,
    1.6460972127504818e-06, -1.6350017793470957e-07, 1.4657829115620205e-08, -1.1365467124833755e-09,
    5.944920984521968e-11,
)  # fmt: skip
# erfc x e^(x^2) (1 + 2x) in (x - 4) / (x + 4), from x = 0.45 to 27.3
_ERFC_F64 = (
    1.2329951186255526, -0.1396211168405625, 0.01537965210261973, 0.06809705425468857,
    -0.10103906603630201, 0.0937328349985274, -0.06633036581231025, 0.03716751553396392,
    -0.016197734056183, 0.005031970016466521, -0.0007577733039357441, -0.00019925695064257936,
    0.00015062176465736063, -2.439812146793937e-05, -1.1222360312950612e-05, 5.706664863927027e-06,
    2.946018236918577e-07, -8.197801349771327e-07, 7.346456859223319e-08, 1.0349581172287138e-07,
    -1.6959622848547108e-08, -9.741376037740704e-09, 1.5055802489040529e-09,
)  # fmt: skip
# The same from x = 0.44 on, to 2^-26
_ERFC_SINGLE = (
    1.2769783735275269, -0.092763751745224, -0.166030615568161, 0.1640484482049942, -0.05421159416437149,
    -0.008004500530660152, 0.008655034936964512, 0.001148394076153636, -0.0012549591483548284,
    -0.00023505913850385696,
)  # fmt: skip


def _erf_f32(x: Real) -> Real:
    size = abs(x).at_most(4.0)
    least = not_tiny(size)
    far = 1.0 - exp_f32(-(least * least.polynomial(_FAR_F32) + least))
    near = size.fma((least * least).polynomial(_NEAR_F32), size)
    return size.compare("olt", 0.93).select(near, far).with_sign(x)


def _erfc_f32(x: Real) -> Real:
    size = abs(x).at_most(10.6)
    u = (size - 2.0) / (size + 2.0)
    e = exp_short(-(size * size))
    result = e * u.polynomial(_ERFC_F32) / size.fma(2.0, 1.0)
    return x.compare("olt", 0.0).select(2.0 - result, result)


def _far(size: Real) -> Real:
    """Return erfc of a number from 0.45 to 27.3, or of f32 to 10.6."""
    center, coefficients = (4.0, _ERFC_F64) if size.kind == "double" else (2.0, _ERFC_SINGLE)
    square, low = size.product(size)
    u = (size - center) / (size + center)
    return exp_of_sum(-square, -low) * (u.polynomial(coefficients) / size.fma(2.0, 1.0))


def _near(x: Real) -> Real:
    """Return erf of a number up to 1, or of f32 to 0.93."""
    return x.fma((x * x).polynomial(_NEAR_F64 if x.kind == "double" else _NEAR_F32), x)


def _erf(x: Real) -> Real:
    size = abs(x).at_most(6.0)
    far = 1.0 - _far(size)
    return size.compare("olt", 1.0).select(_near(size), far).with_sign(x)


def _erfc(x: Real) -> Real:
    size = abs(x).at_most(27.3 if x.kind == "double" else 10.6)
    far = _far(size)
    far = x.compare("olt", 0.0).select(2.0 - far, far)
    return size.compare("olt", 0.5).select(1.0 - _near(x), far)


F32: dict[str, Function] = {"erff": _erf_f32, "erfcf": in_f64(_erfc_f32)}
F64: dict[str, Function] = {"erf": _erf, "erfc": _erfc}
SINGLE: dict[str, Function] = {"erfcf": _erfc}
