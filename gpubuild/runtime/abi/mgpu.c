/* mgpu.c: the mgpu* ABI of LLVM 22, which MLIR's gpu-to-llvm and gpu.binary lower to.
 *
 * Names and parameters are those of mlir/lib/ExecutionEngine/CudaRuntimeWrappers.cpp. The difference:
 * upstream prints failures and goes on; here a failure ends the program.
 *
 * LLVM IR made by MLIR passes 8- and 16-bit arguments without zeroext, so the upper bits of their registers
 * may have any value. Such parameters are declared 32 bits wide here and masked: otherwise a C compiler may assume that
 * the caller has extended them.
 */
#include "abi/memref.h"
#include "core/module.h"
#include "cpu/cpu_device.h"

#include <stdlib.h>
#include <string.h>

/* For messages of a function of the ABI that uses `device`. */
#define HERE (&(const struct gb_where){.device = device->name, .call = __func__})

/* ---- Modules ---- */

void *mgpuModuleLoad(const void *data, size_t size) {
    return gb_module_register(data, size, -1, __func__);
}

/* `data` is PTX closed by a NUL: gpu.binary embeds objects of format `assembly` so. */
void *mgpuModuleLoadJIT(const void *data, int32_t opt_level) {
    if (opt_level < 0 || opt_level > 4) {
        const struct gb_where where = {.call = __func__};
        gb_fatal(&where, "optimisation level %d: allowed are 0 to 4", opt_level);
    }
    return gb_module_register(data, data != NULL ? strlen(data) : 0, opt_level, __func__);
}

void mgpuModuleUnload(void *module) {
    gb_module_unregister(module);
}

void *mgpuModuleGetFunction(void *module, const char *name) {
    if (module == NULL || name == NULL) {
        const struct gb_where where = {.kernel = name, .call = __func__};
        gb_fatal(&where, module == NULL ? "the module is NULL (used before it was loaded?)" : "no kernel name");
    }
    return gb_module_kernel(module, name);
}

/* ---- Launches ---- */

/* The known facts about a launch, for messages; the kernel may be NULL. */
static struct gb_where where_of(struct gb_kernel *kernel, const char *call) {
    return kernel != NULL ? gb_kernel_where(kernel, call) : (struct gb_where){.call = call};
}

/* Check an extent. Zero is allowed and makes the launch empty. */
static uint32_t extent(intptr_t value, const char *what, void *kernel, const char *call) {
    if (value < 0 || (uintmax_t)value > UINT32_MAX) {
        const struct gb_where where = where_of(kernel, call);
        gb_fatal(&where, "a launch with a %s of %lld: it must be from 0 to %u", what, (long long)value, UINT32_MAX);
    }
    return (uint32_t)value;
}

static struct gb_dim3 extents(intptr_t x, intptr_t y, intptr_t z, const char *what, void *kernel, const char *call) {
    return (struct gb_dim3){extent(x, what, kernel, call), extent(y, what, kernel, call),
                            extent(z, what, kernel, call)};
}

static bool is_empty(struct gb_dim3 dim) {
    return dim.x == 0 || dim.y == 0 || dim.z == 0;
}

static void launch_checked(void *kernel, void *stream, struct gb_launch *launch, int32_t shared_bytes,
                           const char *call) {
    if (kernel == NULL || shared_bytes < 0 || is_empty(launch->cluster)) {
        const struct gb_where where = where_of(kernel, call);
        if (kernel == NULL) {
            gb_fatal(&where, "the kernel is NULL");
        }
        if (shared_bytes < 0) {
            gb_fatal(&where, "a launch with %d bytes of dynamic workgroup memory", shared_bytes);
        }
        gb_fatal(&where, "a launch with a cluster of %ux%ux%u workgroups", launch->cluster.x, launch->cluster.y,
                 launch->cluster.z);
    }
    launch->shared_bytes = (uint32_t)shared_bytes;
    if (is_empty(launch->grid) || is_empty(launch->block)) {
        /* A loop without iterations does nothing on every device, though drivers report an error. */
        gb_trace("launch skipped: grid %ux%ux%u block %ux%ux%u is empty", launch->grid.x, launch->grid.y,
                 launch->grid.z, launch->block.x, launch->block.y, launch->block.z);
        return;
    }
    gb_kernel_launch(kernel, stream, launch, call);
}

