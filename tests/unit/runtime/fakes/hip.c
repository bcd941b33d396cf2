/* HIP without a GPU: device memory is host memory, kernels do nothing but are recorded. */
#include "fake.h"

enum { HOST_OFFSET = 4096 }; /* from where the host finds its memory to where devices do */
static _Thread_local int current;

/* Record a call with its arguments; fail if that is ordered. */
#define CALLED(name, format, ...)                                                                             \
    do {                                                                                                      \
        record(#name " dev=%d" format, current, ##__VA_ARGS__);                                               \
        FAIL_IF_ORDERED(#name);                                                                               \
    } while (0)
/* A function that does nothing else. */
#define CALL(name, parameters, ...)                                                                           \
    int name parameters {                                                                                     \
        CALLED(name, __VA_ARGS__);                                                                            \
        return 0;                                                                                             \
    }

int hipInit(unsigned flags) {
    record("hipInit %u", flags);
    FAIL_IF_ORDERED("hipInit");
    return 0;
}
const char *hipGetErrorName(int code) {
    return code == 2 ? "hipErrorOutOfMemory" : "hipErrorFake";
}
const char *hipGetErrorString(int code) {
    (void)code;
    return "a failure to order";
}
int hipGetDeviceCount(int *count) {
    FAIL_IF_ORDERED("hipGetDeviceCount");
    *count = device_count();
    return 0;
}
int hipGetDevicePropertiesR0600(void *properties, int device) {
    FAIL_IF_ORDERED("hipGetDevicePropertiesR0600");
    memset(properties, 0, 1472);
    sprintf(properties, "Fake AMD GPU %d", device);
    strcpy((char *)properties + 1160, item_of("FAKE_DEVICES", device));
    return 0;
}
int hipGetDevice(int *device) {
    *device = current;
    return 0;
}
int hipSetDevice(int device) {
    record("hipSetDevice %d", device);
    FAIL_IF_ORDERED("hipSetDevice");
    current = device;
    return 0;
}
int hipModuleLoadData(void **module, const void *image) {
    const unsigned char *b = image;
    CALLED(hipModuleLoadData, " %02x%02x%02x%02x machine=%d", b[0], b[1], b[2], b[3], b[18]);
    *module = new_handle();
    return 0;
}
static void *variable; /* of all modules */
int hipModuleGetGlobal(void **address, size_t *bytes, void *module, const char *name) {
    CALLED(hipModuleGetGlobal, " %p %s", module, name);
    *address = &variable;
    *bytes = sizeof variable;
    return 0;
}
int hipHostMalloc(void **address, size_t bytes, unsigned flags) {
    CALLED(hipHostMalloc, " %zu flags=%#x", bytes, flags);
    *address = malloc(bytes);
    return 0;
}
/* A kernel whose assertion, of that name, fails, and what HIP does then. */
static void fail_assertion(const char *name) {
    uint64_t format = strtoull(name, NULL, 16);
    uint32_t numbers[] = {1, 20, 0, 4294967295u, 5, 6}, state = 2;
    if (variable != NULL) {
        char *memory = (char *)variable - HOST_OFFSET;
        memcpy(memory + 8, &format, sizeof format);
        memcpy(memory + 16, numbers, sizeof numbers);
        memcpy(memory, &state, sizeof state);
    }
    abort();
}
CALL(hipModuleUnload, (void *module), " %p", module)
int hipModuleGetFunction(void **function, void *module, const char *name) {
    CALLED(hipModuleGetFunction, " %p %s", module, name);
    *function = new_handle();
    return 0;
}
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
    CALLED(hipModuleLaunchKernel, " %p grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p extra=%p", function,
           gx, gy, gz, bx, by, bz, shared, stream, (void *)extra);
    if (getenv("FAKE_ASSERTION") != NULL) {
        fail_assertion(getenv("FAKE_ASSERTION"));
    }
    record_params(params);
    return 0;
}
int hipStreamCreateWithFlags(void **stream, unsigned flags) {
    FAIL_IF_ORDERED("hipStreamCreateWithFlags");
    *stream = new_handle();
    record("hipStreamCreateWithFlags dev=%d flags=%u", current, flags);
    return 0;
}
CALL(hipStreamDestroy, (void *stream), " %p", stream)
CALL(hipStreamSynchronize, (void *stream), " %p", stream)
CALL(hipStreamWaitEvent, (void *stream, void *event, unsigned flags), " %p %p %u", stream, event, flags)
int hipEventCreateWithFlags(void **event, unsigned flags) {
    FAIL_IF_ORDERED("hipEventCreateWithFlags");
    *event = new_handle();
    record("hipEventCreateWithFlags dev=%d flags=%u", current, flags);
    return 0;
}
CALL(hipEventDestroy, (void *event), " %p", event)
CALL(hipEventSynchronize, (void *event), " %p", event)
CALL(hipEventRecord, (void *event, void *stream), " %p %p", event, stream)
int hipEventElapsedTime(float *milliseconds, void *first, void *last) {
    CALLED(hipEventElapsedTime, " %p %p", first, last);
    *milliseconds = 0.25f;
    return 0;
}
int hipMalloc(void **address, size_t bytes) {
    CALLED(hipMalloc, " %zu", bytes);
    *address = malloc(bytes);
    return 0;
}
int hipMallocManaged(void **address, size_t bytes, unsigned flags) {
    CALLED(hipMallocManaged, " %zu flags=%u", bytes, flags);
    *address = malloc(bytes);
    return 0;
}
int hipFree(void *address) {
    CALLED(hipFree, "");
    free(address);
    return 0;
}
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    CALLED(hipMemcpyAsync, " %zu kind=%d stream=%p", bytes, kind, stream);
    memcpy(to, from, bytes);
    return 0;
}
int hipMemsetD32Async(void *address, int value, size_t count, void *stream) {
    CALLED(hipMemsetD32Async, " 0x%x %zu stream=%p", (unsigned)value, count, stream);
    set_parts(address, 4, &value, 4, count);
    return 0;
}
int hipMemsetD16Async(void *address, unsigned short value, size_t count, void *stream) {
    CALLED(hipMemsetD16Async, " 0x%x %zu stream=%p", value, count, stream);
    set_parts(address, 2, &value, 2, count);
    return 0;
}
int hipMemsetD8Async(void *address, unsigned char value, size_t count, void *stream) {
    CALLED(hipMemsetD8Async, " 0x%x %zu stream=%p", value, count, stream);
    memset(address, value, count);
    return 0;
}
int hipMemset2DAsync(void *address, size_t pitch, int value, size_t width, size_t height, void *stream) {
    CALLED(hipMemset2DAsync, " 0x%x %zu %zux%zu stream=%p", (unsigned)value, pitch, width, height, stream);
    for (size_t i = 0; i < height; i++) {
        memset((char *)address + i * pitch, value, width);
    }
    return 0;
}
CALL(hipHostRegister, (void *address, size_t bytes, unsigned flags), " %zu flags=%u", bytes, flags)
CALL(hipHostUnregister, (void *address), "")
int hipHostGetDevicePointer(void **found, void *address, unsigned flags) {
    CALLED(hipHostGetDevicePointer, " flags=%u", flags);
    *found = (char *)address + HOST_OFFSET;
    return 0;
}
