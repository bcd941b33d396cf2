/* device_cpu.c: the processor as a device.
 *
 * Every operation is complete when its call returns. That is a valid order for any program of streams
 * and events: a stream's operations run in the order of their submission, and an event that has been
 * recorded has happened. So streams and events carry no state; they are distinct addresses.
 */
#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include "cpu_image.h"
#include "device.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 }; /* what cuMemAlloc promises */

static const struct gb_device_calls calls;

static struct gb_fit cpu_fit(struct gb_device *device, const struct gb_image *image) {
    (void)device;
    return gb_fit_cpu(image);
}

static void *cpu_module_load(struct gb_device *device, const struct gb_image *image, int opt_level,
                             const struct gb_where *where) {
    (void)device;
    (void)opt_level;
    return gb_cpu_module_load(image->data, image->size, where->module);
}

static void cpu_module_unload(struct gb_device *device, void *module, const struct gb_where *where) {
    (void)device;
    (void)where;
    gb_cpu_module_unload(module);
}

static void *cpu_kernel(struct gb_device *device, void *module, const char *name, const struct gb_where *where) {
    (void)device;
    const gb_cpu_kernel *kernel = gb_cpu_module_kernel(module, name);
    if (kernel == NULL) {
        gb_fatal(where, "the module has no kernel of this name");
    }
    return (void *)kernel; /* handles are opaque to the rest; nothing writes through it */
}

static void cpu_launch(struct gb_device *device, void *kernel, void *stream, const struct gb_launch *launch,
                       const struct gb_where *where) {
    (void)device;
    (void)stream;
    if (launch->extra != NULL) {
        gb_fatal(where, "the launch passes its parameters in `extra`, which only GPU drivers take; pass them in `params`");
    }
    gb_cpu_launch(kernel, launch->cluster, launch->grid, launch->block, launch->shared_bytes, launch->params,
                  launch->param_count);
}

static void *cpu_handle(struct gb_device *device, const struct gb_where *where) {
    (void)device;
    (void)where;
    return gb_allocate(1);
}

static void cpu_handle_free(struct gb_device *device, void *handle, const struct gb_where *where) {
    (void)device;
    (void)where;
    free(handle);
}

static void cpu_nothing_to_wait_for(struct gb_device *device, void *handle, const struct gb_where *where) {
    (void)device;
    (void)handle;
    (void)where;
}

static void cpu_already_in_order(struct gb_device *device, void *first, void *second, const struct gb_where *where) {
    (void)device;
    (void)first;
    (void)second;
    (void)where;
}

static void *cpu_memory_allocate(struct gb_device *device, size_t bytes, void *stream, bool shared,
                                 const struct gb_where *where) {
    (void)device;
    (void)stream;
    (void)shared; /* all memory is */
    void *address = NULL;
    if (posix_memalign(&address, ALIGNMENT, bytes) != 0) {
        gb_fatal(where, "out of memory: %zu bytes asked for", bytes);
    }
    return address;
}

static void cpu_memory_free(struct gb_device *device, void *address, void *stream, const struct gb_where *where) {
    (void)device;
    (void)stream;
    (void)where;
    free(address);
}

static void cpu_memory_copy(struct gb_device *device, void *to, void *from, size_t bytes, void *stream,
                            const struct gb_where *where) {
    (void)device;
    (void)stream;
    (void)where;
    memmove(to, from, bytes); /* like the drivers', defined for overlapping ranges of one buffer */
}

/* Elements may lie at any address: a subview of packed data need not be aligned. */
static void cpu_memory_set_32(struct gb_device *device, void *to, uint32_t value, size_t count, void *stream,
                              const struct gb_where *where) {
    (void)device;
    (void)stream;
    (void)where;
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)to + i * sizeof value, &value, sizeof value);
    }
}

static void cpu_memory_set_16(struct gb_device *device, void *to, uint16_t value, size_t count, void *stream,
                              const struct gb_where *where) {
    (void)device;
    (void)stream;
    (void)where;
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)to + i * sizeof value, &value, sizeof value);
    }
}

static void cpu_host_register(struct gb_device *device, void *address, size_t bytes, const struct gb_where *where) {
    (void)device;
    (void)address;
    (void)bytes;
    (void)where;
}

static const struct gb_device_calls calls = {
    .fit = cpu_fit,
    .module_load = cpu_module_load,
    .module_unload = cpu_module_unload,
    .kernel = cpu_kernel,
    .launch = cpu_launch,
    .stream_create = cpu_handle,
    .stream_destroy = cpu_handle_free,
    .stream_synchronize = cpu_nothing_to_wait_for,
    .stream_wait_event = cpu_already_in_order,
    .event_create = cpu_handle,
    .event_destroy = cpu_handle_free,
    .event_synchronize = cpu_nothing_to_wait_for,
    .event_record = cpu_already_in_order,
    .memory_allocate = cpu_memory_allocate,
    .memory_free = cpu_memory_free,
    .memory_copy = cpu_memory_copy,
    .memory_set_32 = cpu_memory_set_32,
    .memory_set_16 = cpu_memory_set_16,
    .host_register = cpu_host_register,
    .host_unregister = cpu_nothing_to_wait_for,
    .tensor_map_encode = NULL,
};

struct gb_device *gb_cpu_open(int ordinal, char **why) {
    static char name[] = "cpu";
    static struct gb_device device = {.vendor = GB_VENDOR_CPU, .ordinal = 0, .name = name, .calls = &calls};
    if (ordinal != 0) {
        *why = gb_text("there is no cpu:%d; the processor is one device", ordinal);
        return NULL;
    }
    return &device;
}
