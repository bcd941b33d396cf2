/* cpu/cpu_recycle.c: blocks of three sizes, in lists of those that nobody uses.
 *
 * A list grows to what a program has under way at once, and no further than MAX_KEPT: after a burst of a million
 * launches their memory goes back to the system. */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu_recycle.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES = 3 };

#if defined(__SANITIZE_ADDRESS__)
enum { MAX_KEPT = 0 }; /* let it see who uses what is gone */
#else
enum { MAX_KEPT = 2048 };
#endif

struct block {
    struct block *next;
};

static struct {
    size_t bytes;
    struct block *first;
    unsigned count;
} kept[SIZES] = {{.bytes = 256}, {.bytes = 1024}, {.bytes = 8192}}; /* GPUs take 4 KiB of parameters */

/* SIZES when it is larger than all: such blocks are not kept. */
static unsigned size_of(size_t bytes) {
    unsigned size = 0;
    while (size < SIZES && kept[size].bytes < bytes) {
        size++;
    }
    return size;
}

void *gb_recycle_take(size_t bytes) {
    unsigned size = size_of(bytes);
    void *block = NULL;
    if (size < SIZES && kept[size].first != NULL) {
        block = kept[size].first;
        kept[size].first = kept[size].first->next;
        kept[size].count--;
    } else if (posix_memalign(&block, GB_RECYCLE_ALIGNMENT, size < SIZES ? kept[size].bytes : bytes) != 0) {
        gb_fatal(NULL, "out of host memory: %zu bytes for a stream, an event or a piece of work", bytes);
    }
    return memset(block, 0, bytes);
}

void gb_recycle_give(void *memory, size_t bytes) {
    unsigned size = size_of(bytes);
    if (size == SIZES || kept[size].count + 1 > MAX_KEPT) {
        free(memory);
        return;
    }
    struct block *block = memory;
    block->next = kept[size].first;
    kept[size].first = block;
    kept[size].count++;
}
