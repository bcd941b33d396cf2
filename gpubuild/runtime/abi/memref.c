/* memref.c: functions that MLIR's memref lowering calls: copies and allocation. */
#define _POSIX_C_SOURCE 200809L
#include "abi/memref.h"

#include "core/runtime.h"

#include <stdlib.h>
#include <string.h>

GB_WEAK void memrefCopy(int64_t element_bytes, const struct gb_unranked_memref *source, const struct gb_unranked_memref *target);
GB_WEAK void *_mlir_memref_to_llvm_alloc(uint64_t bytes);
GB_WEAK void *_mlir_memref_to_llvm_aligned_alloc(uint64_t alignment, uint64_t bytes);
GB_WEAK void _mlir_memref_to_llvm_free(void *address);
GB_WEAK void *mlirAlloc(uint64_t bytes);
GB_WEAK void *mlirAlignedAlloc(uint64_t alignment, uint64_t bytes);
GB_WEAK void mlirFree(void *address);
GB_WEAK void mlirAlignedFree(void *address);

static void copy(int64_t rank, const int64_t *sizes, char *to, const int64_t *to_strides, const char *from,
                 const int64_t *from_strides, int64_t element_bytes) {
    if (rank == 0) {
        memcpy(to, from, (size_t)element_bytes);
        return;
    }
    if (rank == 1 && to_strides[0] == 1 && from_strides[0] == 1) {
        if (sizes[0] > 0) {
            memcpy(to, from, (size_t)(sizes[0] * element_bytes));
        }
        return;
    }
    for (int64_t i = 0; i < sizes[0]; i++) {
        copy(rank - 1, sizes + 1, to + i * to_strides[0] * element_bytes, to_strides + 1,
             from + i * from_strides[0] * element_bytes, from_strides + 1, element_bytes);
    }
}

/* memref.copy between layouts that are not both contiguous. The memrefs have one shape and do not overlap. */
void memrefCopy(int64_t element_bytes, const struct gb_unranked_memref *source, const struct gb_unranked_memref *target) {
    const struct gb_memref *from = source->memref;
    const struct gb_memref *to = target->memref;
    for (int64_t i = 0; i < source->rank; i++) {
        if (gb_sizes(from)[i] == 0) {
            return; /* without elements the addresses may be anything, NULL too */
        }
    }
    copy(source->rank, gb_sizes(from), to->aligned + to->offset * element_bytes, gb_strides(to, target->rank),
         from->aligned + from->offset * element_bytes, gb_strides(from, source->rank), element_bytes);
}

/* finalize-memref-to-llvm with use-generic-functions calls these in place of malloc, aligned_alloc and free. */
void *_mlir_memref_to_llvm_alloc(uint64_t bytes) {
    return malloc((size_t)bytes);
}

void *_mlir_memref_to_llvm_aligned_alloc(uint64_t alignment, uint64_t bytes) {
    void *address = NULL;
    size_t least = sizeof(void *); /* what posix_memalign takes */
    return posix_memalign(&address, alignment < least ? least : (size_t)alignment, (size_t)bytes) == 0 ? address : NULL;
}

void _mlir_memref_to_llvm_free(void *address) {
    free(address);
}

void *mlirAlloc(uint64_t bytes) {
    return _mlir_memref_to_llvm_alloc(bytes);
}

void *mlirAlignedAlloc(uint64_t alignment, uint64_t bytes) {
    return _mlir_memref_to_llvm_aligned_alloc(alignment, bytes);
}

void mlirFree(void *address) {
    free(address);
}

void mlirAlignedFree(void *address) {
    free(address);
}
