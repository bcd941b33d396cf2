/* constants.c: constants of host code, such as weights, which are copied to a device at their first use, unless its
 * kernels can read them where they are. */
#define _POSIX_C_SOURCE 200809L
#include "core/module.h"
#include "cpu/cpu_device.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

/* A constant on one device. Host code has the list of each constant. */
struct gb_constant {
    struct gb_device *device;
    void *address;
    struct gb_constant *next;
    struct gb_constant *next_of_all;
};

static struct gb_constant *all; /* of this library */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_CONSTANTS, &lock);
}

/* The address of the constant on the calling thread's device. Returns when the data is there. */
void *gpubuildConstant(struct gb_constant **copies, void *host, int64_t bytes) {
    struct gb_device *device = gb_device_current();
    const struct gb_where where = {.device = device->name, .call = "gpubuildConstant"};
    if (device->calls->uses_host_memory && !gb_has_checked_image(device)) {
        gb_cpu_note_host_memory(host, (size_t)bytes);
        return host;
    }
    pthread_mutex_lock(&lock);
    struct gb_constant *copy = *copies;
    while (copy != NULL && copy->device != device) {
        copy = copy->next;
    }
    if (copy == NULL) {
        copy = gb_allocate(sizeof *copy);
        void *address = device->calls->memory_allocate(device, bytes > 0 ? (size_t)bytes : 1, NULL, false, &where);
        *copy = (struct gb_constant){.device = device, .address = address, .next = *copies, .next_of_all = all};
        all = copy;
        if (bytes > 0) {
            gb_trace("copy a constant of %lld bytes from %p to %p", (long long)bytes, host, address);
            device->calls->memory_copy(device, address, host, (size_t)bytes, NULL, &where);
            device->calls->stream_synchronize(device, NULL, &where);
        }
        *copies = copy;
    }
    void *address = copy->address;
    pthread_mutex_unlock(&lock);
    return address;
}

/* Behind the destructors of host code, which unload modules (priority 123): no kernel uses a constant then. */
__attribute__((destructor(110))) static void free_constants(void) {
    while (all != NULL) {
        struct gb_constant *copy = all;
        const struct gb_where where = {.device = copy->device->name, .call = "gpubuildConstant"};
        gb_trace("free a constant at %p", copy->address);
        copy->device->calls->memory_free(copy->device, copy->address, NULL, &where);
        all = copy->next_of_all;
        free(copy);
    }
}
