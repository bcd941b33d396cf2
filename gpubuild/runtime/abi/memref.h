/* memref.h: MLIR's memref descriptors in C.
 *
 * A ranked descriptor is {allocated, aligned, offset, sizes[rank], strides[rank]}, in 8-byte words; an
 * unranked one is a rank and a pointer to a ranked one. Element (i, j, …) lies at aligned[offset + Σ index · stride].
 */
#ifndef GPUBUILD_RT_MEMREF_H
#define GPUBUILD_RT_MEMREF_H

#include <stdint.h>

struct gb_memref {
    char *allocated;
    char *aligned;
    int64_t offset;    /* elements */
    int64_t extents[]; /* rank sizes, then rank strides, both in elements */
};

struct gb_unranked_memref {
    int64_t rank;
    struct gb_memref *memref;
};

static inline const int64_t *gb_sizes(const struct gb_memref *memref) {
    return memref->extents;
}

static inline const int64_t *gb_strides(const struct gb_memref *memref, int64_t rank) {
    return memref->extents + rank;
}

#endif
