/* mlir_utils/print_memref.c: printMemref… and verifyMemRef… of MLIR's runner_utils.
 *
 * Output matches that library of LLVM 22 byte for byte, save two cases in which it reads outside the
 * memref: one without elements prints "[]" here, and verify walks each memref by its own strides.
 */
#include "mlir_utils/element.h"
#include "core/runtime.h"
#include "abi/memref.h"

#include <inttypes.h>
#include <string.h>

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
        (void)fputs("base@ = 0", out); /* what C++ streams make of it */
    } else {
        (void)fprintf(out, "base@ = %p", (void *)memref->aligned);
    }
    (void)fprintf(out, " rank = %" PRId64 " offset = %" PRId64, rank, memref->offset);
    print_list(out, "sizes", gb_sizes(memref), rank);
    print_list(out, "strides", gb_strides(memref, rank), rank);
}

/* `depth` dimensions are open already; `sizes` and `strides` begin at the next one. */
static void print_data(FILE *out, const struct gb_element *element, const char *base, int64_t depth, int64_t rank,
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

static void print_memref(const char *title, const struct gb_element *element, int64_t rank,
                         const struct gb_memref *memref) {
    (void)fputs(title, stdout);
    print_shape(stdout, rank, memref);
    (void)fputs(" data = \n", stdout);
    (void)fputs(rank == 0 ? "[" : "", stdout);
    print_data(stdout, element, memref->aligned, 0, rank, memref->offset, gb_sizes(memref), gb_strides(memref, rank));
    (void)fputs(rank == 0 ? "]" : "", stdout);
    end_output("printMemref");
}

static void print_unranked(const struct gb_element *element, int64_t rank, const struct gb_memref *memref) {
    print_memref("Unranked Memref ", element, rank, memref);
}

static void print_unranked_shape(int64_t rank, const struct gb_memref *memref) {
    (void)fputs("Unranked Memref ", stdout);
    print_shape(stdout, rank, memref);
    end_output("printMemrefShape");
}

/* ---- Verify ---- */

struct verification {
    const struct gb_element *element;
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
static int64_t verify(const struct gb_element *element, const struct gb_unranked_memref *actual,
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

#define PRINT_UNRANKED(Name, element)                                                                         \
    GB_WEAK void _mlir_ciface_printMemref##Name(const struct gb_unranked_memref *memref);                     \
    void _mlir_ciface_printMemref##Name(const struct gb_unranked_memref *memref) {                            \
        print_unranked(&gb_element_##element, memref->rank, memref->memref);                                  \
    }                                                                                                         \
    GB_WEAK void printMemref##Name(int64_t rank, const struct gb_memref *memref);                             \
    void printMemref##Name(int64_t rank, const struct gb_memref *memref) {                                    \
        print_unranked(&gb_element_##element, rank, memref);                                                  \
    }                                                                                                         \
    GB_WEAK void _mlir_ciface_printMemrefShape##Name(const struct gb_unranked_memref *memref);                \
    void _mlir_ciface_printMemrefShape##Name(const struct gb_unranked_memref *memref) {                       \
        print_unranked_shape(memref->rank, memref->memref);                                                   \
    }                                                                                                         \
    GB_WEAK int64_t _mlir_ciface_verifyMemRef##Name(const struct gb_unranked_memref *actual,                          \
                                            const struct gb_unranked_memref *expected);               \
    int64_t _mlir_ciface_verifyMemRef##Name(const struct gb_unranked_memref *actual,                          \
                                            const struct gb_unranked_memref *expected) {                      \
        return verify(&gb_element_##element, actual, expected);                                               \
    }                                                                                                         \
    GB_WEAK int64_t verifyMemRef##Name(int64_t actual_rank, struct gb_memref *actual, int64_t expected_rank,          \
                               struct gb_memref *expected);                                           \
    int64_t verifyMemRef##Name(int64_t actual_rank, struct gb_memref *actual, int64_t expected_rank,          \
                               struct gb_memref *expected) {                                                  \
        const struct gb_unranked_memref a = {actual_rank, actual};                                            \
        const struct gb_unranked_memref b = {expected_rank, expected};                                        \
        return verify(&gb_element_##element, &a, &b);                                                         \
    }

PRINT_UNRANKED(I8, i8)
PRINT_UNRANKED(I16, i16)
PRINT_UNRANKED(I32, i32)
PRINT_UNRANKED(I64, i64)
PRINT_UNRANKED(Ind, index)
PRINT_UNRANKED(F16, f16)
PRINT_UNRANKED(BF16, bf16)
PRINT_UNRANKED(F32, f32)
PRINT_UNRANKED(F64, f64)
PRINT_UNRANKED(C32, c32)
PRINT_UNRANKED(C64, c64)

#define PRINT_RANKED(rank, Name, element)                                                                     \
    GB_WEAK void _mlir_ciface_printMemref##rank##d##Name(const struct gb_memref *memref);                     \
    void _mlir_ciface_printMemref##rank##d##Name(const struct gb_memref *memref) {                            \
        print_memref("Memref ", &gb_element_##element, rank, memref);                                         \
    }

PRINT_RANKED(0, F32, f32)
PRINT_RANKED(1, F32, f32)
PRINT_RANKED(2, F32, f32)
PRINT_RANKED(3, F32, f32)
PRINT_RANKED(4, F32, f32)
PRINT_RANKED(1, I8, i8)
PRINT_RANKED(1, I32, i32)
PRINT_RANKED(1, I64, i64)
PRINT_RANKED(1, Ind, index)
PRINT_RANKED(1, F64, f64)
PRINT_RANKED(1, C32, c32)
PRINT_RANKED(1, C64, c64)

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

GB_WEAK void _mlir_ciface_printMemrefVector4x4xf32(const struct gb_memref *memref);
void _mlir_ciface_printMemrefVector4x4xf32(const struct gb_memref *memref) {
    static const struct gb_element vector_4x4 = {4 * 4 * sizeof(float), print_4x4, NULL};
    print_memref("Memref ", &vector_4x4, 2, memref);
}
