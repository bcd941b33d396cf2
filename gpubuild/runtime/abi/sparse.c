/* sparse.c: the part of the mgpu* ABI that the dialect's operations on sparse matrices lower to.
 *
 * GPUs do them by cuSPARSE or hipSPARSE, which is opened at the first operation; the CPU by cpu/cpu_sparse.c. Differences
 * to upstream: operations run in the stream that they are passed, the factors of complex products have a defined imaginary
 * part, and the product of two sparse matrices is not added to the third, whose memory may be uninitialised.
 */
#include "core/device.h"
#include "core/module.h"

#include <pthread.h>
#include <stdlib.h>

#define VENDOR(ID, name, numbered) &gb_##name##_sparse,
const struct gb_sparse_vendor *const gb_sparse_vendors[] = {GB_VENDORS(VENDOR)};
#undef VENDOR

static struct library {
    bool opened;
    struct gb_sparse_calls calls;
    void *handles[GB_MAX_DEVICES];
} libraries[GB_VENDOR_UNKNOWN];
/* Guards `libraries`, and is held during each call of one: handles have one stream at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct call {
    struct gb_device *device;
    const struct gb_sparse_vendor *vendor;
    const struct gb_sparse_calls *calls;
    void *handle;
    int before;
    struct gb_where where;
    const struct gb_where *outer;
};

static void open_library(const struct call *call, struct library *library) {
    char *why = NULL;
    void *file = gb_library_open(call->vendor->libraries, &why);
    if (file == NULL) {
        gb_fatal(&call->where, "operations on sparse matrices need lib%s, which cannot be opened: %s\n"
                               "  what to do: install it, or add its folder to LD_LIBRARY_PATH",
                 call->vendor->prefix, why);
    }
#define TAKE(name, parameters)                                                                                         \
    do {                                                                                                               \
        char *symbol = gb_text("%s" #name, call->vendor->prefix);                                                      \
        gb_library_symbol(file, symbol, &library->calls.name);                                                         \
        free(symbol);                                                                                                  \
    } while (0);
    TAKE(GetErrorName, )
    TAKE(GetErrorString, )
    GB_SPARSE_FUNCTIONS(TAKE)
#undef TAKE
    library->opened = true;
}

static void check(const struct call *call, const char *name, int result) {
    if (result != 0) {
        const struct gb_sparse_calls *calls = call->calls;
        char *function = gb_text("%s%s", call->vendor->prefix, name);
        gb_fatal_driver(&call->where, function, result, calls->GetErrorName != NULL ? calls->GetErrorName(result) : "an error",
                        calls->GetErrorString != NULL ? calls->GetErrorString(result) : "no description", NULL);
    }
}

static void need(const struct call *call, const char *name, bool found) {
    if (!found) {
        gb_fatal(&call->where, "lib%s has no function %s%s: its version does not support this operation",
                 call->vendor->prefix, call->vendor->prefix, name);
    }
}

#define CALL(call, name, ...)                                                                                          \
    do {                                                                                                               \
        need(call, #name, (call)->calls->name != NULL);                                                                \
        check(call, #name, (call)->calls->name(__VA_ARGS__));                                                          \
    } while (0)

/* Make the device current for calls of its library, which one thread at a time makes. */
static void begin_on_device(struct call *call, void *stream, const char *function) {
    struct gb_device *device = gb_device_current();
    *call = (struct call){.device = device, .vendor = gb_sparse_vendors[device->vendor], .handle = stream};
    call->where = (struct gb_where){.device = device->name, .call = function, .location = gb_host_location()};
    call->outer = gb_enter(&call->where);
    call->calls = call->vendor->calls;
    gb_trace("%s stream %p", function, stream);
    if (call->calls == NULL && call->vendor->libraries == NULL) {
        gb_fatal(&call->where, "this device has no operations on sparse matrices\n"
                               "  what to do: run the program on the CPU (GPUBUILD_DEVICE=cpu)");
    }
    if (call->calls == NULL) {
        gb_lock(&lock);
        call->before = device->calls->enter(device, &call->where);
    }
}

static void begin(struct call *call, void *stream, const char *function) {
    begin_on_device(call, stream, function);
    if (call->calls == NULL) {
        struct library *library = &libraries[call->device->vendor];
        void **handle = &library->handles[call->device->ordinal];
        if (!library->opened) {
            open_library(call, library);
        }
        call->calls = &library->calls;
        if (*handle == NULL) {
            CALL(call, Create, handle);
        }
        CALL(call, SetStream, *handle, stream);
        call->handle = *handle;
    }
}

static void end(const struct call *call) {
    if (call->vendor->calls == NULL) {
        call->device->calls->leave(call->device, call->before, &call->where);
        gb_unlock(&lock);
    }
    gb_enter(call->outer);
}

#define SPARSE(stream, name, ...)                                                                                      \
    struct call call;                                                                                                  \
    begin(&call, stream, __func__);                                                                                    \
    CALL(&call, name, __VA_ARGS__);                                                                                    \
    end(&call)

/* ---- Matrices ---- */

