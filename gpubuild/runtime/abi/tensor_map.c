/* abi/tensor_map.c: tensor maps (TMA descriptors) for nvgpu.tma.create.descriptor. */
#include "abi/memref.h"
#include "core/module.h"

#include <string.h>

void mgpuTensorMapEncodeTiled(void *map, int32_t data_type, uint32_t rank, void *address, const uint64_t *dims,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                              int32_t interleave, int32_t swizzle, int32_t l2_promotion, int32_t out_of_bounds);
void *mgpuTensorMapEncodeTiledMemref(int64_t rank, const struct gb_memref *memref, int64_t data_type,
                                     int64_t interleave, int64_t swizzle, int64_t l2_promotion, int64_t out_of_bounds,
                                     const int64_t *box);

enum { MAX_RANK = 5 };

/* Bytes of an element, by CUtensorMapDataType: u8, u16, u32, i32, u64, i64, f16, f32, f64, bf16, f32 flushed,
 * tf32, tf32 flushed. */
static const unsigned char element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

static void encode(void *map, const struct gb_tensor_map *description, const char *call) {
    struct gb_device *device = gb_device_current();
    const struct gb_where where = {.device = device->name, .call = call};
    if (device->calls->tensor_map_encode == NULL) {
        gb_fatal(&where, "tensor maps (nvgpu.tma) exist on NVIDIA devices of sm_90 and newer only\n"
                         "  what to do: guard the kernel by target, or run on such a device");
    }
    device->calls->tensor_map_encode(device, map, description, &where);
}

void mgpuTensorMapEncodeTiled(void *map, int32_t data_type, uint32_t rank, void *address, const uint64_t *dims,
                              const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                              int32_t interleave, int32_t swizzle, int32_t l2_promotion, int32_t out_of_bounds) {
    const struct gb_tensor_map description = {
        .data_type = (uint32_t)data_type,
        .rank = rank,
        .address = address,
        .dims = dims,
        .strides = strides,
        .box = box,
        .element_strides = element_strides,
        .interleave = (uint32_t)interleave,
        .swizzle = (uint32_t)swizzle,
        .l2_promotion = (uint32_t)l2_promotion,
        .out_of_bounds = (uint32_t)out_of_bounds,
    };
    encode(map, &description, "mgpuTensorMapEncodeTiled");
}

/* Returns the map's address in device memory. It lives as long as the process: nothing in the ABI frees it.
 * The driver counts dimensions from the innermost, a memref from the outermost. */
void *mgpuTensorMapEncodeTiledMemref(int64_t rank, const struct gb_memref *memref, int64_t data_type,
                                     int64_t interleave, int64_t swizzle, int64_t l2_promotion, int64_t out_of_bounds,
                                     const int64_t *box) {
    static const char call[] = "mgpuTensorMapEncodeTiledMemref";
    struct gb_device *device = gb_device_current();
    const struct gb_where where = {.device = device->name, .call = call};
    if (rank < 1 || rank > MAX_RANK) {
        gb_fatal(&where, "a tensor map of rank %lld: allowed are 1 to %d", (long long)rank, MAX_RANK);
    }
    /* MLIR passes these as i64 but upstream declares them as 32-bit enumerations: only the low halves count. */
    uint32_t type = (uint32_t)((uint64_t)data_type & UINT32_MAX);
    if (type >= sizeof element_bytes) {
        gb_fatal(&where, "a tensor map of element type %u: allowed are 0 to %zu (CUtensorMapDataType)", type,
                 sizeof element_bytes - 1);
    }
    uint64_t dims[MAX_RANK] = {0};
    uint64_t strides[MAX_RANK] = {0};
    uint32_t boxes[MAX_RANK] = {0};
    uint32_t element_strides[MAX_RANK] = {0};
    for (int64_t i = 0; i < rank; i++) {
        int64_t outer = rank - 1 - i;
        dims[i] = (uint64_t)gb_sizes(memref)[outer];
        boxes[i] = (uint32_t)box[outer];
        element_strides[i] = 1;
        if (i > 0) {
            strides[i - 1] = (uint64_t)gb_strides(memref, rank)[outer] * element_bytes[type];
        }
    }
    const struct gb_tensor_map description = {
        .data_type = type,
        .rank = (uint32_t)rank,
        .address = memref->aligned + memref->offset * element_bytes[type],
        .dims = dims,
        .strides = strides,
        .box = boxes,
        .element_strides = element_strides,
        .interleave = (uint32_t)interleave,
        .swizzle = (uint32_t)swizzle,
        .l2_promotion = (uint32_t)l2_promotion,
        .out_of_bounds = (uint32_t)out_of_bounds,
    };
    _Alignas(GB_TENSOR_MAP_ALIGNMENT) unsigned char map[GB_TENSOR_MAP_BYTES] = {0};
    encode(map, &description, call);
    void *address = device->calls->memory_allocate(device, sizeof map, NULL, false, &where);
    device->calls->memory_copy(device, address, map, sizeof map, NULL, &where);
    device->calls->stream_synchronize(device, NULL, &where); /* `map` ends with this call, and any stream may use the copy */
    gb_trace("tensor map at %p for %p, rank %lld", address, (void *)memref->aligned, (long long)rank);
    return address;
}
