/* mlir_utils/element.c: printing and comparing single elements, as MLIR's runner_utils do with C++ streams. */
#include "mlir_utils/element.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

float gb_float_of_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value = 0;
    memcpy(&value, &wide, sizeof value);
    return value;
}

float gb_float_of_f16(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = bits >> 10 & 0x1fu;
    uint32_t fraction = bits & 0x3ffu;
    if (exponent == 0) { /* zero and subnormal: fraction · 2⁻²⁴, exact in a float */
        float value = (float)fraction * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    uint32_t wide = sign | (exponent == 0x1f ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
    float value = 0;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* T is read from `element` as `value`, then printed by PRINT and compared by SAME (with a and b). */
#define ELEMENT(name, T, PRINT, SAME)                                                                         \
    static void print_##name(FILE *out, const void *element) {                                                \
        T value;                                                                                              \
        memcpy(&value, element, sizeof value);                                                                \
        PRINT;                                                                                                \
    }                                                                                                         \
    static bool same_##name(const void *actual, const void *expected) {                                       \
        T a;                                                                                                  \
        T b;                                                                                                  \
        memcpy(&a, actual, sizeof a);                                                                         \
        memcpy(&b, expected, sizeof b);                                                                       \
        return SAME;                                                                                          \
    }                                                                                                         \
    const struct gb_element gb_element_##name = {sizeof(T), print_##name, same_##name}

struct complex_f32 {
    float real, imaginary;
};
struct complex_f64 {
    double real, imaginary;
};

static bool near_f32(float actual, float expected) {
    return isfinite(actual) && isfinite(expected) && fabsf(actual - expected) <= 1e-6f * fabsf(expected);
}

static bool near_f64(double actual, double expected) {
    return isfinite(actual) && isfinite(expected) && fabs(actual - expected) <= 1e-12 * fabs(expected);
}

/* A byte is a character to C++ streams, and so it is upstream. */
ELEMENT(i8, int8_t, (void)fputc((unsigned char)value, out), a == b);
ELEMENT(i16, int16_t, (void)fprintf(out, "%" PRId16, value), a == b);
ELEMENT(i32, int32_t, (void)fprintf(out, "%" PRId32, value), a == b);
ELEMENT(i64, int64_t, (void)fprintf(out, "%" PRId64, value), a == b);
ELEMENT(index, uint64_t, (void)fprintf(out, "%" PRIu64, value), a == b);
ELEMENT(f16, uint16_t, (void)fprintf(out, "%g", (double)gb_float_of_f16(value)), a == b);
ELEMENT(bf16, uint16_t, (void)fprintf(out, "%g", (double)gb_float_of_bf16(value)), a == b);
ELEMENT(f32, float, (void)fprintf(out, "%g", (double)value), near_f32(a, b));
ELEMENT(f64, double, (void)fprintf(out, "%g", value), near_f64(a, b));
ELEMENT(c32, struct complex_f32, (void)fprintf(out, "(%g,%g)", (double)value.real, (double)value.imaginary),
        a.real == b.real && a.imaginary == b.imaginary);
ELEMENT(c64, struct complex_f64, (void)fprintf(out, "(%g,%g)", value.real, value.imaginary),
        a.real == b.real && a.imaginary == b.imaginary);