/* Programs written for upstream call these. */
void mgpuCreateSparseEnv(void) {}
void mgpuDestroySparseEnv(void) {}
void mgpuCreateSparseLtEnv(void) {}
void mgpuDestroySparseLtEnv(void) {}

void *mgpuCreateDnVec(intptr_t size, void *values, int32_t type, void *stream) {
    void *made = NULL;
    SPARSE(stream, CreateDnVec, &made, size, values, type);
    return made;
}

void *mgpuCreateDnMat(intptr_t rows, intptr_t cols, void *values, int32_t type, void *stream) {
    void *made = NULL;
    SPARSE(stream, CreateDnMat, &made, rows, cols, cols, values, type, GB_SPARSE_ROW_MAJOR);
    return made;
}

void *mgpuCreateCoo(intptr_t rows, intptr_t cols, intptr_t entries, void *row_indices, void *col_indices, void *values,
                    int32_t index_type, int32_t type, void *stream) {
    void *made = NULL;
    SPARSE(stream, CreateCoo, &made, rows, cols, entries, row_indices, col_indices, values, index_type, 0, type);
    return made;
}

void *mgpuCreateCooAoS(intptr_t rows, intptr_t cols, intptr_t entries, void *indices, void *values, int32_t index_type,
                       int32_t type, void *stream) {
    void *made = NULL;
    SPARSE(stream, CreateCooAoS, &made, rows, cols, entries, indices, values, index_type, 0, type);
    return made;
}

void *mgpuCreateCsr(intptr_t rows, intptr_t cols, intptr_t entries, void *starts, void *indices, void *values,
                    int32_t start_type, int32_t index_type, int32_t type, void *stream) {
    void *made = NULL;
    SPARSE(stream, CreateCsr, &made, rows, cols, entries, starts, indices, values, start_type, index_type, 0, type);
    return made;
}

void *mgpuCreateCsc(intptr_t rows, intptr_t cols, intptr_t entries, void *starts, void *indices, void *values,
                    int32_t start_type, int32_t index_type, int32_t type, void *stream) {
    void *made = NULL;
    SPARSE(stream, CreateCsc, &made, rows, cols, entries, starts, indices, values, start_type, index_type, 0, type);
    return made;
}

void *mgpuCreateBsr(intptr_t rows, intptr_t cols, intptr_t blocks, intptr_t block_rows, intptr_t block_cols, void *starts,
                    void *indices, void *values, int32_t start_type, int32_t index_type, int32_t type, void *stream) {
    void *made = NULL;
    SPARSE(stream, CreateBsr, &made, rows, cols, blocks, block_rows, block_cols, starts, indices, values, start_type,
           index_type, 0, type, GB_SPARSE_ROW_MAJOR);
    return made;
}

void mgpuSpMatGetSize(void *matrix, int64_t *rows, int64_t *cols, int64_t *entries, void *stream) {
    SPARSE(stream, SpMatGetSize, matrix, rows, cols, entries);
}

void mgpuSetCsrPointers(void *matrix, void *starts, void *indices, void *values, void *stream) {
    SPARSE(stream, CsrSetPointers, matrix, starts, indices, values);
}

#define DESTROY(function, name)                                                                                        \
    void function(void *made, void *stream) {                                                                          \
        SPARSE(stream, name, made);                                                                                    \
    }

DESTROY(mgpuDestroyDnVec, DestroyDnVec)
DESTROY(mgpuDestroyDnMat, DestroyDnMat)
DESTROY(mgpuDestroySpMat, DestroySpMat)
DESTROY(mgpuSpGEMMDestroyDescr, SpGEMM_destroyDescr)

/* ---- Products ---- */

/* 1 of a compute type. */
static const void *one(int32_t type) {
    static const struct {
        double f64[2];
        float f32[2];
        int32_t i32;
        uint16_t f16, bf16;
    } ones = {{1}, {1}, 1, 0x3c00, 0x3f80};
    switch (type) {
    case GB_R_64F:
    case GB_C_64F:
        return ones.f64;
    case GB_R_16F:
        return &ones.f16;
    case GB_R_16BF:
        return &ones.bf16;
    case GB_R_32I:
        return &ones.i32;
    default:
        return ones.f32;
    }
}

static const double zero[2]; /* of every type */

intptr_t mgpuSpMVBufferSize(int32_t mode, void *a, void *x, void *y, int32_t type, void *stream) {
    size_t bytes = 0;
    SPARSE(stream, SpMV_bufferSize, call.handle, mode, one(type), a, x, one(type), y, type, 0, &bytes);
    return (intptr_t)bytes;
}

void mgpuSpMV(int32_t mode, void *a, void *x, void *y, int32_t type, void *buffer, void *stream) {
    SPARSE(stream, SpMV, call.handle, mode, one(type), a, x, one(type), y, type, 0, buffer);
}

