/* device.h: the functions that a vendor (CUDA driver, HIP, CPU) provides for the mgpu* ABI.
 *
 * Every function either succeeds or ends the program through gb_fatal, so none returns a status. Streams and events are the
 * driver's own handles: a program may pass them to other libraries, and use those libraries' streams. A NULL stream is the
 * device's default stream.
 */
#ifndef GPUBUILD_RT_DEVICE_H
#define GPUBUILD_RT_DEVICE_H

#include "core/image.h"

#include <string.h>

struct gb_launch {
    struct gb_dim3 cluster; /* 1 × 1 × 1 for a launch without clusters */
    struct gb_dim3 grid;    /* workgroups, not clusters */
    struct gb_dim3 block;   /* work-items of a workgroup */
    uint32_t shared_bytes;  /* dynamic workgroup memory */
    void **params;          /* one pointer per kernel parameter, to its value */
    size_t param_count;     /* 0: none, or neither the caller nor the image states it */
    void **extra;           /* the driver's `extra`; NULL in code that MLIR makes */
};

/* The sizes of a launch, for messages; free() it. */
char *gb_launch_text(const struct gb_launch *launch);

/* The arguments of cuTensorMapEncodeTiled: innermost dimension first. */
struct gb_tensor_map {
    uint32_t data_type; /* CUtensorMapDataType */
    uint32_t rank;      /* 1 to 5 */
    void *address;      /* in device memory */
    const uint64_t *dims;            /* rank of them, elements */
    const uint64_t *strides;         /* rank - 1 of them, bytes */
    const uint32_t *box;             /* rank of them, elements */
    const uint32_t *element_strides; /* rank of them */
    uint32_t interleave, swizzle, l2_promotion, out_of_bounds;
};

enum { GB_TENSOR_MAP_BYTES = 128, GB_TENSOR_MAP_ALIGNMENT = 64 };

struct gb_device {
    enum gb_vendor vendor;
    int ordinal;
    char *name; /* for messages: "cuda:0 (NVIDIA H100 80GB HBM3, sm_90)", "cpu (x86-64-v3)" */
    const struct gb_device_calls *calls;
};

/* `where` has module, kernel, device and the mgpu call; a vendor replaces `call` by the driver's function when that fails.
 * `size` of an image is exact. */
struct gb_device_calls {
    /* How well an image suits the device. */
    struct gb_fit (*fit)(struct gb_device *, const struct gb_image *);

    /* `opt_level` 0 to 4 governs the JIT; -1: the driver's default. */
    void *(*module_load)(struct gb_device *, const struct gb_image *, int opt_level, const struct gb_where *);
    void (*module_unload)(struct gb_device *, void *module, const struct gb_where *);
    void *(*kernel)(struct gb_device *, void *module, const char *name, const struct gb_where *);
    void (*launch)(struct gb_device *, void *kernel, void *stream, const struct gb_launch *, const struct gb_where *);

    void *(*stream_create)(struct gb_device *, const struct gb_where *);
    void (*stream_destroy)(struct gb_device *, void *stream, const struct gb_where *);
    void (*stream_synchronize)(struct gb_device *, void *stream, const struct gb_where *);
    void (*stream_wait_event)(struct gb_device *, void *stream, void *event, const struct gb_where *);
    void *(*event_create)(struct gb_device *, const struct gb_where *);
    void (*event_destroy)(struct gb_device *, void *event, const struct gb_where *);
    void (*event_synchronize)(struct gb_device *, void *event, const struct gb_where *);
    void (*event_record)(struct gb_device *, void *event, void *stream, const struct gb_where *);

    /* `shared`: host and device may both access it. `bytes` is at least 1. */
    void *(*memory_allocate)(struct gb_device *, size_t bytes, void *stream, bool shared, const struct gb_where *);
    void (*memory_free)(struct gb_device *, void *address, void *stream, const struct gb_where *);
    void (*memory_copy)(struct gb_device *, void *to, void *from, size_t bytes, void *stream, const struct gb_where *);
    /* `count` copies of an element of any size, which is read before the call returns. */
    void (*memory_fill)(struct gb_device *, void *to, const void *element, size_t element_bytes, size_t count,
                        void *stream, const struct gb_where *);
    void (*host_register)(struct gb_device *, void *address, size_t bytes, const struct gb_where *);
    void (*host_unregister)(struct gb_device *, void *address, const struct gb_where *);
    /* Whether kernels may use all memory of the host at its own address. */
    bool uses_host_memory;
    /* The device's address of registered host memory. NULL here: it equals the host's. */
    void *(*host_pointer)(struct gb_device *, void *address, const struct gb_where *);

    /* An event that stores the time when it is recorded, and the time between two; waits for the second. NULL here:
     * the device's own code measures launches. */
    void *(*timer_create)(struct gb_device *, const struct gb_where *);
    uint64_t (*timer_elapsed_ns)(struct gb_device *, void *first, void *last, const struct gb_where *);

