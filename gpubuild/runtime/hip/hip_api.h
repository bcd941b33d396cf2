/* hip_api.h: the part of HIP's ABI (ROCm 6 and newer) that the runtime uses, so that no ROCm header is needed;
 * and what the files of this folder share. */
#ifndef GPUBUILD_RT_HIP_API_H
#define GPUBUILD_RT_HIP_API_H

#include "core/image.h"

typedef int gb_hip_result;

enum {
    HIP_SUCCESS = 0,
    HIP_ERROR_DEINITIALIZED = 4,
    HIP_ERROR_CONTEXT_IS_DESTROYED = 709,
    HIP_STREAM_IS_NON_BLOCKING = 1,
    HIP_EVENT_WITHOUT_TIMING = 2,
    HIP_MEM_ATTACH_ALL = 1,
    HIP_COPY_BY_ADDRESS = 4,    /* hipMemcpyDefault */
    HIP_HOST_MALLOC_FLAGS = 0x40000003, /* hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent */
    HIP_HOST_REGISTER_FLAGS = 3 /* hipHostRegisterPortable | hipHostRegisterMapped */
};

/* hipDeviceProp_tR0600 has 1472 bytes, gcnArchName is at 1160. The buffer is larger, for libraries that write more. */
enum { HIP_PROPERTIES_BYTES = 8192, HIP_PROPERTIES_CHIP_AT = 1160, HIP_PROPERTIES_CHIP_BYTES = 256 };

/* X(member, symbol, parameters) */
#define GB_HIP_REQUIRED(X)                                                                                    \
    X(init, hipInit, (unsigned flags))                                                                        \
    X(device_count, hipGetDeviceCount, (int *))                                                               \
    X(device_properties, hipGetDevicePropertiesR0600, (void *properties, int device))                         \
    X(device_get, hipGetDevice, (int *))                                                                      \
    X(device_set, hipSetDevice, (int))                                                                        \
    X(module_load, hipModuleLoadData, (void **, const void *))                                                \
    X(module_unload, hipModuleUnload, (void *))                                                               \
    X(module_function, hipModuleGetFunction, (void **, void *module, const char *))                           \
    X(module_global, hipModuleGetGlobal, (void **, size_t *, void *module, const char *))                     \
    X(launch, hipModuleLaunchKernel,                                                                          \
      (void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared_bytes,     \
       void *stream, void **params, void **extra))                                                            \
    X(stream_create, hipStreamCreateWithFlags, (void **, unsigned flags))                                     \
    X(stream_destroy, hipStreamDestroy, (void *))                                                             \
    X(stream_synchronize, hipStreamSynchronize, (void *))                                                     \
    X(stream_wait, hipStreamWaitEvent, (void *stream, void *event, unsigned flags))                           \
    X(event_create, hipEventCreateWithFlags, (void **, unsigned flags))                                       \
    X(event_destroy, hipEventDestroy, (void *))                                                               \
    X(event_synchronize, hipEventSynchronize, (void *))                                                       \
    X(event_record, hipEventRecord, (void *event, void *stream))                                              \
    X(event_elapsed, hipEventElapsedTime, (float *milliseconds, void *first, void *last))                     \
    X(allocate, hipMalloc, (void **, size_t))                                                                 \
    X(allocate_managed, hipMallocManaged, (void **, size_t, unsigned flags))                                  \
    X(allocate_host, hipHostMalloc, (void **, size_t, unsigned flags))                                        \
    X(release, hipFree, (void *))                                                                             \
    X(copy, hipMemcpyAsync, (void *to, const void *from, size_t, int kind, void *stream))                     \
    X(set_32, hipMemsetD32Async, (void *, int, size_t count, void *stream))                                   \
    X(set_16, hipMemsetD16Async, (void *, unsigned short, size_t count, void *stream))                        \
    X(set_8, hipMemsetD8Async, (void *, unsigned char, size_t count, void *stream))                           \
    X(set_2d_8, hipMemset2DAsync, (void *, size_t pitch, int value, size_t width, size_t height, void *stream)) \
    X(host_register, hipHostRegister, (void *, size_t, unsigned flags))                                       \
    X(host_unregister, hipHostUnregister, (void *))                                                           \
    X(host_pointer, hipHostGetDevicePointer, (void **, void *, unsigned flags))

struct gb_hip_api {
    const char *(*error_name)(gb_hip_result);
    const char *(*error_text)(gb_hip_result);
#define GB_HIP_MEMBER(member, symbol, parameters) gb_hip_result(*member) parameters;
    GB_HIP_REQUIRED(GB_HIP_MEMBER)
#undef GB_HIP_MEMBER
};

/* ---- hip_image.c ---- */

bool gb_hip_recognize(struct gb_image *image);
/* How well the image suits a device; `target_id` is HIP's gcnArchName: "gfx90a:sramecc+:xnack-". */
struct gb_fit gb_hip_fit(const struct gb_image *image, const char *target_id);

/* ---- hip_assert.c ---- */

enum { GB_HIP_RECORD_BYTES = 64 };
/* The variable in modules with assertions for the address of the record. */
#define GB_HIP_RECORD_NAME "gpubuild_assertion_record"

/* Keep the assertion messages of a code object; false when it has none. */
bool gb_hip_keep_assertions(const void *image, size_t size);

/* Use `memory`, which host and devices can access, as the record of the process. Called once, before a kernel can fail. */
void gb_hip_watch(void *memory);

#endif
