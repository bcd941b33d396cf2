/* nvidia_real.c: floating-point arithmetic of PTX: small types, rounding modes, zeros and NaN. */
#include "core.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

/* ---- types ---- */

enum kind { F16, BF16, F32 };
static const struct format {
    int exponent_bits, fraction_bits;
    uint32_t nan;
} FORMATS[] = {{5, 10, 0x7FFF}, {8, 7, 0x7FFF}, {8, 23, 0x7FFFFFFF}};

enum { SATURATED = 1, FLUSHED = 2 };

double nv_widen(uint32_t bits, uint32_t kind) {
    const struct format *f = &FORMATS[kind];
    uint32_t fraction = bits & ((1u << f->fraction_bits) - 1), most = (1u << f->exponent_bits) - 1;
    uint32_t exponent = bits >> f->fraction_bits & most;
    int bias = (int)(most >> 1);
    double value;
    if (exponent == most) {
        value = fraction != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
        value = ldexp(fraction, 1 - bias - f->fraction_bits);
    } else {
        value = ldexp(fraction + (1u << f->fraction_bits), (int)exponent - bias - f->fraction_bits);
    }
    return bits >> (f->exponent_bits + f->fraction_bits) & 1 ? -value : value;
}

/* Round to a whole number; `mode`: `n`earest even, to `z`ero, to `m`inus infinity, to `p`lus infinity. */
double nv_round(double value, uint32_t mode) {
    return mode == 'z' ? trunc(value) : mode == 'm' ? floor(value) : mode == 'p' ? ceil(value) : nearbyint(value);
}

uint32_t nv_narrow(double value, uint32_t kind, uint32_t mode, uint32_t flags) {
    const struct format *f = &FORMATS[kind];
    uint32_t most = (1u << f->exponent_bits) - 1, infinity = most << f->fraction_bits;
    if (flags & SATURATED) {
        value = isnan(value) || value < 0 ? 0 : value > 1 ? 1 : value;
    }
    if (isnan(value)) {
        return f->nan;
    }
    uint32_t sign = (uint32_t)(signbit(value) != 0) << (f->exponent_bits + f->fraction_bits), bits = infinity;
    int bias = (int)(most >> 1), exponent;
    /* Modes towards an infinity depend on the sign. */
    if (signbit(value) && (mode == 'm' || mode == 'p')) {
        mode = mode == 'm' ? 'p' : 'm';
    }
    double size = fabs(value);
    if (!isinf(size)) {
        frexp(size, &exponent);
        exponent = size == 0 || exponent < 2 - bias ? 2 - bias : exponent; /* subnormals have the spacing of the smallest normals */
        double units = nv_round(ldexp(size, f->fraction_bits + 1 - exponent), mode);
        bits = (uint32_t)((uint64_t)units + ((uint64_t)(exponent - 2 + bias) << f->fraction_bits));
        if (bits >= infinity) {
            bits = mode == 'z' || mode == 'm' ? infinity - 1 : infinity;
        }
    }
    if ((flags & FLUSHED) && bits >> f->fraction_bits == 0) {
        bits = 0;
    }
    return sign | bits;
}

uint32_t nv_flush(uint32_t bits) {
    return (bits & 0x7F800000) == 0 ? bits & 0x80000000 : bits;
}

/* ---- integers ---- */

/* Clamped. NaN gives 0, or, where `wide`, only the top bit. */
int64_t nv_convert_to_integer(double value, uint32_t mode, uint32_t bits, uint32_t is_signed, uint32_t wide) {
    if (isnan(value)) {
        return wide ? (int64_t)(1ull << (bits - 1)) : 0;
    }
    double rounded = nv_round(value, mode), most = ldexp(1, (int)(is_signed ? bits - 1 : bits));
    if (rounded >= most) {
        return (int64_t)(bits == 64 && !is_signed ? UINT64_MAX : (1ull << (is_signed ? bits - 1 : bits)) - 1);
    }
    if (rounded <= (is_signed ? -most : 0)) {
        return is_signed ? (int64_t)(~0ull << (bits - 1)) : 0;
    }
    return is_signed ? (int64_t)rounded : (int64_t)(uint64_t)rounded;
}

/* If inexact, make the last bit 1: rounding the result to a narrower type then equals rounding the exact number. */
static double made_odd(double value, bool inexact) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    bits |= inexact && isfinite(value);
    memcpy(&value, &bits, 8);
    return value;
}

double nv_integer_to_odd_double(int64_t given, uint32_t is_signed) {
    volatile int64_t number = given;
    volatile uint64_t natural = (uint64_t)given;
    volatile double result;
    int before = fegetround();
    fesetround(FE_TOWARDZERO);
    feclearexcept(FE_INEXACT);
    result = is_signed ? (double)number : (double)natural;
    bool inexact = fetestexcept(FE_INEXACT) != 0;
    fesetround(before);
    return made_odd(result, inexact);
}

/* ---- arithmetic with rounding modes ---- */

enum { FLUSH = 256 }; /* added to the letter of a mode: subnormals are 0 */

