/* cpu/cpu_memory.c: the allocations of the CPU device that are not freed yet: a balanced tree of the C library's,
 * ordered by address. */
#define _GNU_SOURCE /* tsearch and its kin */
#include "cpu/cpu_memory.h"

#include "core/fork.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>

struct span {
    uintptr_t first;
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *spans; /* no two have a byte in common */

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_MEMORY, &lock);
}

/* Spans that overlap are equal, so that one byte finds the span it is in. */
static int order(const void *left, const void *right) {
    const struct span *a = left;
    const struct span *b = right;
    return a->first + a->bytes <= b->first ? -1 : b->first + b->bytes <= a->first ? 1 : 0;
}

/* The lock is held. */
static struct span *containing(const void *address) {
    const struct span byte = {.first = (uintptr_t)address, .bytes = 1};
    struct span **found = tfind(&byte, &spans, order);
    return found != NULL ? *found : NULL;
}

void gb_cpu_memory_add(void *address, size_t bytes) {
    struct span *made = gb_allocate(sizeof *made);
    *made = (struct span){.first = (uintptr_t)address, .bytes = bytes};
    pthread_mutex_lock(&lock);
    /* What was there before was given back to the C library behind our back, by memref.dealloc say. */
    for (struct span **gone; (gone = tfind(made, &spans, order)) != NULL;) {
        struct span *old = *gone;
        tdelete(old, &spans, order);
        free(old);
    }
    struct span **kept = tsearch(made, &spans, order);
    pthread_mutex_unlock(&lock);
    if (kept == NULL) {
        gb_fatal(NULL, "out of host memory");
    }
}

void gb_cpu_memory_remove(void *address, const struct gb_where *where) {
    pthread_mutex_lock(&lock);
    struct span *found = containing(address);
    const struct span at = found != NULL ? *found : (struct span){0};
    if (at.first == (uintptr_t)address && found != NULL) {
        tdelete(found, &spans, order);
        free(found);
    }
    pthread_mutex_unlock(&lock);
    if (found == NULL) {
        gb_fatal(where, "%p is freed, and no memory that the program has allocated and not freed begins there: it is freed "
                        "twice, or was not allocated by gpu.alloc", address);
    }
    if (at.first != (uintptr_t)address) {
        gb_fatal(where, "%p is freed, which lies %zu bytes inside an allocation of %zu: free what was allocated", address,
                 (size_t)((uintptr_t)address - at.first), at.bytes);
    }
}

void gb_cpu_memory_check(const void *address, size_t bytes, const char *doing, const struct gb_where *where) {
    pthread_mutex_lock(&lock);
    const struct span *found = containing(address);
    const struct span at = found != NULL ? *found : (struct span){0};
    pthread_mutex_unlock(&lock);
    size_t before = (uintptr_t)address - at.first;
    if (found != NULL && bytes > at.bytes - before) {
        gb_fatal(where, "%s %zu bytes at %p, where the allocation of %zu bytes has %zu left", doing, bytes, address, at.bytes,
                 at.bytes - before);
    }
}