    /* Fill GB_TENSOR_MAP_BYTES at `map` (host memory); NULL here: the device has no tensor maps. */
    void (*tensor_map_encode)(struct gb_device *, void *map, const struct gb_tensor_map *, const struct gb_where *);

    /* Let calls of other libraries by this thread use the device until `leave`, which gets the result. NULL here: the
     * device needs no such libraries. */
    int (*enter)(struct gb_device *, const struct gb_where *);
    void (*leave)(struct gb_device *, int before, const struct gb_where *);
};

/* Initialise the members that every vendor has with its functions, such as cuda_launch. */
#define GB_COMMON_CALLS(vendor)                                                                                        \
    .fit = vendor##_fit, .module_load = vendor##_module_load, .module_unload = vendor##_module_unload,                 \
    .kernel = vendor##_kernel, .launch = vendor##_launch, .stream_create = vendor##_stream_create,                     \
    .stream_destroy = vendor##_stream_destroy, .stream_synchronize = vendor##_stream_synchronize,                      \
    .stream_wait_event = vendor##_stream_wait_event, .event_create = vendor##_event_create,                            \
    .event_destroy = vendor##_event_destroy, .event_synchronize = vendor##_event_synchronize,                          \
    .event_record = vendor##_event_record, .memory_allocate = vendor##_memory_allocate,                                \
    .memory_free = vendor##_memory_free, .memory_copy = vendor##_memory_copy, .memory_fill = vendor##_memory_fill,     \
    .host_register = vendor##_host_register, .host_unregister = vendor##_host_unregister

/* Functions of gb_device_calls that are one call of a driver: with parameters, or for a new handle. The vendor's file
 * defines ON_DEVICE(device, where, symbol, call), which checks the result of a call for the device. */
#define GB_DRIVER_CALL(function, symbol, call, ...)                                                                    \
    static void function(struct gb_device *device, __VA_ARGS__, const struct gb_where *where) {                        \
        ON_DEVICE(device, where, symbol, call);                                                                        \
    }

#define GB_NEW_HANDLE_CALL(function, handle, symbol, call)                                                             \
    static void *function(struct gb_device *device, const struct gb_where *where) {                                    \
        void *handle = NULL;                                                                                           \
        ON_DEVICE(device, where, symbol, call);                                                                        \
        return handle;                                                                                                 \
    }

/* The smallest unit of 1, 2 or 4 bytes of which the element is a repetition; 0: there is none. */
static inline size_t gb_fill_unit(const void *element, size_t element_bytes) {
    for (size_t unit = 1; unit <= 4; unit *= 2) {
        if (element_bytes % unit == 0 && memcmp(element, (const char *)element + unit, element_bytes - unit) == 0) {
            return unit;
        }
    }
    return 0;
}

/* ---- Sparse matrices (abi/sparse.c) ---- */

/* Elements, by cudaDataType and hipDataType. */
enum {
    GB_R_32F = 0, GB_R_64F = 1, GB_R_16F = 2, GB_R_8I = 3, GB_C_32F = 4, GB_C_64F = 5, GB_R_32I = 10, GB_R_16BF = 14,
};
enum { GB_SPARSE_ROW_MAJOR = 2 };

/* Parameters of products: alpha * op(a) * op(b) + beta * c. */
#define GB_SPARSE_PRODUCT                                                                                              \
    void *handle, int mode_a, int mode_b, const void *alpha, void *a, void *b, const void *beta, void *c, int type,    \
        int algorithm
#define GB_SPARSE_VECTOR_PRODUCT                                                                                       \
    void *handle, int mode, const void *alpha, void *a, void *x, const void *beta, void *y, int type, int algorithm

/* The functions of cuSPARSE and hipSPARSE that the ABI needs: X(name, parameters). Parameters and numbers are the same in
 * both; names have different prefixes. */
