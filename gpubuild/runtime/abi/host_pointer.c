/* abi/host_pointer.c: where a device finds registered host memory. Upstream's ROCm runtime has these two, for programs
 * that hand kernels the memrefs they return; on most devices it is the address that the host has.
 *
 * MLIR calls them without a C interface, so the descriptor is a result by value: by pointer on x86-64, as in C. On
 * AArch64 LLVM would want it in five registers, which C has no type for; there they are left out.
 */
#include "core/module.h"

#if defined(__x86_64__)

struct memref_1d {
    void *allocated;
    void *aligned;
    int64_t offset;
    int64_t size;
    int64_t stride;
};

struct memref_1d mgpuMemGetDeviceMemRef1dFloat(void *allocated, void *aligned, int64_t offset, int64_t size,
                                               int64_t stride);
struct memref_1d mgpuMemGetDeviceMemRef1dInt32(void *allocated, void *aligned, int64_t offset, int64_t size,
                                               int64_t stride);

static struct memref_1d on_device(struct memref_1d memref, const char *call) {
    struct gb_device *device = gb_device_current();
    const struct gb_where where = {.device = device->name, .call = call};
    if (device->calls->host_pointer != NULL && memref.size > 0) {
        memref.aligned = device->calls->host_pointer(device, memref.aligned, &where);
        memref.allocated = memref.aligned;
    }
    gb_trace("registered host memory is at %p on the device", memref.aligned);
    return memref;
}

struct memref_1d mgpuMemGetDeviceMemRef1dFloat(void *allocated, void *aligned, int64_t offset, int64_t size,
                                               int64_t stride) {
    return on_device((struct memref_1d){allocated, aligned, offset, size, stride}, "mgpuMemGetDeviceMemRef1dFloat");
}

struct memref_1d mgpuMemGetDeviceMemRef1dInt32(void *allocated, void *aligned, int64_t offset, int64_t size,
                                               int64_t stride) {
    return on_device((struct memref_1d){allocated, aligned, offset, size, stride}, "mgpuMemGetDeviceMemRef1dInt32");
}

#else
typedef int gb_no_host_pointer; /* a file must not be empty */
#endif
