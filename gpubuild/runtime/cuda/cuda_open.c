/* cuda/cuda_open.c: find the CUDA driver and its devices. */
#include "cuda/cuda_device.h"
#include "core/process.h"

#include <stdlib.h>

enum { MAX_DEVICES = 64 };

struct gb_cuda_api gb_cuda;
static bool ready; /* this and devices: only gb_cuda_open, under core/module.c's lock, uses them */
static struct gb_cuda_device *devices[MAX_DEVICES];

const char *gb_cuda_error_name(gb_cu_result result) {
    const char *name = NULL;
    return gb_cuda.error_name(result, &name) == CU_SUCCESS && name != NULL ? name : "unknown error";
}

const char *gb_cuda_error_text(gb_cu_result result) {
    const char *text = NULL;
    return gb_cuda.error_text(result, &text) == CU_SUCCESS && text != NULL ? text : "no description";
}

static bool open_driver(char **why) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    if (ready) {
        return true;
    }
    void *library = gb_library_open(names, why);
    if (library == NULL) {
        return false;
    }
#define TAKE(member, symbol, parameters) gb_library_symbol(library, #symbol, &gb_cuda.member);
    GB_CUDA_REQUIRED(TAKE)
    GB_CUDA_OPTIONAL(TAKE)
#undef TAKE
#define NEED(member, symbol, parameters)                                                                      \
    if (gb_cuda.member == NULL) {                                                                                \
        *why = gb_text("libcuda.so.1 has no function " #symbol ": the driver is too old");                    \
        return false;                                                                                         \
    }
    GB_CUDA_REQUIRED(NEED)
#undef NEED
    gb_cu_result result = gb_cuda.init(0);
    if (result != CU_SUCCESS) {
        *why = gb_text("cuInit failed with %s (%d): %s", gb_cuda_error_name(result), result, gb_cuda_error_text(result));
        return false;
    }
    ready = true;
    return true;
}

struct gb_device *gb_cuda_open(int ordinal, char **why) {
    if (!open_driver(why)) {
        return NULL;
    }
    int count = 0;
    gb_cu_result result = gb_cuda.device_count(&count);
    if (result != CU_SUCCESS || ordinal < 0 || ordinal >= count || ordinal >= MAX_DEVICES) {
        *why = result != CU_SUCCESS
                   ? gb_text("cuDeviceGetCount failed with %s (%d)", gb_cuda_error_name(result), result)
                   : gb_text("there is no cuda:%d; the driver finds %d device%s", ordinal, count, count == 1 ? "" : "s");
        return NULL;
    }
    if (devices[ordinal] != NULL) {
        return &devices[ordinal]->base;
    }
    struct gb_cuda_device *device = gb_allocate(sizeof *device);
    char name[256] = "";
    result = gb_cuda.device_get(&device->handle, ordinal);
    if (result == CU_SUCCESS) {
        result = gb_cuda.device_name(name, (int)sizeof name - 1, device->handle);
    }
    if (result == CU_SUCCESS) {
        result = gb_cuda.device_attribute(&device->major, CU_DEVICE_MAJOR, device->handle);
    }
    if (result == CU_SUCCESS) {
        result = gb_cuda.device_attribute(&device->minor, CU_DEVICE_MINOR, device->handle);
    }
    if (result != CU_SUCCESS) {
        free(device);
        *why = gb_text("cuda:%d cannot be asked for its properties: %s (%d)", ordinal, gb_cuda_error_name(result), result);
        return NULL;
    }
    (void)pthread_mutex_init(&device->lock, NULL);
    device->base = (struct gb_device){
        .vendor = GB_VENDOR_CUDA,
        .ordinal = ordinal,
        .name = gb_text("cuda:%d (%s, sm_%d%d)", ordinal, name, device->major, device->minor),
        .calls = &gb_cuda_calls,
    };
    devices[ordinal] = device;
    return &device->base;
}
