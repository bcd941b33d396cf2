/* A CUDA driver without a GPU: device memory is host memory, kernels do nothing but are recorded. */
#include "fake.h"

#include <pthread.h>

static _Thread_local int stack[16]; /* ordinals of the contexts that the thread pushed */
static _Thread_local int depth;
static int contexts[16];

/* The current context, as "0" or "none". */
static const char *context(void) {
    static _Thread_local char text[8];
    snprintf(text, sizeof text, "%d", depth > 0 ? stack[depth - 1] : -1);
    return depth > 0 ? text : "none";
}

#define IN_CONTEXT(name)                                                                                      \
    do {                                                                                                      \
        FAIL_IF_ORDERED(name);                                                                                \
        if (depth == 0) {                                                                                     \
            return 201; /* CUDA_ERROR_INVALID_CONTEXT */                                                      \
        }                                                                                                     \
    } while (0)

/* Record a call with its arguments and the context; fail without one, or if that is ordered. */
#define CALLED(name, format, ...)                                                                             \
    do {                                                                                                      \
        record(#name " ctx=%s" format, context(), ##__VA_ARGS__);                                             \
        IN_CONTEXT(#name);                                                                                    \
    } while (0)
/* A function that does nothing else; `version` ends its symbol. */
#define CALL(name, version, parameters, ...)                                                                  \
    int name##version parameters {                                                                            \
        CALLED(name, __VA_ARGS__);                                                                            \
        return 0;                                                                                             \
    }

int cuInit(unsigned flags) {
    record("cuInit %u", flags);
    FAIL_IF_ORDERED("cuInit");
    return 0;
}
int cuGetErrorName(int code, const char **name) {
    *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_FAKE";
    return 0;
}
int cuGetErrorString(int code, const char **text) {
    *text = code == 2 ? "out of memory" : "a failure to order";
    return 0;
}
int cuDeviceGetCount(int *count) {
    FAIL_IF_ORDERED("cuDeviceGetCount");
    *count = device_count();
    return 0;
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal + 100; /* not the ordinal: the two must not be confused */
    return 0;
}
int cuDeviceGetName(char *name, int bytes, int device) {
    snprintf(name, (size_t)bytes, "Fake GPU %d", device - 100);
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int major = 0;
    int minor = 0;
    sscanf(item_of("FAKE_DEVICES", device - 100), "%d.%d", &major, &minor);
    switch (attribute) {
    case 75:
        *value = major;
        return 0;
    case 76:
        *value = minor;
        return 0;
    case 97:
        *value = 232448; /* of an H100 */
        return 0;
    default:
        return 1;
    }
}
int cuDevicePrimaryCtxRetain(void **result, int device) {
    record("cuDevicePrimaryCtxRetain device=%d", device - 100);
    FAIL_IF_ORDERED("cuDevicePrimaryCtxRetain");
    contexts[device - 100] = device - 100;
    *result = &contexts[device - 100];
    return 0;
}
int cuCtxPushCurrent_v2(void *pushed) {
    FAIL_IF_ORDERED("cuCtxPushCurrent");
    stack[depth++] = *(int *)pushed;
    return 0;
}
int cuCtxPopCurrent_v2(void **popped) {
    if (depth == 0) {
        return 201;
    }
    *popped = &contexts[stack[--depth]];
    return 0;
}
int fake_context_depth(void) {
    return depth;
}

int cuModuleLoadData(void **module, const void *image) {
    const unsigned char *b = image;
    CALLED(cuModuleLoadData, " %02x%02x%02x%02x machine=%d", b[0], b[1], b[2], b[3], b[18]);
    *module = new_handle();
    return 0;
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
    record("cuModuleLoadDataEx ctx=%s length=%zu", context(), strlen(image));
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == 7) {
            record("  optimization level %d", (int)(uintptr_t)values[i]);
        }
        if (options[i] == 5 && failure_of("cuModuleLoadDataEx") != 0) {
            strcpy(values[i], "ptxas fake, line 3; error   : Unknown symbol 'x'");
        }
    }
    IN_CONTEXT("cuModuleLoadDataEx");
    *module = new_handle();
    return 0;
}
CALL(cuModuleUnload, , (void *module), " %p", module)
int cuModuleGetFunction(void **function, void *module, const char *name) {
    CALLED(cuModuleGetFunction, " %p %s", module, name);
    *function = new_handle();
    return 0;
}
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    (void)function;
    IN_CONTEXT("cuFuncGetAttribute");
    *value = 1000;
    return attribute == 1 ? 0 : 1;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
    record("cuFuncSetAttribute %p %d=%d", function, attribute, value);
    IN_CONTEXT("cuFuncSetAttribute");
    return 0;
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **params, void **extra) {
    CALLED(cuLaunchKernel, " %p grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p extra=%p", function, gx,
           gy, gz, bx, by, bz, shared, stream, (void *)extra);
    record_params(params);
    return 0;
}
struct attribute {
    int id, padding;
    unsigned value[16];
};
struct config {
    unsigned grid[3], block[3], shared;
    void *stream;
    struct attribute *attributes;
    unsigned count;
};
int cuLaunchKernelEx(const struct config *c, void *function, void **params, void **extra) {
    record("cuLaunchKernelEx ctx=%s %p grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p extra=%p", context(), function,
           c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream,
           (void *)extra);
    for (unsigned i = 0; i < c->count; i++) {
        const unsigned *v = c->attributes[i].value;
        record("  attribute %d = %u,%u,%u", c->attributes[i].id, v[0], v[1], v[2]);
    }
    IN_CONTEXT("cuLaunchKernelEx");
    record_params(params);
    return 0;
}