static float flushed(float value, uint32_t flush) {
    return flush && fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static int mode_of(uint32_t mode) {
    uint32_t letter = mode & 255;
    return letter == 'z' ? FE_TOWARDZERO : letter == 'm' ? FE_DOWNWARD : letter == 'p' ? FE_UPWARD : FE_TONEAREST;
}

#define ROUNDED(expression)                                                                                            \
    int before = fegetround();                                                                                         \
    fesetround(mode_of(mode));                                                                                         \
    result = (expression);                                                                                             \
    fesetround(before)

float nv_arith_f(uint32_t op, uint32_t mode, float given_a, float given_b, float given_c) {
    uint32_t flush = mode & FLUSH;
    volatile float a = flushed(given_a, flush), b = flushed(given_b, flush), c = flushed(given_c, flush), result;
    ROUNDED(op == 'a' ? a + b : op == 'm' ? a * b : op == 'd' ? a / b : op == 's' ? sqrtf(a) : fmaf(a, b, c));
    return flushed(result, flush);
}

double nv_arith_d(uint32_t op, uint32_t mode, double given_a, double given_b, double given_c) {
    volatile double a = given_a, b = given_b, c = given_c, result;
    ROUNDED(op == 'a' ? a + b : op == 'm' ? a * b : op == 'd' ? a / b : op == 's' ? sqrt(a) : op == 'q' ? 1 / sqrt(a) : fma(a, b, c));
    return result;
}

/* ---- approximations: exact to a float, which the ISA allows ---- */

float nv_approximate(uint32_t op, uint32_t flush, float given) {
    double x = flushed(given, flush);
    double y = 0;
    switch (op) {
    case 'e': y = exp2(x); break;
    case 'l': y = log2(x); break;
    case 'r': y = 1 / x; break;
    case 'q': y = 1 / sqrt(x); break;
    case 's': y = sqrt(x); break;
    case 'i': y = sin(x); break;
    case 'c': y = cos(x); break;
    default: emu_fail("no approximation %c", (char)op);
    }
    return flushed((float)y, flush);
}

/* The lower half of the result is 0. */
double nv_approximate_d(uint32_t op, double x) {
    if (fpclassify(x) == FP_SUBNORMAL) {
        x = copysign(0, x);
    }
    double y = op == 'r' ? 1 / x : 1 / sqrt(x);
    if (fpclassify(y) == FP_SUBNORMAL) {
        y = copysign(0, y);
    }
    uint64_t bits;
    memcpy(&bits, &y, 8);
    if (isfinite(y)) {
        bits &= ~0ull << 32;
    }
    memcpy(&y, &bits, 8);
    return y;
}

/* ---- arithmetic of small types, exact and rounded once ---- */

static double extreme(bool larger, bool propagates_nan, double a, double b) {
    if (isnan(a) || isnan(b)) {
        return propagates_nan || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
    }
    if (a == b) { /* -0 is below +0 */
        return (signbit(a) != 0) == larger ? b : a;
    }
    return (a < b) == larger ? b : a;
}

uint32_t nv_arith_small(uint32_t op, uint32_t kind, uint32_t propagates_nan, uint32_t x, uint32_t y, uint32_t z) {
    volatile double a = nv_widen(x, kind), b = nv_widen(y, kind), c = nv_widen(z, kind), result;
    if (op == 'l' || op == 'h') {
        return nv_narrow(extreme(op == 'h', propagates_nan, a, b), kind, 'n', 0);
    }
    int before = fegetround();
    /* A sum of zeros has the sign of rounding to nearest. */
    bool exact_zero = (op == 'f' ? fma(a, b, c) : op == 'm' ? a * b : op == 'a' ? a + b : a - b) == 0;
    fesetround(exact_zero ? FE_TONEAREST : FE_TOWARDZERO);
    feclearexcept(FE_INEXACT);
    result = op == 'f' ? fma(a, b, c) : op == 'm' ? a * b : op == 'a' ? a + b : a - b;
    bool inexact = fetestexcept(FE_INEXACT) != 0;
    fesetround(before);
    return nv_narrow(made_odd(result, inexact), kind, 'n', 0);
}

/* ---- smaller, larger, quotients ---- */

float nv_extreme_f(uint32_t larger, uint32_t flush, uint32_t propagates_nan, float a, float b) {
    double value = extreme(larger, propagates_nan, flushed(a, flush), flushed(b, flush));
    float result = (float)value;
    if (isnan(value)) {
        memcpy(&result, &FORMATS[F32].nan, 4);
    }
    return result;
}

double nv_extreme_d(uint32_t larger, double a, double b) {
    return extreme(larger, false, a, b);
}

float nv_divide_coarsely(float given_a, float given_b, uint32_t flush, uint32_t approximate) {
    float a = flushed(given_a, flush), b = flushed(given_b, flush), result = a / b;
    if (approximate && isfinite(b) && fabsf(b) > 0x1p126f) { /* infinity divided by such a number is NaN */
        result = isinf(a) ? NAN : copysignf(0, result);
    }
    return flushed(result, flush);
}
