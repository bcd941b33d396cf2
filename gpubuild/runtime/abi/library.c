/* library.c: functions for the Python modules of libraries. Only the address of their table leaves a library.
 *
 * Each takes pointers to its result and arguments, so that gb_try can call it. */
#include "core/module.h"

void *mgpuMemAlloc(uint64_t bytes, void *stream, uint32_t shared);
void mgpuMemFree(void *address, void *stream);
void mgpuMemcpy(void *to, void *from, size_t bytes, void *stream);
void mgpuMemHostRegister(void *address, uint64_t bytes);
void mgpuMemHostUnregister(void *address);
void *mgpuModuleLoad(const void *data, size_t size);
void *mgpuModuleGetFunction(void *module, const char *name);
void mgpuLaunchKernel(void *kernel, intptr_t grid_x, intptr_t grid_y, intptr_t grid_z, intptr_t block_x,
                      intptr_t block_y, intptr_t block_z, int32_t shared_bytes, void *stream, void **params,
                      void **extra, size_t param_count);
void *mgpuStreamCreate(void);
void mgpuStreamDestroy(void *stream);
void mgpuStreamSynchronize(void *stream);

/* The name of the thread's device, "cuda:0 (NVIDIA H100, sm_90)". It is chosen now if it was not before. */
static void device_name(void **slots) {
    *(const char **)slots[0] = gb_device_current()->name;
}

static void memory_allocate(void **slots) {
    *(void **)slots[0] = mgpuMemAlloc(*(uint64_t *)slots[1], *(void **)slots[2], 0);
}

static void memory_free(void **slots) {
    mgpuMemFree(*(void **)slots[1], *(void **)slots[2]);
}

static void memory_copy(void **slots) {
    mgpuMemcpy(*(void **)slots[1], *(void **)slots[2], *(size_t *)slots[3], *(void **)slots[4]);
}

/* Arrays of a launch on a device that uses them in place: pairs of an address and a size. */
static void memory_register(void **slots) {
    const uint64_t *pairs = slots[1];
    for (size_t i = 0; i < *(size_t *)slots[2]; ++i) {
        mgpuMemHostRegister((void *)(uintptr_t)pairs[2 * i], pairs[2 * i + 1]); // NOLINT(performance-no-int-to-ptr)
    }
}

static void memory_unregister(void **slots) {
    const uint64_t *pairs = slots[1];
    for (size_t i = 0; i < *(size_t *)slots[2]; ++i) {
        mgpuMemHostUnregister((void *)(uintptr_t)pairs[2 * i]); // NOLINT(performance-no-int-to-ptr)
    }
}

static void stream_create(void **slots) {
    *(void **)slots[0] = mgpuStreamCreate();
}

static void stream_destroy(void **slots) {
    mgpuStreamDestroy(*(void **)slots[1]);
}

static void stream_synchronize(void **slots) {
    mgpuStreamSynchronize(*(void **)slots[1]);
}

/* The images stay registered until the process ends. */
static void module_load(void **slots) {
    *(void **)slots[0] = mgpuModuleLoad(slots[1], *(size_t *)slots[2]);
}

static void launch(void **slots) {
    const int64_t *sizes = slots[3]; /* of grid and workgroup */
    void *kernel = mgpuModuleGetFunction(*(void **)slots[1], *(const char **)slots[2]);
    mgpuLaunchKernel(kernel, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], *(int32_t *)slots[4],
                     *(void **)slots[5], slots[6], NULL, *(size_t *)slots[7]);
}

typedef void function(void **);

const struct {
    const char *(*call)(function *, void **);
    function *device_name, *memory_allocate, *memory_free, *memory_copy;
    function *stream_create, *stream_destroy, *stream_synchronize;
    function *module_load, *launch, *memory_register, *memory_unregister;
} gpubuildCalls = {gb_try,         device_name,        memory_allocate, memory_free,     memory_copy,
                   stream_create,  stream_destroy,     stream_synchronize, module_load,  launch,
                   memory_register, memory_unregister};
