/* cuda_sparse.c: where cuSPARSE is, and products of 2:4 matrices by cuSPARSELt, which is opened at the first of them.
 *
 * Prototypes and numbers are those of cusparseLt.h 0.6 to 0.10. Its structures are opaque and differ in size between
 * versions (13,072 bytes at most): each has CONTENT_BYTES here. Versions before 0.6 number compute types otherwise.
 */
#include "core/device.h"

#include <stdlib.h>

enum {
    CONTENT_BYTES = 16 << 10,
    OLDEST_VERSION = 600,
    ALIGNMENT = 16, /* of values, in bytes */
    SPARSITY_50_PERCENT = 0,
    PRUNE_STRIP = 1, /* keeps the largest in each group of four */
    COMPUTE_32I = 0,
    COMPUTE_32F = 2,
    DEFAULT_ALGORITHM = 0,
};

typedef struct {
    _Alignas(16) unsigned char bytes[CONTENT_BYTES];
} content;

#define FUNCTIONS(X)                                                                                                   \
    X(Init, (content *handle))                                                                                         \
    X(GetVersion, (const content *handle, int *version))                                                               \
    X(DenseDescriptorInit, (const content *handle, content *matrix, int64_t rows, int64_t cols, int64_t stride,        \
                            uint32_t alignment, int type, int order))                                                  \
    X(StructuredDescriptorInit, (const content *handle, content *matrix, int64_t rows, int64_t cols, int64_t stride,   \
                                 uint32_t alignment, int type, int order, int sparsity))                               \
    X(MatDescriptorDestroy, (const content *matrix))                                                                   \
    X(MatmulDescriptorInit, (const content *handle, content *product, int mode_a, int mode_b, const content *a,        \
                             const content *b, const content *c, const content *d, int compute_type))                  \
    X(MatmulAlgSelectionInit, (const content *handle, content *algorithm, const content *product, int number))         \
    X(MatmulPlanInit, (const content *handle, content *plan, const content *product, const content *algorithm))        \
    X(MatmulPlanDestroy, (const content *plan))                                                                        \
    X(MatmulGetWorkspace, (const content *handle, const content *plan, size_t *bytes))                                 \
    X(SpMMACompressedSize, (const content *handle, const content *plan, size_t *bytes, size_t *buffer_bytes))          \
    X(SpMMAPrune, (const content *handle, const content *product, const void *in, void *out, int how, void *stream))   \
    X(SpMMAPruneCheck, (const content *handle, const content *product, const void *in, int *invalid, void *stream))    \
    X(SpMMACompress, (const content *handle, const content *plan, const void *dense, void *compressed, void *buffer,   \
                      void *stream))                                                                                   \
    X(Matmul, (const content *handle, const content *plan, const void *alpha, const void *a, const void *b,            \
               const void *beta, const void *c, void *d, void *workspace, void **streams, int32_t stream_count))

/* Used under the lock of abi/sparse.c. */
static struct {
    bool opened;
#define MEMBER(name, parameters) int(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
    const char *(*GetErrorName)(int); /* since 0.7 */
    content *handles[GB_MAX_DEVICES];
} library;

struct matrix {
    void *values;
    int type;
    content descriptor;
    /* Of a 2:4 matrix: its product, which the plan describes. */
    bool planned;
    content product, algorithm, plan;
};

static void check(int result, const char *call, const struct gb_where *where) {
    if (result != 0) {
        gb_fatal_driver(where, call, result, library.GetErrorName != NULL ? library.GetErrorName(result) : "cusparseStatus_t",
                        "cuSPARSELt's manual lists the types and sizes that it supports", NULL);
    }
}

#define CALL(name, ...) check(library.name(__VA_ARGS__), "cusparseLt" #name, where)

