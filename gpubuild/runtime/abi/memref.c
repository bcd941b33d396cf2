/* memref.c: copies and fills of memrefs with gaps between their elements, and host memory.
 *
 * MLIR's memref lowering calls memrefCopy and the allocation functions. gpubuild's host code calls gpubuildMemcpy and
 * gpubuildMemset, where the mgpu* ABI has no call: elements of any size, and gaps. Extents are read before a call returns.
 */
#define _POSIX_C_SOURCE 200809L
#include "abi/memref.h"

#include "core/module.h"

#include <stdlib.h>
#include <string.h>

/* One copy (`from` is not NULL) or fill. Strides are in elements. */
struct task {
    struct gb_device *device; /* NULL: host memory */
    const struct gb_where *where;
    void *stream;
    const int64_t *sizes;
    const int64_t *to_strides;
    const int64_t *from_strides;
    const void *element;
    size_t element_bytes;
    size_t run; /* elements without gaps, which become one operation */
};

/* Join the innermost dimensions as far as there are no gaps between them; returns how many dimensions remain. */
static int64_t join_dimensions(struct task *task, int64_t rank) {
    while (rank > 0) {
        int64_t size = task->sizes[rank - 1];
        int64_t run = (int64_t)task->run;
        if (size != 1 && (task->to_strides[rank - 1] != run || task->from_strides[rank - 1] != run)) {
            break;
        }
        task->run *= (size_t)size;
        rank--;
    }
    return rank;
}

static void do_dimensions(const struct task *task, int64_t dimension, int64_t rank, char *to, char *from) {
    if (dimension == rank) {
        struct gb_device *device = task->device;
        size_t bytes = task->run * task->element_bytes;
        if (device == NULL) {
            memcpy(to, from, bytes);
        } else if (from != NULL) {
            device->calls->memory_copy(device, to, from, bytes, task->stream, task->where);
        } else {
            device->calls->memory_fill(device, to, task->element, task->element_bytes, task->run, task->stream, task->where);
        }
        return;
    }
    int64_t bytes = (int64_t)task->element_bytes;
    for (int64_t i = 0; i < task->sizes[dimension]; i++) {
        do_dimensions(task, dimension + 1, rank, to + i * task->to_strides[dimension] * bytes,
                      from != NULL ? from + i * task->from_strides[dimension] * bytes : NULL);
    }
}

static void do_task(struct task *task, int64_t rank, char *to, char *from) {
    for (int64_t i = 0; i < rank; i++) {
        if (task->sizes[i] <= 0) {
            return;
        }
    }
    if (to == NULL) {
        gb_fatal(task->where, "the address is NULL");
    }
    task->run = 1;
    do_dimensions(task, 0, join_dimensions(task, rank), to, from);
}

/* `extents`: rank sizes, rank strides of `to`, rank strides of `from`. */
void gpubuildMemcpy(char *to, char *from, const int64_t *extents, int64_t rank, int64_t element_bytes, void *stream) {
    struct gb_device *device = gb_device_current();
    const struct gb_where where = {.device = device->name, .call = "gpubuildMemcpy"};
    gb_trace("copy a memref of rank %lld from %p to %p stream %p", (long long)rank, (void *)from, (void *)to, stream);
    struct task task = {.device = device, .where = &where, .stream = stream, .sizes = extents,
                        .to_strides = extents + rank, .from_strides = extents + 2 * rank,
                        .element_bytes = (size_t)element_bytes};
    do_task(&task, rank, to, from);
}

/* `extents`: rank sizes, rank strides of `to`. */
void gpubuildMemset(char *to, const void *element, const int64_t *extents, int64_t rank, int64_t element_bytes,
                    void *stream) {
    struct gb_device *device = gb_device_current();
    const struct gb_where where = {.device = device->name, .call = "gpubuildMemset"};
    gb_trace("set a memref of rank %lld, %lld bytes an element, at %p stream %p", (long long)rank,
             (long long)element_bytes, (void *)to, stream);
    struct task task = {.device = device, .where = &where, .stream = stream, .sizes = extents,
                        .to_strides = extents + rank, .from_strides = extents + rank, .element = element,
                        .element_bytes = (size_t)element_bytes};
    do_task(&task, rank, to, NULL);
}

/* memref.copy on the host, between layouts that are not both contiguous. The memrefs have one shape and do not overlap. */
GB_WEAK void memrefCopy(int64_t element_bytes, const struct gb_unranked_memref *source,
                        const struct gb_unranked_memref *target) {
    const struct gb_memref *from = source->memref;
    const struct gb_memref *to = target->memref;
    const struct gb_where where = {.call = "memrefCopy"};
    struct task task = {.where = &where, .sizes = gb_sizes(from), .to_strides = gb_strides(to, target->rank),
                        .from_strides = gb_strides(from, source->rank), .element_bytes = (size_t)element_bytes};
    do_task(&task, source->rank, to->aligned + to->offset * element_bytes, from->aligned + from->offset * element_bytes);
}

/* finalize-memref-to-llvm with use-generic-functions calls these in place of malloc, aligned_alloc and free. */
GB_WEAK void *_mlir_memref_to_llvm_alloc(uint64_t bytes) {
    return malloc((size_t)bytes);
}

GB_WEAK void *_mlir_memref_to_llvm_aligned_alloc(uint64_t alignment, uint64_t bytes) {
    void *address = NULL;
    size_t least = sizeof(void *); /* of posix_memalign */
    return posix_memalign(&address, alignment < least ? least : (size_t)alignment, (size_t)bytes) == 0 ? address : NULL;
}

GB_WEAK void _mlir_memref_to_llvm_free(void *address) {
    free(address);
}

GB_WEAK void *mlirAlloc(uint64_t bytes) {
    return _mlir_memref_to_llvm_alloc(bytes);
}

GB_WEAK void *mlirAlignedAlloc(uint64_t alignment, uint64_t bytes) {
    return _mlir_memref_to_llvm_aligned_alloc(alignment, bytes);
}

GB_WEAK void mlirFree(void *address) {
    free(address);
}

GB_WEAK void mlirAlignedFree(void *address) {
    free(address);
}
