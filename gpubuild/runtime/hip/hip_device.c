/* hip_device.c: AMD devices through HIP, which is opened at the first use.
 *
 * HIP has a current device per thread. Every operation sets it and restores it at the end.
 */
#include "core/device.h"
#include "hip/hip_api.h"

#include <stdlib.h>
#include <string.h>

struct hip_device {
    struct gb_device base;
    char target_id[HIP_PROPERTIES_CHIP_BYTES]; /* "gfx90a:sramecc+:xnack-" */
};

static struct gb_hip_api hip;
/* Used only under core/module.c's lock, as are `ready` and `devices`. */
static void *record; /* of failed assertions */
static bool ready;
static struct hip_device *devices[GB_MAX_DEVICES];
static const struct gb_device_calls calls;

enum { NONE = -1 };
static _Thread_local int callers = NONE; /* this thread's device before an operation on another one */

static _Noreturn void fail(gb_hip_result result, const char *call, const struct gb_where *where, const char *details) {
    if (callers != NONE) {
        (void)hip.device_set(callers);
        callers = NONE;
    }
    gb_fatal_driver(where, call, result, hip.error_name(result), hip.error_text(result), details);
}

static void check(gb_hip_result result, const char *call, const struct gb_where *where) {
    if (result != HIP_SUCCESS) {
        fail(result, call, where, gb_kernel_failure((int)result, "AMD_SERIALIZE_KERNEL=3"));
    }
}

/* Make the device current; returns the previous one. */
static int enter(struct gb_device *device, const struct gb_where *where) {
    int before = 0;
    check(hip.device_get(&before), "hipGetDevice", where);
    if (before != device->ordinal) {
        check(hip.device_set(device->ordinal), "hipSetDevice", where);
        callers = before;
    }
    return before;
}

static void leave(struct gb_device *device, int before, const struct gb_where *where) {
    if (before != device->ordinal) {
        callers = NONE;
        check(hip.device_set(before), "hipSetDevice", where);
    }
}

#define ON_DEVICE(device, where, name, result)                                                                \
    do {                                                                                                      \
        int before = enter(device, where);                                                                    \
        check(result, name, where);                                                                           \
        leave(device, before, where);                                                                         \
    } while (0)

/* ---- Modules and kernels ---- */

static struct gb_fit hip_fit(struct gb_device *device, const struct gb_image *image) {
    return gb_hip_fit(image, ((const struct hip_device *)device)->target_id);
}

/* Give the module the address of the record that its first failed assertion fills in. */
static void watch_assertions(void *module, const struct gb_where *where) {
    void *variable = NULL, *address = NULL;
    size_t bytes = 0;
    if (hip.module_global(&variable, &bytes, module, GB_HIP_RECORD_NAME) != HIP_SUCCESS) {
        return; /* linked by another tool, which does not export the name */
    }
    if (record == NULL) {
        check(hip.allocate_host(&record, GB_HIP_RECORD_BYTES, HIP_HOST_MALLOC_FLAGS), "hipHostMalloc", where);
        gb_hip_watch(record);
    }
    check(hip.host_pointer(&address, record, 0), "hipHostGetDevicePointer", where);
    check(hip.copy(variable, &address, sizeof address, HIP_COPY_BY_ADDRESS, NULL), "hipMemcpyAsync", where);
    check(hip.stream_synchronize(NULL), "hipStreamSynchronize", where);
}

static void *hip_module_load(struct gb_device *device, const struct gb_image *image, int opt_level,
                             const struct gb_where *where) {
    (void)opt_level; /* there is nothing to compile in an AMD image */
    void *module = NULL;
    int before = enter(device, where);
    check(hip.module_load(&module, image->data), "hipModuleLoadData", where);
    if (gb_hip_keep_assertions(image->data, image->size)) {
        watch_assertions(module, where);
    }
    leave(device, before, where);
    return module;
}

/* At exit HIP may have ended first, and with it modules and memory. */
static bool driver_is_gone(gb_hip_result result) {
    return result == HIP_ERROR_DEINITIALIZED || result == HIP_ERROR_CONTEXT_IS_DESTROYED;
}

static gb_hip_result try_enter(struct gb_device *device, int *before) {
    gb_hip_result result = hip.device_get(before);
    return result == HIP_SUCCESS && *before != device->ordinal ? hip.device_set(device->ordinal) : result;
}

static void hip_module_unload(struct gb_device *device, void *module, const struct gb_where *where) {
    int before = 0;
    gb_hip_result result = try_enter(device, &before);
    if (result == HIP_SUCCESS) {
        result = hip.module_unload(module);
    }
    if (driver_is_gone(result)) {
        return;
    }
    check(result, "hipModuleUnload", where);
    leave(device, before, where);
}

static void *hip_kernel(struct gb_device *device, void *module, const char *name, const struct gb_where *where) {
    void *function = NULL;
    ON_DEVICE(device, where, "hipModuleGetFunction", hip.module_function(&function, module, name));
    return function;
}

