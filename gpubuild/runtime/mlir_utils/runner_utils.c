/* runner_utils.c: the functions of MLIR's c_runner_utils, float16_utils and runner_utils: printing, verifying, clocks and
 * conversions to bf16.
 *
 * Output equals that of LLVM 22's libraries byte for byte, except in two cases in which they read outside a memref: a memref
 * without elements prints "[]" here, and verify uses the strides of each memref. All output goes through C's stdout, in
 * order with printf of host code and of CPU kernels.
 */
#define _POSIX_C_SOURCE 200809L
#include "abi/memref.h"
#include "core/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static float float_of_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value = 0;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static float float_of_f16(uint16_t bits) {
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

/* ---- Conversions to bf16 ----
 *
 * LLVM calls them for host code; libgcc before version 13 lacks them. A bf16 result is in the low 16 bits of the first
 * floating-point register, on x86-64 as on AArch64. A float with these bits has the same effect and needs no compiler that
 * knows __bf16. */

static uint32_t bits_of(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* To nearest, ties to even. */
GB_WEAK float __truncsfbf2(float value) {
    uint32_t bits = bits_of(value);
    if (value != value) {
        bits |= 0x00400000u; /* stays a NaN when its lower half goes */
    } else {
        bits += 0x7fffu + (bits >> 16 & 1u);
    }
    bits >>= 16;
    float carrier = 0;
    memcpy(&carrier, &bits, sizeof carrier);
    return carrier;
}

/* Through a float rounded to odd, which the second rounding cannot mistake for a tie. */
GB_WEAK float __truncdfbf2(double value) {
    float narrow = (float)value;
    double back = (double)narrow;
    if (value == value && back != value) {
        uint32_t bits = bits_of(narrow);
        bool away_from_zero = value > 0 ? back > value : back < value;
        bits = (away_from_zero ? bits - 1 : bits) | 1u;
        memcpy(&narrow, &bits, sizeof narrow);
    }
    return __truncsfbf2(narrow);
}

/* ---- Printing and clocks ---- */

/* A program whose output is lost must not end with success. */
static void checked(int result, const char *call) {
    if (result < 0) {
        const struct gb_where where = {.call = call};
        gb_fatal(&where, "cannot write to standard output: %s", strerror(errno));
    }
}

#define PRINT(name, parameters, call)                                                                         \
    GB_WEAK void name parameters {                                                                            \
        checked(call, #name);                                                                                 \
    }

PRINT(printI64, (int64_t value), printf("%" PRId64, value))
PRINT(printU64, (uint64_t value), printf("%" PRIu64, value))
PRINT(printF32, (float value), printf("%g", (double)value))
PRINT(printF64, (double value), printf("%g", value))
/* Passed as i16 without zeroext: the upper half may have any value. */
PRINT(printF16, (uint32_t bits), printf("%g", (double)float_of_f16((uint16_t)(bits & 0xffffu))))
PRINT(printBF16, (uint32_t bits), printf("%g", (double)float_of_bf16((uint16_t)(bits & 0xffffu))))
PRINT(printString, (const char *text), fputs(text, stdout))
PRINT(printOpen, (void), fputs("( ", stdout))
PRINT(printClose, (void), fputs(" )", stdout))
PRINT(printComma, (void), fputs(", ", stdout))
PRINT(printNewline, (void), fputc('\n', stdout))
PRINT(printFlops, (double flops), fprintf(stderr, "%f GFLOPS\n", flops / 1.0e9))

/* Seconds since the epoch. */
GB_WEAK double rtclock(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* fails only for a clock that does not exist */
    return (double)now.tv_sec + (double)now.tv_nsec * 1.0e-9;
}

/* Nanoseconds of a monotonic clock; only differences are meaningful. */
GB_WEAK int64_t nanoTime(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

GB_WEAK int64_t _mlir_ciface_nanoTime(void) {
    return nanoTime();
}

/* ---- Elements of memrefs, printed and compared as MLIR's runner_utils does with C++ streams ---- */

/* Read through memcpy, since a memref's data may be at any address. */
struct element {
    size_t bytes;
    void (*print)(FILE *, const void *element); /* as C++ streams print it */
    bool (*same)(const void *actual, const void *expected);
};

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

/* ---- memrefs ---- */

enum { VERIFY_PRINT_LIMIT = 10 };

static void print_list(FILE *out, const char *label, const int64_t *values, int64_t count) {
    (void)fprintf(out, " %s = [", label);
    for (int64_t i = 0; i < count; i++) {
        (void)fprintf(out, "%s%" PRId64, i > 0 ? ", " : "", values[i]);
    }
    (void)fputc(']', out);
}

static void print_shape(FILE *out, int64_t rank, const struct gb_memref *memref) {
    if (memref->aligned == NULL) {
        (void)fputs("base@ = 0", out); /* as C++ streams print it */
    } else {
        (void)fprintf(out, "base@ = %p", (void *)memref->aligned);
    }
    (void)fprintf(out, " rank = %" PRId64 " offset = %" PRId64, rank, memref->offset);
    print_list(out, "sizes", gb_sizes(memref), rank);
    print_list(out, "strides", gb_strides(memref, rank), rank);
}

/* `depth` dimensions are open already; `sizes` and `strides` begin at the next one. */
static void print_data(FILE *out, const struct element *element, const char *base, int64_t depth, int64_t rank,
                       int64_t offset, const int64_t *sizes, const int64_t *strides) {
    if (depth == rank) {
        element->print(out, base + offset * (int64_t)element->bytes);
        return;
    }
    (void)fputc('[', out);
    for (int64_t i = 0; i < sizes[0]; i++) {
        if (i > 0) {
            (void)fprintf(out, "%s%*s", rank - depth > 1 ? ", \n" : ", ", (int)depth + 1, "");
        }
        print_data(out, element, base, depth + 1, rank, offset + i * strides[0], sizes + 1, strides + 1);
    }
    (void)fputc(']', out);
}

/* As upstream, ends with a flush: what a program printed survives a crash right after it. */
static void end_output(const char *call) {
    (void)fputc('\n', stdout);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        const struct gb_where where = {.call = call};
        gb_fatal(&where, "cannot write to standard output");
    }
}

static void print_memref(const char *title, const struct element *element, int64_t rank,
                         const struct gb_memref *memref) {
    (void)fputs(title, stdout);
    print_shape(stdout, rank, memref);
    (void)fputs(" data = \n", stdout);
    (void)fputs(rank == 0 ? "[" : "", stdout);
    print_data(stdout, element, memref->aligned, 0, rank, memref->offset, gb_sizes(memref), gb_strides(memref, rank));
    (void)fputs(rank == 0 ? "]" : "", stdout);
    end_output("printMemref");
}

static void print_unranked_shape(int64_t rank, const struct gb_memref *memref) {
    (void)fputs("Unranked Memref ", stdout);
    print_shape(stdout, rank, memref);
    end_output("printMemrefShape");
}

/* ---- Verify ---- */

struct verification {
    const struct element *element;
    const char *actual, *expected;
    int64_t errors;
};

static void verify_data(struct verification *v, int64_t rank, int64_t actual_offset, int64_t expected_offset,
                        const int64_t *sizes, const int64_t *actual_strides, const int64_t *expected_strides) {
    if (rank == 0) {
        int64_t bytes = (int64_t)v->element->bytes;
        const char *actual = v->actual + actual_offset * bytes;
        const char *expected = v->expected + expected_offset * bytes;
        if (!v->element->same(actual, expected) && v->errors++ < VERIFY_PRINT_LIMIT) {
            v->element->print(stderr, actual);
            (void)fputs(" != ", stderr);
            v->element->print(stderr, expected);
            (void)fprintf(stderr, " offset = %" PRId64 "\n", actual_offset);
        }
        return;
    }
    for (int64_t i = 0; i < sizes[0]; i++) {
        verify_data(v, rank - 1, actual_offset + i * actual_strides[0], expected_offset + i * expected_strides[0],
                    sizes + 1, actual_strides + 1, expected_strides + 1);
    }
}

/* The number of elements that differ; -1 when the shapes do. */
static int64_t verify(const struct element *element, const struct gb_unranked_memref *actual,
                      const struct gb_unranked_memref *expected) {
    int64_t rank = actual->rank;
    bool same_shape = rank == expected->rank;
    for (int64_t i = 0; same_shape && i < rank; i++) {
        same_shape = gb_sizes(actual->memref)[i] == gb_sizes(expected->memref)[i];
    }
    if (!same_shape) {
        print_shape(stderr, rank, actual->memref);
        print_shape(stderr, expected->rank, expected->memref);
        return -1;
    }
    struct verification v = {
        .element = element, .actual = actual->memref->aligned, .expected = expected->memref->aligned};
    verify_data(&v, rank, actual->memref->offset, expected->memref->offset, gb_sizes(actual->memref),
                gb_strides(actual->memref, rank), gb_strides(expected->memref, rank));
    return v.errors;
}

/* ---- The functions that MLIR programs call ---- */

/* How to handle elements of type T, and the functions for memrefs of them, whose names end with Name. PRINT prints `value`
 * to `out`; SAME compares `a` with `b`. */
#define ELEMENT(Name, T, PRINT, SAME)                                                                         \
    static void print_##Name(FILE *out, const void *element) {                                                \
        T value;                                                                                              \
        memcpy(&value, element, sizeof value);                                                                \
        PRINT;                                                                                                \
    }                                                                                                         \
    static bool same_##Name(const void *actual, const void *expected) {                                       \
        T a;                                                                                                  \
        T b;                                                                                                  \
        memcpy(&a, actual, sizeof a);                                                                         \
        memcpy(&b, expected, sizeof b);                                                                       \
        return SAME;                                                                                          \
    }                                                                                                         \
    static const struct element element_##Name = {sizeof(T), print_##Name, same_##Name};                      \
    GB_WEAK void _mlir_ciface_printMemref##Name(const struct gb_unranked_memref *memref) {                    \
        print_memref("Unranked Memref ", &element_##Name, memref->rank, memref->memref);                      \
    }                                                                                                         \
    GB_WEAK void printMemref##Name(int64_t rank, const struct gb_memref *memref) {                            \
        print_memref("Unranked Memref ", &element_##Name, rank, memref);                                      \
    }                                                                                                         \
    GB_WEAK void _mlir_ciface_printMemrefShape##Name(const struct gb_unranked_memref *memref) {               \
        print_unranked_shape(memref->rank, memref->memref);                                                   \
    }                                                                                                         \
    GB_WEAK int64_t _mlir_ciface_verifyMemRef##Name(const struct gb_unranked_memref *actual,                  \
                                                    const struct gb_unranked_memref *expected) {              \
        return verify(&element_##Name, actual, expected);                                                     \
    }                                                                                                         \
    GB_WEAK int64_t verifyMemRef##Name(int64_t actual_rank, struct gb_memref *actual, int64_t expected_rank,  \
                                       struct gb_memref *expected) {                                          \
        const struct gb_unranked_memref a = {actual_rank, actual};                                            \
        const struct gb_unranked_memref b = {expected_rank, expected};                                        \
        return verify(&element_##Name, &a, &b);                                                               \
    }

/* C++ streams print a byte as a character, and so does upstream. */
ELEMENT(I8, int8_t, (void)fputc((unsigned char)value, out), a == b)
ELEMENT(I16, int16_t, (void)fprintf(out, "%" PRId16, value), a == b)
ELEMENT(I32, int32_t, (void)fprintf(out, "%" PRId32, value), a == b)
ELEMENT(I64, int64_t, (void)fprintf(out, "%" PRId64, value), a == b)
ELEMENT(Ind, uint64_t, (void)fprintf(out, "%" PRIu64, value), a == b)
ELEMENT(F16, uint16_t, (void)fprintf(out, "%g", (double)float_of_f16(value)), a == b)
ELEMENT(BF16, uint16_t, (void)fprintf(out, "%g", (double)float_of_bf16(value)), a == b)
ELEMENT(F32, float, (void)fprintf(out, "%g", (double)value), near_f32(a, b))
ELEMENT(F64, double, (void)fprintf(out, "%g", value), near_f64(a, b))
ELEMENT(C32, struct complex_f32, (void)fprintf(out, "(%g,%g)", (double)value.real, (double)value.imaginary),
        a.real == b.real && a.imaginary == b.imaginary)
ELEMENT(C64, struct complex_f64, (void)fprintf(out, "(%g,%g)", value.real, value.imaginary),
        a.real == b.real && a.imaginary == b.imaginary)

#define PRINT_RANKED(rank, Name)                                                                              \
    GB_WEAK void _mlir_ciface_printMemref##rank##d##Name(const struct gb_memref *memref) {                    \
        print_memref("Memref ", &element_##Name, rank, memref);                                               \
    }

PRINT_RANKED(0, F32)
PRINT_RANKED(1, F32)
PRINT_RANKED(2, F32)
PRINT_RANKED(3, F32)
PRINT_RANKED(4, F32)
PRINT_RANKED(1, I8)
PRINT_RANKED(1, I32)
PRINT_RANKED(1, I64)
PRINT_RANKED(1, Ind)
PRINT_RANKED(1, F64)
PRINT_RANKED(1, C32)
PRINT_RANKED(1, C64)

/* vector<4x4xf32>; the uneven spaces are upstream's. */
static void print_4x4(FILE *out, const void *element) {
    static const char *const before[] = {"", ",   ", ",   ", ",  "};
    float v[4][4];
    memcpy(v, element, sizeof v);
    (void)fputc('(', out);
    for (int i = 0; i < 4; i++) {
        (void)fprintf(out, "%s(%g, %g, %g, %g)", before[i], (double)v[i][0], (double)v[i][1], (double)v[i][2],
                      (double)v[i][3]);
    }
    (void)fputc(')', out);
}

GB_WEAK void _mlir_ciface_printMemrefVector4x4xf32(const struct gb_memref *memref) {
    static const struct element vector_4x4 = {4 * 4 * sizeof(float), print_4x4, NULL};
    print_memref("Memref ", &vector_4x4, 2, memref);
}
