/* cuda_api.h: the part of the CUDA driver's ABI that the runtime uses, so that no CUDA header is needed; and the
 * declarations that this folder shares.
 *
 * Names, numbers and layouts are those of cuda.h; the ABI of a versioned symbol (_v2) never changes.
 */
#ifndef GPUBUILD_RT_CUDA_API_H
#define GPUBUILD_RT_CUDA_API_H

#include "core/image.h"

typedef int gb_cu_result;
typedef int gb_cu_device;
typedef uint64_t gb_cu_address;

enum {
    CU_SUCCESS = 0,
    CU_ERROR_DEINITIALIZED = 4,
    CU_ERROR_CONTEXT_IS_DESTROYED = 709,

    CU_DEVICE_MAX_SHARED_PER_BLOCK_OPTIN = 97,
    CU_DEVICE_MAJOR = 75,
    CU_DEVICE_MINOR = 76,

    CU_JIT_LOG_BUFFER = 5, /* CU_JIT_ERROR_LOG_BUFFER */
    CU_JIT_LOG_BYTES = 6,  /* CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES */
    CU_JIT_OPT_LEVEL = 7,

    CU_FUNC_SHARED = 1, /* bytes that the kernel has in every launch */
    CU_FUNC_MAX_DYNAMIC_SHARED = 8,
    CU_FUNC_NON_PORTABLE_CLUSTER = 14,

    CU_LAUNCH_CLUSTER_DIMENSION = 4,
    CU_LAUNCH_CLUSTER_POLICY = 5,
    CU_CLUSTER_POLICY_SPREAD = 1,

    CU_STREAM_IS_NON_BLOCKING = 1,
    CU_EVENT_WITHOUT_TIMING = 2,
    CU_MEM_ATTACH_ALL = 1,       /* CU_MEM_ATTACH_GLOBAL */
    CU_HOST_REGISTER_FLAGS = 3,  /* PORTABLE | DEVICEMAP: any context and thread, and kernels */
};

struct gb_cu_launch_attribute {
    int id;
    int padding;
    union {
        unsigned cluster[3];
        int policy;
        char bytes[64];
    } value;
};

struct gb_cu_launch_config {
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_bytes;
    void *stream;
    struct gb_cu_launch_attribute *attributes;
    unsigned attribute_count;
};

_Static_assert(sizeof(struct gb_cu_launch_attribute) == 72, "layout of CUlaunchAttribute");
_Static_assert(sizeof(struct gb_cu_launch_config) == 56, "layout of CUlaunchConfig");