void mgpuLaunchKernel(void *kernel, intptr_t grid_x, intptr_t grid_y, intptr_t grid_z, intptr_t block_x,
                      intptr_t block_y, intptr_t block_z, int32_t shared_bytes, void *stream, void **params,
                      void **extra, size_t param_count) {
    struct gb_launch launch = {
        .cluster = {1, 1, 1},
        .grid = extents(grid_x, grid_y, grid_z, "grid extent", kernel, __func__),
        .block = extents(block_x, block_y, block_z, "workgroup extent", kernel, __func__),
        .params = params,
        .param_count = param_count,
        .extra = extra,
    };
    launch_checked(kernel, stream, &launch, shared_bytes, __func__);
}

void mgpuLaunchClusterKernel(void *kernel, intptr_t cluster_x, intptr_t cluster_y, intptr_t cluster_z,
                             intptr_t grid_x, intptr_t grid_y, intptr_t grid_z, intptr_t block_x, intptr_t block_y,
                             intptr_t block_z, int32_t shared_bytes, void *stream, void **params, void **extra) {
    struct gb_launch launch = {
        .cluster = extents(cluster_x, cluster_y, cluster_z, "cluster extent", kernel, __func__),
        .grid = extents(grid_x, grid_y, grid_z, "grid extent", kernel, __func__),
        .block = extents(block_x, block_y, block_z, "workgroup extent", kernel, __func__),
        .params = params,
        .extra = extra,
    };
    launch_checked(kernel, stream, &launch, shared_bytes, __func__);
}

/* ---- Streams and events ---- */

/* A function of the ABI that is one call for the current device, with the arguments of its trace. */
#define DEVICE_CALL(function, parameters, call, message, ...)                                                          \
    void function parameters {                                                                                         \
        struct gb_device *device = gb_device_current();                                                                \
        gb_trace(message, __VA_ARGS__);                                                                                \
        device->calls->call;                                                                                           \
    }

void *mgpuStreamCreate(void) {
    struct gb_device *device = gb_device_current();
    void *stream = device->calls->stream_create(device, HERE);
    gb_trace("stream %p created", stream);
    return stream;
}

DEVICE_CALL(mgpuStreamDestroy, (void *stream), stream_destroy(device, stream, HERE), "stream %p destroyed", stream)
DEVICE_CALL(mgpuStreamSynchronize, (void *stream), stream_synchronize(device, stream, HERE), "wait for stream %p", stream)
DEVICE_CALL(mgpuStreamWaitEvent, (void *stream, void *event), stream_wait_event(device, stream, event, HERE),
            "stream %p waits for event %p", stream, event)
/* Release a stream for which the host does not wait; its work is still done. */
DEVICE_CALL(gpubuildStreamRelease, (void *stream), stream_destroy(device, stream, HERE), "stream %p released", stream)

void *mgpuEventCreate(void) {
    struct gb_device *device = gb_device_current();
    void *event = device->calls->event_create(device, HERE);
    gb_trace("event %p created", event);
    return event;
}

DEVICE_CALL(mgpuEventDestroy, (void *event), event_destroy(device, event, HERE), "event %p destroyed", event)
DEVICE_CALL(mgpuEventSynchronize, (void *event), event_synchronize(device, event, HERE), "wait for event %p", event)
DEVICE_CALL(mgpuEventRecord, (void *event, void *stream), event_record(device, event, stream, HERE),
            "event %p recorded on stream %p", event, stream)

/* Later work of `stream` starts after all work that `awaited` has now. */
void gpubuildStreamJoin(void *stream, void *awaited) {
    struct gb_device *device = gb_device_current();
    gb_trace("stream %p waits for stream %p", stream, awaited);
    void *event = device->calls->event_create(device, HERE);
    device->calls->event_record(device, event, awaited, HERE);
    device->calls->stream_wait_event(device, stream, event, HERE);
    device->calls->event_destroy(device, event, HERE);
}

/* ---- Memory ---- */

/* Returns NULL for 0 bytes, as upstream does. */
void *mgpuMemAlloc(uint64_t bytes, void *stream, uint32_t shared) {
    struct gb_device *device = gb_device_current();
    if (bytes == 0) {
        return NULL;
    }
    bool is_shared = (shared & 0xffu) != 0;
    void *address = device->calls->memory_allocate(device, (size_t)bytes, stream, is_shared, HERE);
    gb_trace("allocate %llu bytes%s at %p", (unsigned long long)bytes, is_shared ? ", shared with the host" : "", address);
    return address;
}