#define GB_SPARSE_FUNCTIONS(X)                                                                                         \
    X(Create, (void **handle))                                                                                         \
    X(SetStream, (void *handle, void *stream))                                                                         \
    X(CreateDnVec, (void **, int64_t size, void *values, int type))                                                    \
    X(DestroyDnVec, (void *))                                                                                          \
    X(CreateDnMat, (void **, int64_t rows, int64_t cols, int64_t stride, void *values, int type, int order))           \
    X(DestroyDnMat, (void *))                                                                                          \
    X(CreateCoo, (void **, int64_t rows, int64_t cols, int64_t entries, void *row_indices, void *col_indices,          \
                  void *values, int index_type, int base, int type))                                                   \
    X(CreateCooAoS, (void **, int64_t rows, int64_t cols, int64_t entries, void *indices, void *values,                \
                     int index_type, int base, int type))                                                              \
    X(CreateCsr, (void **, int64_t rows, int64_t cols, int64_t entries, void *starts, void *indices, void *values,     \
                  int start_type, int index_type, int base, int type))                                                 \
    X(CreateCsc, (void **, int64_t rows, int64_t cols, int64_t entries, void *starts, void *indices, void *values,     \
                  int start_type, int index_type, int base, int type))                                                 \
    X(CreateBsr, (void **, int64_t rows, int64_t cols, int64_t blocks, int64_t block_rows, int64_t block_cols,         \
                  void *starts, void *indices, void *values, int start_type, int index_type, int base, int type,       \
                  int order))                                                                                          \
    X(DestroySpMat, (void *))                                                                                          \
    X(SpMatGetSize, (void *, int64_t *rows, int64_t *cols, int64_t *entries))                                          \
    X(CsrSetPointers, (void *, void *starts, void *indices, void *values))                                             \
    X(SpMV_bufferSize, (GB_SPARSE_VECTOR_PRODUCT, size_t *bytes))                                                      \
    X(SpMV, (GB_SPARSE_VECTOR_PRODUCT, void *buffer))                                                                  \
    X(SpMM_bufferSize, (GB_SPARSE_PRODUCT, size_t *bytes))                                                             \
    X(SpMM, (GB_SPARSE_PRODUCT, void *buffer))                                                                         \
    X(SDDMM_bufferSize, (GB_SPARSE_PRODUCT, size_t *bytes))                                                            \
    X(SDDMM, (GB_SPARSE_PRODUCT, void *buffer))                                                                        \
    X(SpGEMM_createDescr, (void **))                                                                                   \
    X(SpGEMM_destroyDescr, (void *))                                                                                   \
    X(SpGEMM_workEstimation, (GB_SPARSE_PRODUCT, void *product, size_t *bytes, void *buffer))                          \
    X(SpGEMM_compute, (GB_SPARSE_PRODUCT, void *product, size_t *bytes, void *buffer))                                 \
    X(SpGEMM_copy, (GB_SPARSE_PRODUCT, void *product))

struct gb_sparse_calls {
    const char *(*GetErrorName)(int);
    const char *(*GetErrorString)(int);
#define GB_SPARSE_MEMBER(name, parameters) int(*name) parameters;
    GB_SPARSE_FUNCTIONS(GB_SPARSE_MEMBER)
#undef GB_SPARSE_MEMBER
};

/* C += op(A) * op(B), where A has at most two entries in every four columns of a row (2:4). */
struct gb_structured_product {
    void *a, *b, *c;
    int mode_a, mode_b;
};

/* Whether the other entries of A are zeroed first: numbers of gpu.create_2to4_spmat. */
enum gb_prune { GB_PRUNE_NOT, GB_PRUNE, GB_PRUNE_AND_CHECK };

/* Products of 2:4 matrices. Matrices are row-major. */
struct gb_structured_calls {
    void *(*create)(struct gb_device *, int64_t rows, int64_t cols, void *values, int type, bool sparse,
                    const struct gb_where *);
    void (*destroy)(struct gb_device *, void *matrix, const struct gb_where *);
    /* Set the bytes of device memory that `multiply` needs: workspace, compressed A, buffer for compressing it. */
    void (*prepare)(struct gb_device *, const struct gb_structured_product *, enum gb_prune, int64_t bytes[3],
                    void *stream, const struct gb_where *);
    void (*multiply)(struct gb_device *, const struct gb_structured_product *, void *workspace, void *compressed,
                     void *buffer, void *stream, const struct gb_where *);
};

/* cuSPARSELt or hipSPARSELt. */
struct gb_sparselt_library {
    const char *prefix;           /* of its functions: "cusparseLt" */
    const char *const *libraries; /* names for gb_library_open */
    int compute_i32;              /* its number of the compute type */
    int oldest;                   /* version that is supported: 1000 * major + 100 * minor */
};

extern const struct gb_structured_calls gb_sparselt_calls; /* abi/sparselt.c */

/* How a vendor does sparse operations: by functions of its own, whose handle is the stream, by a library, or not at all
 * (`libraries` is NULL, too). */
struct gb_sparse_vendor {
    const struct gb_sparse_calls *calls;
    const char *prefix;           /* of the library's functions: "cusparse" */
    const char *const *libraries; /* names for gb_library_open */
    /* 2:4 matrices: by functions of its own, or by a library. */
    const struct gb_structured_calls *structured;
    const struct gb_sparselt_library *sparselt;
};

#define GB_SPARSE_VENDOR(ID, name, numbered) extern const struct gb_sparse_vendor gb_##name##_sparse;
GB_VENDORS(GB_SPARSE_VENDOR)
#undef GB_SPARSE_VENDOR
extern const struct gb_sparse_vendor *const gb_sparse_vendors[]; /* by gb_vendor */

#endif
