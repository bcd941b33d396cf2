/* nvidia_real.c: reals of PTX: small types, rounding, and what is said of zeros and of what is no number. */
#include "core.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

float nv_approximate(uint32_t op, uint32_t flush, float given);

/* ---- types ---- */

enum kind { F16, BF16, E4M3, E5M2, TF32, F32 };
static const struct format {
    int exponent_bits, fraction_bits;
    bool infinities;
    uint32_t no_number;
    int unused_bits; /* below the fraction */
} FORMATS[] = {
    {5, 10, true, 0x7FFF, 0}, {8, 7, true, 0x7FFF, 0},   {4, 3, false, 0x7F, 0},
    {5, 2, true, 0x7F, 0},    {8, 10, true, 0x7FFFFFFF, 13}, {8, 23, true, 0x7FFFFFFF, 0},
};

enum { FINITE = 1, NOT_NEGATIVE = 2, SATURATED = 4, FLUSHED = 8 };

double nv_widen(uint32_t bits, uint32_t kind) {
    const struct format *f = &FORMATS[kind];
    bits >>= f->unused_bits;
    uint32_t fraction = bits & ((1u << f->fraction_bits) - 1), most = (1u << f->exponent_bits) - 1;
    uint32_t exponent = bits >> f->fraction_bits & most;
    int bias = (int)(most >> 1);
    double value;
    if (f->infinities && exponent == most) {
        value = fraction != 0 ? NAN : INFINITY;
    } else if (!f->infinities && exponent == most && fraction == (1u << f->fraction_bits) - 1) {
        value = NAN;
    } else if (exponent == 0) {
        value = ldexp(fraction, 1 - bias - f->fraction_bits);
    } else {
        value = ldexp(fraction + (1u << f->fraction_bits), (int)exponent - bias - f->fraction_bits);
    }
    return bits >> (f->exponent_bits + f->fraction_bits) & 1 ? -value : value;
}

/* `mode`: nearest even, zero, minus, plus, or `a`way from zero where halfway. */
static double whole(double value, uint32_t mode) {
    switch (mode) {
    case 'z': return trunc(value);
    case 'm': return floor(value);
    case 'p': return ceil(value);
    case 'a': return round(value);
    default: return nearbyint(value);
    }
}

double nv_round(double value, uint32_t mode) {
    return whole(value, mode);
}

uint32_t nv_narrow(double value, uint32_t kind, uint32_t mode, uint32_t flags) {
    const struct format *f = &FORMATS[kind];
    uint32_t most = (1u << f->exponent_bits) - 1, top = (1u << f->fraction_bits) - 1;
    if (flags & SATURATED) {
        value = isnan(value) || value < 0 ? 0 : value > 1 ? 1 : value;
    }
    if (isnan(value)) {
        return f->no_number;
    }
    if ((flags & NOT_NEGATIVE) && signbit(value)) {
        value = 0;
    }
    uint32_t sign = (uint32_t)(signbit(value) != 0) << (f->exponent_bits + f->fraction_bits);
    int bias = (int)(most >> 1), exponent;
    /* Modes towards an infinity look at the sign. */
    if (signbit(value) && (mode == 'm' || mode == 'p')) {
        mode = mode == 'm' ? 'p' : 'm';
    }
    double size = fabs(value);
    uint32_t largest = f->infinities ? (most - 1) << f->fraction_bits | top : most << f->fraction_bits | (top - 1);
    uint32_t beyond = f->infinities ? most << f->fraction_bits : f->no_number;
    uint32_t bits;
    if (isinf(size)) {
        bits = flags & FINITE ? largest : beyond;
    } else {
        frexp(size, &exponent);
        exponent = size == 0 || exponent < 2 - bias ? 2 - bias : exponent; /* subnormals have the spacing of the smallest normals */
        double units = whole(ldexp(size, f->fraction_bits + 1 - exponent), mode);
        bits = (uint32_t)((uint64_t)units + ((uint64_t)(exponent - 2 + bias) << f->fraction_bits));
        if (bits > largest) {
            bits = (flags & FINITE) || mode == 'z' || mode == 'm' ? largest : beyond;
        }
    }
    if ((flags & FLUSHED) && bits >> f->fraction_bits == 0) {
        bits = 0;
    }
    return (sign | bits) << f->unused_bits;
}

uint32_t nv_flush(uint32_t bits) {
    return (bits & 0x7F800000) == 0 ? bits & 0x80000000 : bits;
}

/* ---- integers ---- */

/* Clamped. What is no number gives 0, or, where `wide`, only the top bit. */
int64_t nv_convert_to_integer(double value, uint32_t mode, uint32_t bits, uint32_t is_signed, uint32_t wide) {
    if (isnan(value)) {
        return wide ? (int64_t)(1ull << (bits - 1)) : 0;
    }
    double rounded = whole(value, mode), most = ldexp(1, (int)(is_signed ? bits - 1 : bits));
    if (rounded >= most) {
        return (int64_t)(bits == 64 && !is_signed ? UINT64_MAX : (1ull << (is_signed ? bits - 1 : bits)) - 1);
    }
    if (rounded <= (is_signed ? -most : 0)) {
        return is_signed ? (int64_t)(~0ull << (bits - 1)) : 0;
    }
    return is_signed ? (int64_t)rounded : (int64_t)(uint64_t)rounded;
}

static int mode_of(uint32_t mode) {
    return mode == 'z' || mode == 'o' ? FE_TOWARDZERO : mode == 'm' ? FE_DOWNWARD : mode == 'p' ? FE_UPWARD : FE_TONEAREST;
}