void mgpuMemFree(void *address, void *stream) {
    if (address == NULL) {
        return;
    }
    struct gb_device *device = gb_device_current();
    gb_trace("free %p", address);
    device->calls->memory_free(device, address, stream, HERE);
}

/* Whether there is anything to copy or set. If so, a NULL address is an error of the program. */
static bool has_work(size_t count, const void *to, const void *from, const struct gb_where *where) {
    if (count > 0 && (to == NULL || from == NULL)) {
        gb_fatal(where, "the address is NULL (%zu bytes or elements)", count);
    }
    return count > 0;
}

void mgpuMemcpy(void *to, void *from, size_t bytes, void *stream) {
    struct gb_device *device = gb_device_current();
    gb_trace("copy %zu bytes from %p to %p stream %p", bytes, from, to, stream);
    if (has_work(bytes, to, from, HERE) && to != from) {
        device->calls->memory_copy(device, to, from, bytes, stream, HERE);
    }
}

/* Memory of the device for a copy of `bytes` at `host`: that memory itself if kernels can use it and it `may_share`, which
 * is 0 where arguments overlap. Checked kernels get memory of their own, whose extent is known. */
void *gpubuildMirror(void *host, uint64_t bytes, uint64_t may_share, void *stream) {
    struct gb_device *device = gb_device_current();
    if (bytes == 0 || may_share == 0 || !device->calls->uses_host_memory || gb_has_checked_image(device)) {
        return mgpuMemAlloc(bytes, stream, 0);
    }
    gb_trace("use %llu bytes of the host at %p", (unsigned long long)bytes, host);
    gb_cpu_note_host_memory(host, (size_t)bytes);
    return host;
}

void gpubuildMirrorFree(void *address, void *host, void *stream) {
    if (address != host) {
        mgpuMemFree(address, stream);
    } else if (address != NULL && gb_profile_on()) {
        struct gb_device *device = gb_device_current();
        device->calls->host_unregister(device, address, HERE);
    }
}

void mgpuMemset32(void *to, uint32_t value, size_t count, void *stream) {
    struct gb_device *device = gb_device_current();
    gb_trace("set %zu x 32 bits at %p to 0x%x stream %p", count, to, value, stream);
    if (has_work(count, to, to, HERE)) {
        device->calls->memory_fill(device, to, &value, sizeof value, count, stream, HERE);
    }
}

void mgpuMemset16(void *to, uint32_t value, size_t count, void *stream) {
    struct gb_device *device = gb_device_current();
    uint16_t value16 = (uint16_t)(value & 0xffffu);
    gb_trace("set %zu x 16 bits at %p to 0x%x stream %p", count, to, (unsigned)value16, stream);
    if (has_work(count, to, to, HERE)) {
        device->calls->memory_fill(device, to, &value16, sizeof value16, count, stream, HERE);
    }
}

void mgpuMemHostRegister(void *address, uint64_t bytes) {
    struct gb_device *device = gb_device_current();
    gb_trace("register %llu bytes of host memory at %p", (unsigned long long)bytes, address);
    if (has_work((size_t)bytes, address, address, HERE)) {
        device->calls->host_register(device, address, (size_t)bytes, HERE);
    }
}

void mgpuMemHostUnregister(void *address) {
    struct gb_device *device = gb_device_current();
    gb_trace("unregister host memory at %p", address);
    device->calls->host_unregister(device, address, HERE);
}

/* The bytes from the memref's first element to the end of its last, including gaps between them (upstream asserts that
 * there are none). Returns 0 for a memref without elements. */
static size_t span(int64_t rank, const struct gb_memref *memref, int64_t element_bytes, const char *call, char **start) {
    const struct gb_where where = {.call = call};
    if (rank < 0 || memref == NULL || element_bytes < 1) {
        gb_fatal(&where, "malformed memref: rank %lld, %lld bytes an element", (long long)rank, (long long)element_bytes);
    }
    const int64_t *sizes = gb_sizes(memref);
    const int64_t *strides = gb_strides(memref, rank);
    int64_t first = memref->offset;
    int64_t last = memref->offset;
    for (int64_t i = 0; i < rank; i++) {
        if (sizes[i] <= 0) {
            return 0;
        }
        int64_t reach = 0;
        bool overflow = __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach);
        overflow |= reach < 0 ? __builtin_add_overflow(first, reach, &first) : __builtin_add_overflow(last, reach, &last);
        if (overflow) {
            gb_fatal(&where, "malformed memref: dimension %lld has size %lld and stride %lld", (long long)i,
                     (long long)sizes[i], (long long)strides[i]);
        }
    }
    int64_t bytes = 0;
    int64_t start_bytes = 0;
    if (__builtin_mul_overflow(last - first + 1, element_bytes, &bytes) ||
        __builtin_mul_overflow(first, element_bytes, &start_bytes)) {
        gb_fatal(&where, "malformed memref: more bytes than this machine can address");
    }
    *start = memref->aligned + start_bytes;
    return (size_t)bytes;
}