static void hip_launch(struct gb_device *device, void *kernel, void *stream, const struct gb_launch *launch,
                       const struct gb_where *where) {
    if (launch->cluster.x != 1 || launch->cluster.y != 1 || launch->cluster.z != 1) {
        gb_fatal(where, "the launch asks for clusters of %ux%ux%u workgroups, which HIP devices do not have",
                 launch->cluster.x, launch->cluster.y, launch->cluster.z);
    }
    int before = enter(device, where);
    gb_hip_result result =
        hip.launch(kernel, launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x, launch->block.y,
                   launch->block.z, launch->shared_bytes, stream, launch->params, launch->extra);
    if (result != HIP_SUCCESS) {
        fail(result, "hipModuleLaunchKernel", where, gb_launch_text(launch));
    }
    leave(device, before, where);
}

/* ---- Streams and events ---- */

GB_NEW_HANDLE_CALL(hip_stream_create, stream, "hipStreamCreateWithFlags", hip.stream_create(&stream, HIP_STREAM_IS_NON_BLOCKING))
GB_DRIVER_CALL(hip_stream_destroy, "hipStreamDestroy", hip.stream_destroy(stream), void *stream)
GB_DRIVER_CALL(hip_stream_synchronize, "hipStreamSynchronize", hip.stream_synchronize(stream), void *stream)
GB_DRIVER_CALL(hip_stream_wait_event, "hipStreamWaitEvent", hip.stream_wait(stream, event, 0), void *stream, void *event)

GB_NEW_HANDLE_CALL(hip_event_create, event, "hipEventCreateWithFlags", hip.event_create(&event, HIP_EVENT_WITHOUT_TIMING))
GB_DRIVER_CALL(hip_event_destroy, "hipEventDestroy", hip.event_destroy(event), void *event)
GB_DRIVER_CALL(hip_event_synchronize, "hipEventSynchronize", hip.event_synchronize(event), void *event)
GB_DRIVER_CALL(hip_event_record, "hipEventRecord", hip.event_record(event, stream), void *event, void *stream)

GB_NEW_HANDLE_CALL(hip_timer_create, event, "hipEventCreateWithFlags", hip.event_create(&event, 0))

static uint64_t hip_timer_elapsed_ns(struct gb_device *device, void *first, void *last, const struct gb_where *where) {
    float milliseconds = 0;
    hip_event_synchronize(device, last, where);
    ON_DEVICE(device, where, "hipEventElapsedTime", hip.event_elapsed(&milliseconds, first, last));
    return (uint64_t)(1e6 * (double)milliseconds);
}

/* ---- Memory ---- */

static void *hip_memory_allocate(struct gb_device *device, size_t bytes, void *stream, bool shared,
                                 const struct gb_where *where) {
    (void)stream; /* not stream-ordered: any stream may use the memory at once, as upstream allows */
    void *address = NULL;
    int before = enter(device, where);
    gb_hip_result result =
        shared ? hip.allocate_managed(&address, bytes, HIP_MEM_ATTACH_ALL) : hip.allocate(&address, bytes);
    if (result != HIP_SUCCESS) {
        fail(result, shared ? "hipMallocManaged" : "hipMalloc", where, gb_text("%zu bytes", bytes));
    }
    leave(device, before, where);
    return address;
}

static void hip_memory_free(struct gb_device *device, void *address, void *stream, const struct gb_where *where) {
    (void)stream; /* hipFree waits for work that may still use the memory */
    int before = 0;
    gb_hip_result result = try_enter(device, &before);
    if (result == HIP_SUCCESS) {
        result = hip.release(address);
    }
    if (!driver_is_gone(result)) {
        check(result, "hipFree", where);
        leave(device, before, where);
    }
}

GB_DRIVER_CALL(hip_memory_copy, "hipMemcpyAsync", hip.copy(to, from, bytes, HIP_COPY_BY_ADDRESS, stream),
               void *to, void *from, size_t bytes, void *stream)

/* HIP has fills with gaps for bytes only. */
static void hip_memory_fill(struct gb_device *device, void *to, const void *element, size_t element_bytes,
                            size_t count, void *stream, const struct gb_where *where) {
    const unsigned char *bytes = element;
    size_t unit = gb_fill_unit(element, element_bytes);
    size_t units = unit != 0 ? count * (element_bytes / unit) : 0;
    int32_t value = 0;
    memcpy(&value, element, unit);
    if (unit == 4) {
        ON_DEVICE(device, where, "hipMemsetD32Async", hip.set_32(to, value, units, stream));
    } else if (unit == 2) {
        ON_DEVICE(device, where, "hipMemsetD16Async", hip.set_16(to, (unsigned short)value, units, stream));
    } else if (unit == 1) {
        ON_DEVICE(device, where, "hipMemsetD8Async", hip.set_8(to, bytes[0], units, stream));
    } else {
        for (size_t at = 0; at < element_bytes; at++) {
            ON_DEVICE(device, where, "hipMemset2DAsync",
                      hip.set_2d_8((char *)to + at, element_bytes, bytes[at], 1, count, stream));
        }
    }
}