static void open_library(const struct gb_where *where) {
    static const char *const names[] = {"libcusparseLt.so.0", "libcusparseLt.so", NULL};
    char *why = NULL;
    void *file = gb_library_open(names, &why);
    if (file == NULL) {
        gb_fatal(where, "2:4 matrices need libcusparseLt, which cannot be opened: %s\n"
                        "  what to do: install cuSPARSELt 0.6 or newer, or add its folder to LD_LIBRARY_PATH",
                 why);
    }
#define TAKE(name, parameters)                                                                                         \
    gb_library_symbol(file, "cusparseLt" #name, &library.name);                                                        \
    if (library.name == NULL) {                                                                                        \
        gb_fatal(where, "libcusparseLt has no function cusparseLt" #name ": install version 0.6 or newer");            \
    }
    FUNCTIONS(TAKE)
#undef TAKE
    gb_library_symbol(file, "cusparseLtGetErrorName", &library.GetErrorName);
    library.opened = true;
}

static const content *handle_of(const struct gb_device *device, const struct gb_where *where) {
    if (!library.opened) {
        open_library(where);
    }
    content **handle = &library.handles[device->ordinal];
    if (*handle == NULL) {
        *handle = gb_allocate(sizeof **handle);
        CALL(Init, *handle);
        int version = 0;
        CALL(GetVersion, *handle, &version);
        if (version < OLDEST_VERSION) {
            gb_fatal(where, "cuSPARSELt is of version %d.%d: install 0.6 or newer", version / 1000, version / 100 % 10);
        }
    }
    return *handle;
}

static void *create(struct gb_device *device, int64_t rows, int64_t cols, void *values, int type, bool sparse,
                    const struct gb_where *where) {
    const content *handle = handle_of(device, where);
    struct matrix *matrix = gb_allocate(sizeof *matrix);
    matrix->values = values;
    matrix->type = type;
    matrix->planned = false;
    if (sparse) {
        CALL(StructuredDescriptorInit, handle, &matrix->descriptor, rows, cols, cols, ALIGNMENT, type, GB_SPARSE_ROW_MAJOR,
             SPARSITY_50_PERCENT);
    } else {
        CALL(DenseDescriptorInit, handle, &matrix->descriptor, rows, cols, cols, ALIGNMENT, type, GB_SPARSE_ROW_MAJOR);
    }
    return matrix;
}

static void drop_plan(struct matrix *matrix, const struct gb_where *where) {
    if (matrix->planned) {
        CALL(MatmulPlanDestroy, &matrix->plan);
        matrix->planned = false;
    }
}

static void destroy(struct gb_device *device, void *made, const struct gb_where *where) {
    (void)device;
    struct matrix *matrix = made;
    drop_plan(matrix, where);
    CALL(MatDescriptorDestroy, &matrix->descriptor);
    free(matrix);
}

static void check_pruned(struct gb_device *device, const content *handle, const struct matrix *a, void *stream,
                         const struct gb_where *where) {
    int invalid = 0;
    void *found = device->calls->memory_allocate(device, sizeof invalid, stream, false, where);
    CALL(SpMMAPruneCheck, handle, &a->product, a->values, found, stream);
    device->calls->memory_copy(device, &invalid, found, sizeof invalid, stream, where);
    device->calls->stream_synchronize(device, stream, where);
    device->calls->memory_free(device, found, stream, where);
    if (invalid != 0) {
        gb_fatal(where, "a matrix is not 2:4 after it was pruned: some values may be NaN");
    }
}

static void prepare(struct gb_device *device, const struct gb_structured_product *p, enum gb_prune prune, int64_t bytes[3],
                    void *stream, const struct gb_where *where) {
    const content *handle = handle_of(device, where);
    struct matrix *a = p->a;
    const content *c = &((struct matrix *)p->c)->descriptor;
    drop_plan(a, where);
    CALL(MatmulDescriptorInit, handle, &a->product, p->mode_a, p->mode_b, &a->descriptor,
         &((struct matrix *)p->b)->descriptor, c, c, a->type == GB_R_8I ? COMPUTE_32I : COMPUTE_32F);
    CALL(MatmulAlgSelectionInit, handle, &a->algorithm, &a->product, DEFAULT_ALGORITHM);
    CALL(MatmulPlanInit, handle, &a->plan, &a->product, &a->algorithm);
    a->planned = true;
    size_t sizes[3] = {0, 0, 0};
    CALL(MatmulGetWorkspace, handle, &a->plan, &sizes[0]);
    CALL(SpMMACompressedSize, handle, &a->plan, &sizes[1], &sizes[2]);
    for (int i = 0; i < 3; i++) {
        bytes[i] = (int64_t)sizes[i];
    }
    if (prune != GB_PRUNE_NOT) {
        CALL(SpMMAPrune, handle, &a->product, a->values, a->values, PRUNE_STRIP, stream);
    }
    if (prune == GB_PRUNE_AND_CHECK) {
        check_pruned(device, handle, a, stream, where);
    }
}

static void multiply(struct gb_device *device, const struct gb_structured_product *p, void *workspace, void *compressed,
                     void *buffer, void *stream, const struct gb_where *where) {
    const content *handle = handle_of(device, where);
    const struct matrix *a = p->a;
    void *c = ((struct matrix *)p->c)->values;
    if (!a->planned) {
        gb_fatal(where, "the product of a 2:4 matrix needs the sizes of its buffers first (gpu.spmm_buffer_size)");
    }
    const float one = 1; /* factors are f32 for every type */
    CALL(SpMMACompress, handle, &a->plan, a->values, compressed, buffer, stream);
    CALL(Matmul, handle, &a->plan, &one, compressed, ((struct matrix *)p->b)->values, &one, c, c, workspace, &stream, 1);
}

static const struct gb_structured_calls structured = {
    .create = create, .destroy = destroy, .prepare = prepare, .multiply = multiply};
static const char *const libraries[] = {"libcusparse.so.12", "libcusparse.so.11", "libcusparse.so", NULL};
const struct gb_sparse_vendor gb_cuda_sparse = {
    .prefix = "cusparse", .libraries = libraries, .structured = &structured};
