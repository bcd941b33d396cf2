/* sparselt.c: products of 2:4 matrices by cuSPARSELt or hipSPARSELt, which is opened at the first of them.
 *
 * Prototypes and numbers are those of cusparseLt.h 0.6 to 0.10 and hipsparselt.h of ROCm 6; they differ in prefixes and in
 * compute types. The structures are opaque and differ in size between versions (13,072 bytes at most): each has
 * CONTENT_BYTES here. cuSPARSELt before 0.6 numbers compute types otherwise.
 */
#include "core/device.h"

#include <stdlib.h>

enum {
    CONTENT_BYTES = 16 << 10,
    ALIGNMENT = 16, /* of values, in bytes */
    SPARSITY_50_PERCENT = 0,
    PRUNE_STRIP = 1, /* keeps the largest in each group of four */
    COMPUTE_32F = 2, /* in both */
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

/* Used under the lock of sparse.c. */
static struct library {
    bool opened;
    const struct gb_sparselt_library *vendor;
#define MEMBER(name, parameters) int(*name) parameters;
    FUNCTIONS(MEMBER)
#undef MEMBER
    const char *(*GetErrorName)(int); /* may be missing */
    content *handles[GB_MAX_DEVICES];
} libraries[GB_VENDOR_UNKNOWN];

struct matrix {
    void *values;
    int type;
    content descriptor;
    /* Of a 2:4 matrix: its product, which the plan describes. */
    bool planned;
    content product, algorithm, plan;
};

static void check(const struct library *library, int result, const char *name, const struct gb_where *where) {
    if (result != 0) {
        char *call = gb_text("%s%s", library->vendor->prefix, name);
        gb_fatal_driver(where, call, result, library->GetErrorName != NULL ? library->GetErrorName(result) : "an error",
                        "the library's manual lists the types and sizes that it supports", NULL);
    }
}

#define CALL(name, ...) check(library, library->name(__VA_ARGS__), #name, where)

static void take(const struct library *library, void *file, const char *name, void *function, const struct gb_where *where) {
    char *symbol = gb_text("%s%s", library->vendor->prefix, name);
    gb_library_symbol(file, symbol, function);
    if (where != NULL && *(void **)function == NULL) {
        gb_fatal(where, "%s has no function %s: install a newer version", library->vendor->libraries[0], symbol);
    }
    free(symbol);
}

static void open_library(struct library *library, const struct gb_where *where) {
    char *why = NULL;
    void *file = gb_library_open(library->vendor->libraries, &why);
    if (file == NULL) {
        gb_fatal(where, "2:4 matrices need %s, which cannot be opened: %s\n"
                        "  what to do: install it, or add its folder to LD_LIBRARY_PATH",
                 library->vendor->libraries[0], why);
    }
#define TAKE(name, parameters) take(library, file, #name, &library->name, where);
    FUNCTIONS(TAKE)
#undef TAKE
    take(library, file, "GetErrorName", &library->GetErrorName, NULL);
    library->opened = true;
}

/* The opened library and its handle for the device. */
static struct library *library_of(const struct gb_device *device, const content **handle, const struct gb_where *where) {
    struct library *library = &libraries[device->vendor];
    if (!library->opened) {
        library->vendor = gb_sparse_vendors[device->vendor]->sparselt;
        open_library(library, where);
    }
    content **own = &library->handles[device->ordinal];
    if (*own == NULL) {
        *own = gb_allocate(sizeof **own);
        CALL(Init, *own);
        int version = 0;
        CALL(GetVersion, *own, &version);
        if (version < library->vendor->oldest) {
            gb_fatal(where, "%s is of version %d.%d: install %d.%d or newer", library->vendor->libraries[0], version / 1000,
                     version / 100 % 10, library->vendor->oldest / 1000, library->vendor->oldest / 100 % 10);
        }
    }
    *handle = *own;
    return library;
}

static void *create(struct gb_device *device, int64_t rows, int64_t cols, void *values, int type, bool sparse,
                    const struct gb_where *where) {
    const content *handle;
    struct library *library = library_of(device, &handle, where);
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

static void drop_plan(struct library *library, struct matrix *matrix, const struct gb_where *where) {
    if (matrix->planned) {
        CALL(MatmulPlanDestroy, &matrix->plan);
        matrix->planned = false;
    }
}

static void destroy(struct gb_device *device, void *made, const struct gb_where *where) {
    struct library *library = &libraries[device->vendor];
    struct matrix *matrix = made;
    drop_plan(library, matrix, where);
    CALL(MatDescriptorDestroy, &matrix->descriptor);
    free(matrix);
}

static void check_pruned(struct gb_device *device, struct library *library, const content *handle, const struct matrix *a,
                         void *stream, const struct gb_where *where) {
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
    const content *handle;
    struct library *library = library_of(device, &handle, where);
    struct matrix *a = p->a;
    const content *c = &((struct matrix *)p->c)->descriptor;
    drop_plan(library, a, where);
    CALL(MatmulDescriptorInit, handle, &a->product, p->mode_a, p->mode_b, &a->descriptor,
         &((struct matrix *)p->b)->descriptor, c, c, a->type == GB_R_8I ? library->vendor->compute_i32 : COMPUTE_32F);
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
        check_pruned(device, library, handle, a, stream, where);
    }
}

static void multiply(struct gb_device *device, const struct gb_structured_product *p, void *workspace, void *compressed,
                     void *buffer, void *stream, const struct gb_where *where) {
    const content *handle;
    struct library *library = library_of(device, &handle, where);
    const struct matrix *a = p->a;
    void *c = ((struct matrix *)p->c)->values;
    if (!a->planned) {
        gb_fatal(where, "the product of a 2:4 matrix needs the sizes of its buffers first (gpu.spmm_buffer_size)");
    }
    const float one = 1; /* factors are f32 for every type */
    CALL(SpMMACompress, handle, &a->plan, a->values, compressed, buffer, stream);
    CALL(Matmul, handle, &a->plan, &one, compressed, ((struct matrix *)p->b)->values, &one, c, c, workspace, &stream, 1);
}

const struct gb_structured_calls gb_sparselt_calls = {
    .create = create, .destroy = destroy, .prepare = prepare, .multiply = multiply};
