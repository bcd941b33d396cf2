/* HIP without a GPU: device memory is host memory, kernels do nothing but are recorded. */
#include "fake.h"

enum { HOST_OFFSET = 4096 }; /* from where the host finds its memory to where devices do */
static _Thread_local int current;
static int handles;

static void *new_handle(void) {
    return (void *)(uintptr_t)(0x2000 + 16 * __atomic_add_fetch(&handles, 1, __ATOMIC_SEQ_CST));
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
    record("hipModuleLoadData dev=%d %02x%02x%02x%02x machine=%d", current, b[0], b[1], b[2], b[3], b[18]);
    FAIL_IF_ORDERED("hipModuleLoadData");
    *module = new_handle();
    return 0;
}
static void *variable; /* of all modules */
int hipModuleGetGlobal(void **address, size_t *bytes, void *module, const char *name) {
    record("hipModuleGetGlobal dev=%d %p %s", current, module, name);
    FAIL_IF_ORDERED("hipModuleGetGlobal");
    *address = &variable;
    *bytes = sizeof variable;
    return 0;
}
int hipHostMalloc(void **address, size_t bytes, unsigned flags) {
    record("hipHostMalloc dev=%d %zu flags=%#x", current, bytes, flags);
    FAIL_IF_ORDERED("hipHostMalloc");
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
int hipModuleUnload(void *module) {
    record("hipModuleUnload dev=%d %p", current, module);
    FAIL_IF_ORDERED("hipModuleUnload");
    return 0;
}
int hipModuleGetFunction(void **function, void *module, const char *name) {
    record("hipModuleGetFunction dev=%d %p %s", current, module, name);
    FAIL_IF_ORDERED("hipModuleGetFunction");
    *function = new_handle();
    return 0;
}
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **params, void **extra) {
    record("hipModuleLaunchKernel dev=%d %p grid=%u,%u,%u block=%u,%u,%u shared=%u stream=%p extra=%p", current, function,
           gx, gy, gz, bx, by, bz, shared, stream, (void *)extra);
    FAIL_IF_ORDERED("hipModuleLaunchKernel");
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
int hipStreamDestroy(void *stream) {
    record("hipStreamDestroy dev=%d %p", current, stream);
    FAIL_IF_ORDERED("hipStreamDestroy");
    return 0;
}
int hipStreamSynchronize(void *stream) {
    record("hipStreamSynchronize dev=%d %p", current, stream);
    FAIL_IF_ORDERED("hipStreamSynchronize");
    return 0;
}
int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
    record("hipStreamWaitEvent dev=%d %p %p %u", current, stream, event, flags);
    FAIL_IF_ORDERED("hipStreamWaitEvent");
    return 0;
}
int hipEventCreateWithFlags(void **event, unsigned flags) {
    FAIL_IF_ORDERED("hipEventCreateWithFlags");
    *event = new_handle();
    record("hipEventCreateWithFlags dev=%d flags=%u", current, flags);
    return 0;
}
int hipEventDestroy(void *event) {
    record("hipEventDestroy dev=%d %p", current, event);
    FAIL_IF_ORDERED("hipEventDestroy");
    return 0;
}
int hipEventSynchronize(void *event) {
    record("hipEventSynchronize dev=%d %p", current, event);
    FAIL_IF_ORDERED("hipEventSynchronize");
    return 0;
}
int hipEventRecord(void *event, void *stream) {
    record("hipEventRecord dev=%d %p %p", current, event, stream);
    FAIL_IF_ORDERED("hipEventRecord");
    return 0;
}
int hipEventElapsedTime(float *milliseconds, void *first, void *last) {
    record("hipEventElapsedTime dev=%d %p %p", current, first, last);
    FAIL_IF_ORDERED("hipEventElapsedTime");
    *milliseconds = 0.25f;
    return 0;
}
int hipMalloc(void **address, size_t bytes) {
    record("hipMalloc dev=%d %zu", current, bytes);
    FAIL_IF_ORDERED("hipMalloc");
    *address = malloc(bytes);
    return 0;
}
int hipMallocManaged(void **address, size_t bytes, unsigned flags) {
    record("hipMallocManaged dev=%d %zu flags=%u", current, bytes, flags);
    FAIL_IF_ORDERED("hipMallocManaged");
    *address = malloc(bytes);
    return 0;
}
int hipFree(void *address) {
    record("hipFree dev=%d", current);
    FAIL_IF_ORDERED("hipFree");
    free(address);
    return 0;
}
int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    record("hipMemcpyAsync dev=%d %zu kind=%d stream=%p", current, bytes, kind, stream);
    FAIL_IF_ORDERED("hipMemcpyAsync");
    memcpy(to, from, bytes);
    return 0;
}
int hipMemsetD32Async(void *address, int value, size_t count, void *stream) {
    record("hipMemsetD32Async dev=%d 0x%x %zu stream=%p", current, (unsigned)value, count, stream);
    FAIL_IF_ORDERED("hipMemsetD32Async");
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)address + 4 * i, &value, 4);
    }
    return 0;
}
int hipMemsetD16Async(void *address, unsigned short value, size_t count, void *stream) {
    record("hipMemsetD16Async dev=%d 0x%x %zu stream=%p", current, value, count, stream);
    FAIL_IF_ORDERED("hipMemsetD16Async");
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)address + 2 * i, &value, 2);
    }
    return 0;
}
int hipMemsetD8Async(void *address, unsigned char value, size_t count, void *stream) {
    record("hipMemsetD8Async dev=%d 0x%x %zu stream=%p", current, value, count, stream);
    FAIL_IF_ORDERED("hipMemsetD8Async");
    memset(address, value, count);
    return 0;
}
int hipMemset2DAsync(void *address, size_t pitch, int value, size_t width, size_t height, void *stream) {
    record("hipMemset2DAsync dev=%d 0x%x %zu %zux%zu stream=%p", current, (unsigned)value, pitch, width, height, stream);
    FAIL_IF_ORDERED("hipMemset2DAsync");
    for (size_t i = 0; i < height; i++) {
        memset((char *)address + i * pitch, value, width);
    }
    return 0;
}
int hipHostRegister(void *address, size_t bytes, unsigned flags) {
    (void)address;
    record("hipHostRegister dev=%d %zu flags=%u", current, bytes, flags);
    FAIL_IF_ORDERED("hipHostRegister");
    return 0;
}
int hipHostUnregister(void *address) {
    (void)address;
    record("hipHostUnregister dev=%d", current);
    FAIL_IF_ORDERED("hipHostUnregister");
    return 0;
}
int hipHostGetDevicePointer(void **found, void *address, unsigned flags) {
    record("hipHostGetDevicePointer dev=%d flags=%u", current, flags);
    FAIL_IF_ORDERED("hipHostGetDevicePointer");
    *found = (char *)address + HOST_OFFSET;
    return 0;
}
