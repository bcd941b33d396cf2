/* cuSPARSE or hipSPARSE (PREFIX) without a GPU: calls are recorded with all their arguments. Written after the prototypes
 * of cusparse.h. */
#include "fake.h"

#define FUNCTION(name, parameters, ...)                                                                                \
    int JOIN(PREFIX, name) parameters {                                                                                \
        record(TEXT(PREFIX) #name " " __VA_ARGS__);                                                                    \
        FAIL_IF_ORDERED(TEXT(PREFIX) #name);
#define END                                                                                                            \
    return 0;                                                                                                          \
    }
#define N (long long)

const char *JOIN(PREFIX, GetErrorName)(int code) {
    return code == 10 ? "STATUS_NOT_SUPPORTED" : "STATUS_FAKE";
}
const char *JOIN(PREFIX, GetErrorString)(int code) {
    (void)code;
    return "a failure to order";
}
FUNCTION(Create, (void **made), "") *made = new_handle(); END
FUNCTION(SetStream, (void *handle, void *stream), "%p %p", handle, stream) END
FUNCTION(CreateDnVec, (void **made, int64_t size, void *values, int type), "%lld %p %d", N size, values, type)
*made = new_handle(); END
FUNCTION(DestroyDnVec, (const void *made), "%p", made) END
FUNCTION(CreateDnMat, (void **made, int64_t rows, int64_t cols, int64_t ld, void *values, int type, int order),
         "%lld %lld %lld %p %d %d", N rows, N cols, N ld, values, type, order)
*made = new_handle(); END
FUNCTION(DestroyDnMat, (const void *made), "%p", made) END
FUNCTION(CreateCoo, (void **made, int64_t rows, int64_t cols, int64_t nnz, void *i, void *j, void *values, int index_type,
                     int base, int type),
         "%lld %lld %lld %p %p %p %d %d %d", N rows, N cols, N nnz, i, j, values, index_type, base, type)
*made = new_handle(); END
FUNCTION(CreateCsr, (void **made, int64_t rows, int64_t cols, int64_t nnz, void *offsets, void *j, void *values,
                     int offset_type, int index_type, int base, int type),
         "%lld %lld %lld %p %p %p %d %d %d %d", N rows, N cols, N nnz, offsets, j, values, offset_type, index_type, base,
         type)
*made = new_handle(); END
FUNCTION(CreateCsc, (void **made, int64_t rows, int64_t cols, int64_t nnz, void *offsets, void *i, void *values,
                     int offset_type, int index_type, int base, int type),
         "%lld %lld %lld %p %p %p %d %d %d %d", N rows, N cols, N nnz, offsets, i, values, offset_type, index_type, base,
         type)
*made = new_handle(); END
FUNCTION(CreateBsr, (void **made, int64_t rows, int64_t cols, int64_t nnz, int64_t row_block, int64_t col_block,
                     void *offsets, void *j, void *values, int offset_type, int index_type, int base, int type, int order),
         "%lld %lld %lld %lld %lld %p %p %p %d %d %d %d %d", N rows, N cols, N nnz, N row_block, N col_block, offsets, j,
         values, offset_type, index_type, base, type, order)
*made = new_handle(); END
FUNCTION(DestroySpMat, (const void *made), "%p", made) END
FUNCTION(SpMatGetSize, (const void *made, int64_t *rows, int64_t *cols, int64_t *nnz), "%p", made)
*rows = 3, *cols = 4, *nnz = 5; END
FUNCTION(CsrSetPointers, (void *made, void *offsets, void *j, void *values), "%p %p %p %p", made, offsets, j, values) END

/* A factor as hexadecimal bytes of its type. */
static const char *factor(const void *number, int type, char text[40]) {
    static const int bytes[] = {4, 8, 2, 1, 8, 16, 4, 2, 1, 2, 4, 8, 4, 8, 2, 4};
    for (int i = 0; i < bytes[type]; i++) {
        sprintf(text + 2 * i, "%02x", ((const unsigned char *)number)[i]);
    }
    return text;
}

#define SPMV                                                                                                           \
    void *handle, int op, const void *alpha, const void *a, const void *x, const void *beta, void *y, int type, int alg
#define SPMM                                                                                                           \
    void *handle, int op_a, int op_b, const void *alpha, const void *a, const void *b, const void *beta, void *c,      \
        int type, int alg
#define PRODUCT(name, parameters, ops, a, b, c, format, ...)                                                           \
    FUNCTION(name, parameters, "%p %s %p %p %p %d %d" format, handle, ops, a, b, c, type, alg, __VA_ARGS__)            \
    char texts[2][40];                                                                                                 \
    record("  factors %s %s", factor(alpha, type, texts[0]), factor(beta, type, texts[1]));

static const char *two(int op_a, int op_b) {
    static _Thread_local char text[32];
    sprintf(text, "%d,%d", op_a, op_b);
    return text;
}

PRODUCT(SpMV_bufferSize, (SPMV, size_t *size), two(op, 0), a, x, y, "%s", "") *size = 7; END
PRODUCT(SpMV, (SPMV, void *buffer), two(op, 0), a, x, y, " %p", buffer) END
PRODUCT(SpMM_bufferSize, (SPMM, size_t *size), two(op_a, op_b), a, b, c, "%s", "") *size = 8; END
PRODUCT(SpMM, (SPMM, void *buffer), two(op_a, op_b), a, b, c, " %p", buffer) END
PRODUCT(SDDMM_bufferSize, (SPMM, size_t *size), two(op_a, op_b), a, b, c, "%s", "") *size = 9; END
PRODUCT(SDDMM, (SPMM, void *buffer), two(op_a, op_b), a, b, c, " %p", buffer) END
FUNCTION(SpGEMM_createDescr, (void **made), "") *made = new_handle(); END
FUNCTION(SpGEMM_destroyDescr, (void *made), "%p", made) END
PRODUCT(SpGEMM_workEstimation, (SPMM, void *descr, size_t *size, void *buffer), two(op_a, op_b), a, b, c, " %p %zu %p", descr,
        *size, buffer)
*size = 10; END
PRODUCT(SpGEMM_compute, (SPMM, void *descr, size_t *size, void *buffer), two(op_a, op_b), a, b, c, " %p %zu %p", descr, *size,
        buffer)
*size = 11; END
PRODUCT(SpGEMM_copy, (SPMM, void *descr), two(op_a, op_b), a, b, c, " %p", descr) END