GB_DRIVER_CALL(hip_host_register, "hipHostRegister", hip.host_register(address, bytes, HIP_HOST_REGISTER_FLAGS),
               void *address, size_t bytes)

GB_DRIVER_CALL(hip_host_unregister, "hipHostUnregister", hip.host_unregister(address), void *address)

static void *hip_host_pointer(struct gb_device *device, void *address, const struct gb_where *where) {
    void *found = NULL;
    ON_DEVICE(device, where, "hipHostGetDevicePointer", hip.host_pointer(&found, address, 0));
    return found;
}

static const struct gb_device_calls calls = {
    GB_COMMON_CALLS(hip),
    .enter = enter,
    .leave = leave,
    .timer_create = hip_timer_create,
    .timer_elapsed_ns = hip_timer_elapsed_ns,
    .host_pointer = hip_host_pointer,
};

/* ---- Opening ---- */

static bool open_library(char **why) {
    static const char *const names[] = {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", NULL};
    if (ready) {
        return true;
    }
    void *library = gb_library_open(names, why);
    if (library == NULL) {
        return false;
    }
    gb_library_symbol(library, "hipGetErrorName", &hip.error_name);
    gb_library_symbol(library, "hipGetErrorString", &hip.error_text);
#define TAKE(member, symbol, parameters) gb_library_symbol(library, #symbol, &hip.member);
    GB_HIP_REQUIRED(TAKE)
#undef TAKE
    const char *missing = hip.error_name == NULL ? "hipGetErrorName" : hip.error_text == NULL ? "hipGetErrorString" : NULL;
#define NEED(member, symbol, parameters) missing = missing == NULL && hip.member == NULL ? #symbol : missing;
    GB_HIP_REQUIRED(NEED)
#undef NEED
    if (missing != NULL) {
        *why = gb_text("libamdhip64.so has no function %s: ROCm 6 or newer is needed", missing);
        return false;
    }
    gb_hip_result result = hip.init(0);
    if (result != HIP_SUCCESS) {
        *why = gb_text("hipInit failed with %s (%d): %s", hip.error_name(result), result, hip.error_text(result));
        return false;
    }
    ready = true;
    return true;
}

static struct gb_device *hip_open(int ordinal, char **why) {
    if (!open_library(why)) {
        return NULL;
    }
    int count = 0;
    gb_hip_result result = hip.device_count(&count);
    if (result != HIP_SUCCESS || ordinal < 0 || ordinal >= count || ordinal >= GB_MAX_DEVICES) {
        *why = result != HIP_SUCCESS
                   ? gb_text("hipGetDeviceCount failed with %s (%d)", hip.error_name(result), result)
                   : gb_text("there is no hip:%d; HIP finds %d device%s", ordinal, count, count == 1 ? "" : "s");
        return NULL;
    }
    if (devices[ordinal] != NULL) {
        return &devices[ordinal]->base;
    }
    char *properties = gb_allocate(HIP_PROPERTIES_BYTES); /* its name comes first */
    result = hip.device_properties(properties, ordinal);
    const char *chip = properties + HIP_PROPERTIES_CHIP_AT;
    if (result != HIP_SUCCESS || strncmp(chip, "gfx", 3) != 0) {
        *why = result != HIP_SUCCESS ? gb_text("hipGetDeviceProperties failed with %s (%d)", hip.error_name(result), result)
                                     : gb_text("HIP does not name the chip of hip:%d", ordinal);
        free(properties);
        return NULL;
    }
    struct hip_device *device = gb_allocate(sizeof *device);
    memcpy(device->target_id, chip, HIP_PROPERTIES_CHIP_BYTES - 1);
    device->base = (struct gb_device){
        .vendor = GB_VENDOR_HIP,
        .ordinal = ordinal,
        .name = gb_text("hip:%d (%.255s, %s)", ordinal, properties, device->target_id),
        .calls = &calls,
    };
    devices[ordinal] = device;
    free(properties);
    return &device->base;
}

static const char *const sparse_libraries[] = {"libhipsparse.so", "libhipsparse.so.4", "libhipsparse.so.1", NULL};
static const char *const sparselt_libraries[] = {"libhipsparselt.so.0", "libhipsparselt.so", NULL};
static const struct gb_sparselt_library sparselt = {
    .prefix = "hipsparseLt", .libraries = sparselt_libraries, .compute_i32 = 1, .oldest = 0};
const struct gb_sparse_vendor gb_hip_sparse = {
    .prefix = "hipsparse", .libraries = sparse_libraries, .sparselt = &sparselt};
const struct gb_vendor_calls gb_hip_vendor = {.open = hip_open, .recognize = gb_hip_recognize};