#define PRODUCT(function, name)                                                                                        \
    intptr_t function##BufferSize(int32_t mode_a, int32_t mode_b, void *a, void *b, void *c, int32_t type,             \
                                  void *stream) {                                                                      \
        size_t bytes = 0;                                                                                              \
        SPARSE(stream, name##_bufferSize, call.handle, mode_a, mode_b, one(type), a, b, one(type), c, type, 0, &bytes); \
        return (intptr_t)bytes;                                                                                        \
    }                                                                                                                  \
    void function(int32_t mode_a, int32_t mode_b, void *a, void *b, void *c, int32_t type, void *buffer,               \
                  void *stream) {                                                                                      \
        SPARSE(stream, name, call.handle, mode_a, mode_b, one(type), a, b, one(type), c, type, 0, buffer);             \
    }

PRODUCT(mgpuSpMM, SpMM)
PRODUCT(mgpuSDDMM, SDDMM)

void *mgpuSpGEMMCreateDescr(void *stream) {
    void *made = NULL;
    SPARSE(stream, SpGEMM_createDescr, &made);
    return made;
}

/* Without bytes the call asks for a size, which libraries recognise by a NULL buffer; memref.alloc() : memref<0xi8> need not
 * be NULL. */
#define SPGEMM(function, name)                                                                                         \
    intptr_t function(void *product, int32_t mode_a, int32_t mode_b, void *a, void *b, void *c, int32_t type,          \
                      intptr_t bytes, void *buffer, void *stream) {                                                    \
        size_t size = (size_t)bytes;                                                                                   \
        SPARSE(stream, name, call.handle, mode_a, mode_b, one(type), a, b, zero, c, type, 0, product, &size,           \
               bytes > 0 ? buffer : NULL);                                                                             \
        return (intptr_t)size;                                                                                         \
    }

SPGEMM(mgpuSpGEMMWorkEstimation, SpGEMM_workEstimation)
SPGEMM(mgpuSpGEMMCompute, SpGEMM_compute)

void mgpuSpGEMMCopy(void *product, int32_t mode_a, int32_t mode_b, void *a, void *b, void *c, int32_t type, void *stream) {
    SPARSE(stream, SpGEMM_copy, call.handle, mode_a, mode_b, one(type), a, b, zero, c, type, 0, product);
}

/* ---- 2:4 matrices ---- */

/* The caller provides memory for what upstream keeps there: at least this. `a` of a product remembers its modes. */
struct structured {
    void *matrix;
    int32_t mode_a, mode_b;
};

static const struct gb_structured_calls *begin_structured(struct call *call, void *stream, const char *function) {
    begin_on_device(call, stream, function);
    return call->vendor->structured != NULL ? call->vendor->structured : &gb_sparselt_calls;
}

#define STRUCTURED(stream, name, ...)                                                                                  \
    struct call call;                                                                                                  \
    begin_structured(&call, stream, __func__)->name(call.device, __VA_ARGS__, &call.where);                            \
    end(&call)

static void create_structured(struct structured *made, intptr_t rows, intptr_t cols, void *values, int32_t type, bool sparse,
                              void *stream, const char *function) {
    struct call call;
    const struct gb_structured_calls *calls = begin_structured(&call, stream, function);
    *made = (struct structured){.matrix = calls->create(call.device, rows, cols, values, type, sparse, &call.where)};
    end(&call);
}

void mgpuCusparseLtCreate2To4SpMat(struct structured *made, intptr_t rows, intptr_t cols, void *values, int32_t type,
                                   void *stream) {
    create_structured(made, rows, cols, values, type, true, stream, __func__);
}

void mgpuCreateCuSparseLtDnMat(struct structured *made, intptr_t rows, intptr_t cols, void *values, int32_t type,
                               void *stream) {
    create_structured(made, rows, cols, values, type, false, stream, __func__);
}

void mgpuDestroyCuSparseLtSpMat(struct structured *made, void *stream) {
    STRUCTURED(stream, destroy, made->matrix);
}

void mgpuDestroyCuSparseLtDnMat(struct structured *made, void *stream) {
    STRUCTURED(stream, destroy, made->matrix);
}

static struct gb_structured_product product_of(const struct structured *a, const struct structured *b,
                                               const struct structured *c) {
    return (struct gb_structured_product){a->matrix, b->matrix, c->matrix, a->mode_a, a->mode_b};
}

/* The compute type follows from A's: what gpu-to-llvm passes is undefined but for f16 and i32. */
void mgpuCuSparseLtSpMMBufferSize(int64_t *bytes, int32_t mode_a, int32_t mode_b, struct structured *a,
                                  struct structured *b, struct structured *c, int32_t type, int32_t prune, void *stream) {
    (void)type;
    a->mode_a = mode_a;
    a->mode_b = mode_b;
    struct gb_structured_product product = product_of(a, b, c);
    STRUCTURED(stream, prepare, &product, (enum gb_prune)prune, bytes, stream);
}

void mgpuCuSparseLtSpMM(struct structured *a, struct structured *b, struct structured *c, void *workspace, void *compressed,
                        void *compressed_buffer, void *stream) {
    struct gb_structured_product product = product_of(a, b, c);
    STRUCTURED(stream, multiply, &product, workspace, compressed, compressed_buffer, stream);
}