/* X(member, symbol, parameters) */
#define GB_CUDA_REQUIRED(X)                                                                                   \
    X(init, cuInit, (unsigned flags))                                                                         \
    X(error_name, cuGetErrorName, (gb_cu_result, const char **))                                              \
    X(error_text, cuGetErrorString, (gb_cu_result, const char **))                                            \
    X(device_count, cuDeviceGetCount, (int *))                                                                \
    X(device_get, cuDeviceGet, (gb_cu_device *, int ordinal))                                                 \
    X(device_name, cuDeviceGetName, (char *, int bytes, gb_cu_device))                                        \
    X(device_attribute, cuDeviceGetAttribute, (int *, int attribute, gb_cu_device))                           \
    X(context_retain, cuDevicePrimaryCtxRetain, (void **, gb_cu_device))                                      \
    X(context_push, cuCtxPushCurrent_v2, (void *))                                                            \
    X(context_pop, cuCtxPopCurrent_v2, (void **))                                                             \
    X(module_load, cuModuleLoadData, (void **, const void *))                                                 \
    X(module_load_jit, cuModuleLoadDataEx, (void **, const void *, unsigned count, int *options, void **values)) \
    X(module_unload, cuModuleUnload, (void *))                                                                \
    X(module_function, cuModuleGetFunction, (void **, void *module, const char *))                            \
    X(function_get, cuFuncGetAttribute, (int *, int attribute, void *))                                       \
    X(function_set, cuFuncSetAttribute, (void *, int attribute, int value))                                   \
    X(launch, cuLaunchKernel,                                                                                 \
      (void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared_bytes,     \
       void *stream, void **params, void **extra))                                                            \
    X(stream_create, cuStreamCreate, (void **, unsigned flags))                                               \
    X(stream_destroy, cuStreamDestroy_v2, (void *))                                                           \
    X(stream_synchronize, cuStreamSynchronize, (void *))                                                      \
    X(stream_wait, cuStreamWaitEvent, (void *stream, void *event, unsigned flags))                            \
    X(event_create, cuEventCreate, (void **, unsigned flags))                                                 \
    X(event_destroy, cuEventDestroy_v2, (void *))                                                             \
    X(event_synchronize, cuEventSynchronize, (void *))                                                        \
    X(event_record, cuEventRecord, (void *event, void *stream))                                               \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, void *first, void *last))                      \
    X(allocate, cuMemAlloc_v2, (gb_cu_address *, size_t))                                                     \
    X(allocate_managed, cuMemAllocManaged, (gb_cu_address *, size_t, unsigned flags))                         \
    X(release, cuMemFree_v2, (gb_cu_address))                                                                 \
    X(copy, cuMemcpyAsync, (gb_cu_address to, gb_cu_address from, size_t, void *stream))                      \
    X(set_32, cuMemsetD32Async, (gb_cu_address, unsigned, size_t count, void *stream))                        \
    X(set_16, cuMemsetD16Async, (gb_cu_address, unsigned short, size_t count, void *stream))                  \
    X(set_8, cuMemsetD8Async, (gb_cu_address, unsigned char, size_t count, void *stream))                     \
    X(set_2d_32, cuMemsetD2D32Async,                                                                          \
      (gb_cu_address, size_t pitch, unsigned, size_t width, size_t height, void *stream))                     \
    X(set_2d_16, cuMemsetD2D16Async,                                                                          \
      (gb_cu_address, size_t pitch, unsigned short, size_t width, size_t height, void *stream))               \
    X(set_2d_8, cuMemsetD2D8Async,                                                                            \
      (gb_cu_address, size_t pitch, unsigned char, size_t width, size_t height, void *stream))                \
    X(host_register, cuMemHostRegister_v2, (void *, size_t, unsigned flags))                                  \
    X(host_unregister, cuMemHostUnregister, (void *))                                                         \
    X(host_pointer, cuMemHostGetDevicePointer_v2, (gb_cu_address *, void *, unsigned flags))

/* Missing in the oldest driver that can run what gpubuild compiles; then NULL. */
#define GB_CUDA_OPTIONAL(X)                                                                                   \
    X(launch_ex, cuLaunchKernelEx, (const struct gb_cu_launch_config *, void *function, void **params, void **extra)) \
    X(tensor_map, cuTensorMapEncodeTiled,                                                                     \
      (void *map, int data_type, uint32_t rank, void *address, const uint64_t *dims, const uint64_t *strides, \
       const uint32_t *box, const uint32_t *element_strides, int interleave, int swizzle, int l2, int fill))

#define GB_CUDA_MEMBER(member, symbol, parameters) gb_cu_result(*member) parameters;
struct gb_cuda_api {
    GB_CUDA_REQUIRED(GB_CUDA_MEMBER)
    GB_CUDA_OPTIONAL(GB_CUDA_MEMBER)
};
#undef GB_CUDA_MEMBER

/* ---- cuda_image.c ---- */

bool gb_cuda_recognize(struct gb_image *image);
bool gb_cuda_is_ptx(const struct gb_image *image);
/* How well the image suits a device of compute capability `major`.`minor`. */
struct gb_fit gb_cuda_fit(const struct gb_image *image, int major, int minor);

#endif