void mgpuMemHostRegisterMemRef(int64_t rank, const struct gb_memref *memref, int64_t element_bytes) {
    char *start = NULL;
    size_t bytes = span(rank, memref, element_bytes, __func__, &start);
    if (bytes > 0) {
        mgpuMemHostRegister(start, bytes);
    }
}

void mgpuMemHostUnregisterMemRef(int64_t rank, const struct gb_memref *memref, int64_t element_bytes) {
    char *start = NULL;
    if (span(rank, memref, element_bytes, __func__, &start) > 0) {
        mgpuMemHostUnregister(start);
    }
}

/* ---- Device addresses of registered host memory ----
 *
 * Upstream's ROCm runtime has these two functions, whose results programs pass to kernels. On most devices the address is
 * that of the host. MLIR calls them without a C interface, so they return the descriptor by value: through memory on
 * x86-64, as in C. On AArch64 LLVM expects it in five registers, for which C has no type; there they are missing.
 */

#if defined(__x86_64__)
struct memref_1d {
    void *allocated;
    void *aligned;
    int64_t offset;
    int64_t size;
    int64_t stride;
};

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

#define ON_DEVICE(name)                                                                                                \
    GB_WEAK struct memref_1d name(void *allocated, void *aligned, int64_t offset, int64_t size, int64_t stride);       \
    struct memref_1d name(void *allocated, void *aligned, int64_t offset, int64_t size, int64_t stride) {              \
        return on_device((struct memref_1d){allocated, aligned, offset, size, stride}, #name);                         \
    }

ON_DEVICE(mgpuMemGetDeviceMemRef1dFloat)
ON_DEVICE(mgpuMemGetDeviceMemRef1dInt32)
#endif

/* ---- Tensor maps (TMA descriptors) for nvgpu.tma.create.descriptor ---- */

enum { MAX_RANK = 5 };

/* Bytes of an element, by CUtensorMapDataType: u8, u16, u32, i32, u64, i64, f16, f32, f64, bf16, f32 flushed,
 * tf32, tf32 flushed. */
static const unsigned char element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

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
    struct gb_device *device = gb_device_current();
    if (device->calls->tensor_map_encode == NULL) {
        gb_fatal(HERE, "tensor maps (nvgpu.tma) exist on NVIDIA devices of sm_90 and newer only\n"
                       "  what to do: guard the kernel by target, or run on such a device");
    }
    device->calls->tensor_map_encode(device, map, &description, HERE);
}

/* Returns the map's address in device memory. It lives as long as the process: nothing in the ABI frees it.
 * The driver counts dimensions from the innermost, a memref from the outermost. */
void *mgpuTensorMapEncodeTiledMemref(int64_t rank, const struct gb_memref *memref, int64_t data_type,
                                     int64_t interleave, int64_t swizzle, int64_t l2_promotion, int64_t out_of_bounds,
                                     const int64_t *box) {
    struct gb_device *device = gb_device_current();
    const struct gb_where where = *HERE;
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
    _Alignas(GB_TENSOR_MAP_ALIGNMENT) unsigned char map[GB_TENSOR_MAP_BYTES] = {0};
    mgpuTensorMapEncodeTiled(map, (int32_t)type, (uint32_t)rank, memref->aligned + memref->offset * element_bytes[type],
                             dims, strides, boxes, element_strides, (int32_t)interleave, (int32_t)swizzle,
                             (int32_t)l2_promotion, (int32_t)out_of_bounds);
    void *address = device->calls->memory_allocate(device, sizeof map, NULL, false, &where);
    device->calls->memory_copy(device, address, map, sizeof map, NULL, &where);
    device->calls->stream_synchronize(device, NULL, &where); /* `map` ends with this call, and any stream may use the copy */
    gb_trace("tensor map at %p for %p, rank %lld", address, (void *)memref->aligned, (long long)rank);
    return address;
}

/* ---- Devices ---- */

void mgpuSetDefaultDevice(int32_t ordinal) {
    gb_device_select(ordinal);
}