/* With mode `o`, what does not fit makes the last bit 1: narrower types are then rounded from it as from the number. */
static double made_odd(double value, bool inexact) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    bits |= inexact && isfinite(value);
    memcpy(&value, &bits, 8);
    return value;
}

double nv_integer_to_double(int64_t given, uint32_t is_signed, uint32_t mode) {
    volatile int64_t number = given;
    volatile uint64_t natural = (uint64_t)given;
    volatile double result;
    int before = fegetround();
    fesetround(mode_of(mode));
    feclearexcept(FE_INEXACT);
    result = is_signed ? (double)number : (double)natural;
    bool inexact = fetestexcept(FE_INEXACT) != 0;
    fesetround(before);
    return mode == 'o' ? made_odd(result, inexact) : result;
}

/* ---- arithmetic of small types, exact and rounded once ---- */

enum { SMALL_FLUSH = 1, SMALL_SATURATE = 2, SMALL_RELU = 4, SMALL_NAN = 8, SMALL_XOR = 16 };

static double extreme(bool larger, bool numbers_only, double a, double b) {
    if (isnan(a) || isnan(b)) {
        return numbers_only || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
    }
    if (a == b) { /* -0 is below +0 */
        return (signbit(a) != 0) == larger ? b : a;
    }
    return (a < b) == larger ? b : a;
}

uint32_t nv_arith_small(uint32_t op, uint32_t kind, uint32_t flags, uint32_t x, uint32_t y, uint32_t z) {
    double a = nv_widen(x, kind), b = nv_widen(y, kind), c = nv_widen(z, kind);
    uint32_t narrow = (flags & SMALL_SATURATE ? SATURATED : 0) | (flags & SMALL_RELU ? NOT_NEGATIVE : 0);
    if (flags & SMALL_FLUSH) {
        double least = ldexp(1, kind == F16 ? -14 : -126);
        a = fabs(a) < least ? copysign(0, a) : a;
        b = fabs(b) < least ? copysign(0, b) : b;
        c = fabs(c) < least ? copysign(0, c) : c;
        narrow |= FLUSHED;
    }
    if (op == 'l' || op == 'h') {
        bool negative = (flags & SMALL_XOR) && (signbit(a) != 0) != (signbit(b) != 0);
        if (flags & SMALL_XOR) {
            a = fabs(a);
            b = fabs(b);
        }
        double value = extreme(op == 'h', flags & SMALL_NAN, a, b);
        return nv_narrow(negative && !isnan(value) ? -value : value, kind, 'n', narrow);
    }
    volatile double p = a, q = b, r = c, result;
    int before = fegetround();
    /* A sum of zeros has the sign of rounding to nearest. */
    bool exact_zero = (op == 'f' ? fma(a, b, c) : op == 'm' ? a * b : op == 'a' ? a + b : a - b) == 0;
    fesetround(exact_zero ? FE_TONEAREST : FE_TOWARDZERO);
    feclearexcept(FE_INEXACT);
    result = op == 'f' ? fma(p, q, r) : op == 'm' ? p * q : op == 'a' ? p + q : p - q;
    bool inexact = fetestexcept(FE_INEXACT) != 0;
    fesetround(before);
    return nv_narrow(made_odd(result, inexact), kind, 'n', narrow);
}

uint32_t nv_approximate_small(uint32_t op, uint32_t kind, uint32_t bits, uint32_t flush) {
    double x = nv_widen(bits, kind);
    if (flush && fabs(x) < ldexp(1, -126)) {
        x = copysign(0, x);
    }
    return nv_narrow(op == 'e' ? exp2(x) : tanh(x), kind, 'n', flush ? FLUSHED : 0);
}

/* ---- smaller, larger, quotients ---- */

enum { FLOAT_FLUSH = 1, FLOAT_NAN = 2, FLOAT_XOR = 4 };

float nv_extreme_f(uint32_t larger, uint32_t flags, float a, float b) {
    double x = a, y = b;
    if (flags & FLOAT_FLUSH) {
        x = fpclassify(a) == FP_SUBNORMAL ? copysign(0, x) : x;
        y = fpclassify(b) == FP_SUBNORMAL ? copysign(0, y) : y;
    }
    bool negative = (flags & FLOAT_XOR) && (signbit(x) != 0) != (signbit(y) != 0);
    if (flags & FLOAT_XOR) {
        x = fabs(x);
        y = fabs(y);
    }
    double value = extreme(larger, flags & FLOAT_NAN, x, y);
    float result = (float)(negative ? -value : value);
    if (isnan(value)) {
        memcpy(&result, &FORMATS[F32].no_number, 4);
    }
    return result;
}

double nv_extreme_d(uint32_t larger, uint32_t flags, double a, double b) {
    (void)flags;
    return extreme(larger, false, a, b);
}

float nv_divide_coarsely(float given_a, float given_b, uint32_t flush, uint32_t approximate) {
    float a = given_a, b = given_b;
    if (flush) {
        a = fpclassify(a) == FP_SUBNORMAL ? copysignf(0, a) : a;
        b = fpclassify(b) == FP_SUBNORMAL ? copysignf(0, b) : b;
    }
    float result = a / b;
    if (approximate && isfinite(b) && fabsf(b) > 0x1p126f) { /* an infinity by such a number: no number */
        result = isinf(a) ? NAN : copysignf(0, result);
    }
    return flush && fpclassify(result) == FP_SUBNORMAL ? copysignf(0, result) : result;
}