int cuStreamCreate(void **stream, unsigned flags) {
    IN_CONTEXT("cuStreamCreate");
    *stream = new_handle();
    record("cuStreamCreate ctx=%s flags=%u %p", context(), flags, *stream);
    return 0;
}
CALL(cuStreamDestroy, _v2, (void *stream), " %p", stream)
CALL(cuStreamSynchronize, , (void *stream), " %p", stream)
CALL(cuStreamWaitEvent, , (void *stream, void *event, unsigned flags), " %p %p %u", stream, event, flags)
int cuEventCreate(void **event, unsigned flags) {
    IN_CONTEXT("cuEventCreate");
    *event = new_handle();
    record("cuEventCreate ctx=%s flags=%u %p", context(), flags, *event);
    return 0;
}
CALL(cuEventDestroy, _v2, (void *event), " %p", event)
CALL(cuEventSynchronize, , (void *event), " %p", event)
CALL(cuEventRecord, , (void *event, void *stream), " %p %p", event, stream)
int cuEventElapsedTime(float *milliseconds, void *first, void *last) {
    CALLED(cuEventElapsedTime, " %p %p", first, last);
    *milliseconds = 0.25f;
    return 0;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    CALLED(cuMemAlloc, " %zu", bytes);
    *address = (uint64_t)(uintptr_t)malloc(bytes);
    return 0;
}
int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags) {
    CALLED(cuMemAllocManaged, " %zu flags=%u", bytes, flags);
    *address = (uint64_t)(uintptr_t)malloc(bytes);
    return 0;
}
int cuMemFree_v2(uint64_t address) {
    CALLED(cuMemFree, "");
    free((void *)(uintptr_t)address);
    return 0;
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream) {
    CALLED(cuMemcpyAsync, " %zu stream=%p", bytes, stream);
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
    return 0;
}
/* Fills with elements of one size: of a row, and of one element in each of `height` rows. */
#define MEMSETS(bits, type)                                                                                   \
    int cuMemsetD##bits##Async(uint64_t address, type value, size_t count, void *stream) {                    \
        CALLED(cuMemsetD##bits##Async, " 0x%x %zu stream=%p", value, count, stream);                          \
        set_parts((void *)address, sizeof value, &value, sizeof value, count);                                \
        return 0;                                                                                             \
    }                                                                                                         \
    int cuMemsetD2D##bits##Async(uint64_t address, size_t pitch, type value, size_t width, size_t height,     \
                                 void *stream) {                                                              \
        CALLED(cuMemsetD2D##bits##Async, " 0x%x %zu %zux%zu stream=%p", value, pitch, width, height, stream); \
        set_parts((void *)address, pitch, &value, sizeof value, height);                                      \
        return 0;                                                                                             \
    }
MEMSETS(32, unsigned)
MEMSETS(16, unsigned short)
MEMSETS(8, unsigned char)
CALL(cuMemHostRegister, _v2, (void *address, size_t bytes, unsigned flags), " %zu flags=%u", bytes, flags)
CALL(cuMemHostUnregister, , (void *address), "")
int cuMemHostGetDevicePointer_v2(uint64_t *found, void *address, unsigned flags) {
    CALLED(cuMemHostGetDevicePointer, " flags=%u", flags);
    *found = (uint64_t)(uintptr_t)address + 4096;
    return 0;
}
int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                           int interleave, int swizzle, int l2, int fill) {
    record("cuTensorMapEncodeTiled type=%d rank=%u dims=%llu,%llu stride=%llu box=%u,%u element=%u,%u "
           "interleave=%d swizzle=%d l2=%d fill=%d aligned=%d",
           type, rank, (unsigned long long)dims[0], (unsigned long long)dims[1], (unsigned long long)strides[0], box[0],
           box[1], element_strides[0], element_strides[1], interleave, swizzle, l2, fill, (uintptr_t)map % 64 == 0);
    IN_CONTEXT("cuTensorMapEncodeTiled");
    memset(map, 0x5a, 128);
    memcpy(map, &address, sizeof address);
    return 0;
}
