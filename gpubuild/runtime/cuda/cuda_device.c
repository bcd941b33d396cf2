/* cuda_device.c: NVIDIA devices through the CUDA driver, which is opened at the first use.
 *
 * Every operation runs in the device's primary context, which the CUDA runtime API and other libraries of the process use,
 * and restores the thread's context stack.
 */
#include "core/device.h"
#include "cuda/cuda_api.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { JIT_LOG_BYTES = 16384 };

struct cuda_device {
    struct gb_device base;
    gb_cu_device handle;
    int major, minor;     /* compute capability */
    int most_shared;      /* bytes of workgroup memory that a kernel may have */
    pthread_mutex_t lock; /* guards the context */
    void *context;        /* retained at the first operation, kept until the process ends */
};

static struct gb_cuda_api cuda; /* complete once cuda_open has succeeded */

static const char *error_name(gb_cu_result result) {
    const char *name = NULL;
    return cuda.error_name(result, &name) == CU_SUCCESS && name != NULL ? name : "unknown error";
}

static const char *error_text(gb_cu_result result) {
    const char *text = NULL;
    return cuda.error_text(result, &text) == CU_SUCCESS && text != NULL ? text : "no description";
}

static _Thread_local int entered; /* contexts that this thread has pushed */

/* End the program, or return to gb_try with the caller's context; `details` (may be NULL) are the arguments. */
static _Noreturn void fail(gb_cu_result result, const char *call, const struct gb_where *where, const char *details) {
    for (void *context; entered > 0; entered--) {
        (void)cuda.context_pop(&context);
    }
    gb_fatal_driver(where, call, result, error_name(result), error_text(result), details);
}

static void check(gb_cu_result result, const char *call, const struct gb_where *where) {
    if (result != CU_SUCCESS) {
        fail(result, call, where, gb_kernel_failure((int)result, "CUDA_LAUNCH_BLOCKING=1"));
    }
}

static void enter(struct gb_device *base, const struct gb_where *where) {
    struct cuda_device *device = (struct cuda_device *)base;
    gb_lock(&device->lock);
    if (device->context == NULL) {
        check(cuda.context_retain(&device->context, device->handle), "cuDevicePrimaryCtxRetain", where);
    }
    void *context = device->context;
    gb_unlock(&device->lock);
    check(cuda.context_push(context), "cuCtxPushCurrent", where);
    entered++;
}

static void leave(const struct gb_where *where) {
    void *context = NULL;
    entered--;
    check(cuda.context_pop(&context), "cuCtxPopCurrent", where);
}

/* A driver call between push and pop. */
#define ON_DEVICE(device, where, name, result)                                                               \
    do {                                                                                                      \
        enter(device, where);                                                                                 \
        check(result, name, where);                                                                           \
        leave(where);                                                                                         \
    } while (0)

/* ---- Modules and kernels ---- */

static struct gb_fit cuda_fit(struct gb_device *base, const struct gb_image *image) {
    const struct cuda_device *device = (const struct cuda_device *)base;
    return gb_cuda_fit(image, device->major, device->minor);
}

static void *load_ptx(const struct gb_image *image, int opt_level, const struct gb_where *where) {
    /* The driver expects a NUL, which an image of a container does not have. */
    char *text = gb_allocate(image->size + 1);
    memcpy(text, image->data, image->size);
    char *log = gb_allocate(JIT_LOG_BYTES);
    int options[3] = {CU_JIT_LOG_BUFFER, CU_JIT_LOG_BYTES, CU_JIT_OPT_LEVEL};
    /* Numbers are passed by value, not as pointers to them. */
    void *values[3] = {log, (void *)(uintptr_t)(JIT_LOG_BYTES - 1), (void *)(uintptr_t)(opt_level < 0 ? 4 : opt_level)};
    void *module = NULL;
    gb_cu_result result = cuda.module_load_jit(&module, text, opt_level < 0 ? 2 : 3, options, values);
    if (result != CU_SUCCESS) {
        char *details = gb_text("the log of the driver's compiler for PTX:\n%s", log[0] != '\0' ? log : "(nothing)");
        fail(result, "cuModuleLoadDataEx", where, details);
    }
    free(log);
    free(text);
    return module;
}

static void *cuda_module_load(struct gb_device *base, const struct gb_image *image, int opt_level,
                              const struct gb_where *where) {
    void *module = NULL;
    enter(base, where);
    if (gb_cuda_is_ptx(image)) {
        module = load_ptx(image, opt_level > 4 ? 4 : opt_level, where);
    } else {
        check(cuda.module_load(&module, image->data), "cuModuleLoadData", where);
    }
    leave(where);
    return module;
}

/* At exit the driver may have ended first, and with it modules and memory. */
static bool driver_is_gone(gb_cu_result result) {
    return result == CU_ERROR_DEINITIALIZED || result == CU_ERROR_CONTEXT_IS_DESTROYED;
}

static void cuda_module_unload(struct gb_device *base, void *module, const struct gb_where *where) {
    gb_cu_result result = cuda.context_push(((struct cuda_device *)base)->context);
    if (!driver_is_gone(result)) {
        check(result, "cuCtxPushCurrent", where);
        entered++;
        result = cuda.module_unload(module);
        if (!driver_is_gone(result)) {
            check(result, "cuModuleUnload", where);
            leave(where);
        }
    }
}

/* Raise the kernel's limits in the driver to those of the device, for any launch. */
static void *cuda_kernel(struct gb_device *base, void *module, const char *name, const struct gb_where *where) {
    const struct cuda_device *device = (const struct cuda_device *)base;
    void *function = NULL;
    int own = 0;
    enter(base, where);
    check(cuda.module_function(&function, module, name), "cuModuleGetFunction", where);
    check(cuda.function_get(&own, CU_FUNC_SHARED, function), "cuFuncGetAttribute", where);
    check(cuda.function_set(function, CU_FUNC_MAX_DYNAMIC_SHARED, device->most_shared - own), "cuFuncSetAttribute", where);
    if (device->major >= 9) { /* more than 8 workgroups in a cluster */
        check(cuda.function_set(function, CU_FUNC_NON_PORTABLE_CLUSTER, 1), "cuFuncSetAttribute", where);
    }
    leave(where);
    return function;
}

static gb_cu_result launch_cluster(void *function, void *stream, const struct gb_launch *launch) {
    struct gb_cu_launch_attribute attributes[2] = {
        {.id = CU_LAUNCH_CLUSTER_DIMENSION,
         .value.cluster = {launch->cluster.x, launch->cluster.y, launch->cluster.z}},
        {.id = CU_LAUNCH_CLUSTER_POLICY, .value.policy = CU_CLUSTER_POLICY_SPREAD},
    };
    const struct gb_cu_launch_config config = {
        .grid = {launch->grid.x, launch->grid.y, launch->grid.z},
        .block = {launch->block.x, launch->block.y, launch->block.z},
        .shared_bytes = launch->shared_bytes,
        .stream = stream,
        .attributes = attributes,
        .attribute_count = 2,
    };
    return cuda.launch_ex(&config, function, launch->params, launch->extra);
}

static void cuda_launch(struct gb_device *base, void *function, void *stream, const struct gb_launch *launch,
                        const struct gb_where *where) {
    const struct cuda_device *device = (const struct cuda_device *)base;
    bool clusters = launch->cluster.x * launch->cluster.y * launch->cluster.z != 1;
    if (clusters && (cuda.launch_ex == NULL || device->major < 9)) {
        gb_fatal(where, "the launch asks for clusters of %ux%ux%u workgroups, which need a device of sm_90 or newer "
                        "and a driver for CUDA 11.8 or newer",
                 launch->cluster.x, launch->cluster.y, launch->cluster.z);
    }
    if (launch->shared_bytes > (uint32_t)device->most_shared) {
        gb_fatal(where, "the launch asks for %u bytes of dynamic workgroup memory; the device has at most %d",
                 launch->shared_bytes, device->most_shared);
    }
    enter(base, where);
    gb_cu_result result =
        clusters ? launch_cluster(function, stream, launch)
                 : cuda.launch(function, launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x,
                               launch->block.y, launch->block.z, launch->shared_bytes, stream, launch->params,
                               launch->extra);
    if (result != CU_SUCCESS) {
        fail(result, clusters ? "cuLaunchKernelEx" : "cuLaunchKernel", where, gb_launch_text(launch));
    }
    leave(where);
}

/* ---- Streams and events ---- */

GB_NEW_HANDLE_CALL(cuda_stream_create, stream, "cuStreamCreate", cuda.stream_create(&stream, CU_STREAM_IS_NON_BLOCKING))
GB_DRIVER_CALL(cuda_stream_destroy, "cuStreamDestroy", cuda.stream_destroy(stream), void *stream)
GB_DRIVER_CALL(cuda_stream_synchronize, "cuStreamSynchronize", cuda.stream_synchronize(stream), void *stream)
GB_DRIVER_CALL(cuda_stream_wait_event, "cuStreamWaitEvent", cuda.stream_wait(stream, event, 0), void *stream, void *event)

GB_NEW_HANDLE_CALL(cuda_event_create, event, "cuEventCreate", cuda.event_create(&event, CU_EVENT_WITHOUT_TIMING))
GB_DRIVER_CALL(cuda_event_destroy, "cuEventDestroy", cuda.event_destroy(event), void *event)
GB_DRIVER_CALL(cuda_event_synchronize, "cuEventSynchronize", cuda.event_synchronize(event), void *event)
GB_DRIVER_CALL(cuda_event_record, "cuEventRecord", cuda.event_record(event, stream), void *event, void *stream)

GB_NEW_HANDLE_CALL(cuda_timer_create, event, "cuEventCreate", cuda.event_create(&event, 0))

static uint64_t cuda_timer_elapsed_ns(struct gb_device *device, void *first, void *last, const struct gb_where *where) {
    float milliseconds = 0;
    cuda_event_synchronize(device, last, where);
    ON_DEVICE(device, where, "cuEventElapsedTime", cuda.event_elapsed(&milliseconds, first, last));
    return (uint64_t)(1e6 * (double)milliseconds);
}

/* ---- Memory ---- */

static gb_cu_address address_of(const void *pointer) {
    return (gb_cu_address)(uintptr_t)pointer;
}

static void *cuda_memory_allocate(struct gb_device *device, size_t bytes, void *stream, bool shared,
                                  const struct gb_where *where) {
    (void)stream; /* not stream-ordered: any stream may use the memory at once, as upstream allows */
    gb_cu_address address = 0;
    enter(device, where);
    gb_cu_result result =
        shared ? cuda.allocate_managed(&address, bytes, CU_MEM_ATTACH_ALL) : cuda.allocate(&address, bytes);
    if (result != CU_SUCCESS) {
        char *earlier = gb_kernel_failure((int)result, "CUDA_LAUNCH_BLOCKING=1");
        fail(result, shared ? "cuMemAllocManaged" : "cuMemAlloc", where,
             earlier != NULL ? earlier : gb_text("%zu bytes", bytes));
    }
    leave(where);
    return (void *)(uintptr_t)address;
}

static void cuda_memory_free(struct gb_device *device, void *address, void *stream, const struct gb_where *where) {
    (void)stream; /* cuMemFree waits for work that may still use the memory */
    gb_cu_result result = cuda.context_push(((struct cuda_device *)device)->context);
    if (!driver_is_gone(result)) {
        check(result, "cuCtxPushCurrent", where);
        entered++;
        result = cuda.release(address_of(address));
        if (!driver_is_gone(result)) {
            check(result, "cuMemFree", where);
            leave(where);
        }
    }
}

GB_DRIVER_CALL(cuda_memory_copy, "cuMemcpyAsync", cuda.copy(address_of(to), address_of(from), bytes, stream),
               void *to, void *from, size_t bytes, void *stream)

/* One fill if the driver has it for such elements; else a fill with gaps for each part of the elements. */
static void cuda_memory_fill(struct gb_device *device, void *to, const void *element, size_t element_bytes,
                             size_t count, void *stream, const struct gb_where *where) {
    size_t unit = gb_fill_unit(element, element_bytes);
    size_t bytes = element_bytes;
    if (unit != 0) {
        count *= element_bytes / unit;
        bytes = unit;
    } else {
        unit = element_bytes % 4 == 0 ? 4 : element_bytes % 2 == 0 ? 2 : 1;
    }
    for (size_t at = 0; at < bytes; at += unit) {
        uint32_t value = 0;
        memcpy(&value, (const char *)element + at, unit);
        gb_cu_address part = address_of(to) + at;
        if (unit == bytes) {
            ON_DEVICE(device, where, unit == 4 ? "cuMemsetD32Async" : unit == 2 ? "cuMemsetD16Async" : "cuMemsetD8Async",
                       unit == 4   ? cuda.set_32(part, value, count, stream)
                       : unit == 2 ? cuda.set_16(part, (unsigned short)value, count, stream)
                                   : cuda.set_8(part, (unsigned char)value, count, stream));
        } else {
            ON_DEVICE(device, where,
                       unit == 4   ? "cuMemsetD2D32Async"
                       : unit == 2 ? "cuMemsetD2D16Async"
                                   : "cuMemsetD2D8Async",
                       unit == 4   ? cuda.set_2d_32(part, bytes, value, 1, count, stream)
                       : unit == 2 ? cuda.set_2d_16(part, bytes, (unsigned short)value, 1, count, stream)
                                   : cuda.set_2d_8(part, bytes, (unsigned char)value, 1, count, stream));
        }
    }
}

GB_DRIVER_CALL(cuda_host_register, "cuMemHostRegister", cuda.host_register(address, bytes, CU_HOST_REGISTER_FLAGS),
               void *address, size_t bytes)

GB_DRIVER_CALL(cuda_host_unregister, "cuMemHostUnregister", cuda.host_unregister(address), void *address)

static void *cuda_host_pointer(struct gb_device *device, void *address, const struct gb_where *where) {
    gb_cu_address found = 0;
    ON_DEVICE(device, where, "cuMemHostGetDevicePointer", cuda.host_pointer(&found, address, 0));
    return (void *)(uintptr_t)found;
}

static void cuda_tensor_map_encode(struct gb_device *base, void *map, const struct gb_tensor_map *t,
                                   const struct gb_where *where) {
    const struct cuda_device *device = (const struct cuda_device *)base;
    if (cuda.tensor_map == NULL || device->major < 9) {
        gb_fatal(where, "tensor maps need a device of sm_90 or newer and a driver for CUDA 12 or newer");
    }
    ON_DEVICE(base, where, "cuTensorMapEncodeTiled",
               cuda.tensor_map(map, (int)t->data_type, t->rank, t->address, t->dims, t->strides, t->box,
                               t->element_strides, (int)t->interleave, (int)t->swizzle, (int)t->l2_promotion,
                               (int)t->out_of_bounds));
}

static int cuda_enter(struct gb_device *device, const struct gb_where *where) {
    enter(device, where);
    return 0;
}

static void cuda_leave(struct gb_device *device, int before, const struct gb_where *where) {
    (void)device, (void)before;
    leave(where);
}

static const struct gb_device_calls calls = {
    GB_COMMON_CALLS(cuda),
    .enter = cuda_enter,
    .leave = cuda_leave,
    .timer_create = cuda_timer_create,
    .timer_elapsed_ns = cuda_timer_elapsed_ns,
    .host_pointer = cuda_host_pointer,
    .tensor_map_encode = cuda_tensor_map_encode,
};

/* ---- opening ---- */

static bool ready; /* `ready` and `devices` are used only by cuda_open, under core/module.c's lock */
static struct cuda_device *devices[GB_MAX_DEVICES];

static bool open_driver(char **why) {
    static const char *const names[] = {"libcuda.so.1", NULL};
    if (ready) {
        return true;
    }
    void *library = gb_library_open(names, why);
    if (library == NULL) {
        return false;
    }
#define TAKE(member, symbol, parameters) gb_library_symbol(library, #symbol, &cuda.member);
    GB_CUDA_REQUIRED(TAKE)
    GB_CUDA_OPTIONAL(TAKE)
#undef TAKE
#define NEED(member, symbol, parameters)                                                                      \
    if (cuda.member == NULL) {                                                                                \
        *why = gb_text("libcuda.so.1 has no function " #symbol ": the driver is too old");                    \
        return false;                                                                                         \
    }
    GB_CUDA_REQUIRED(NEED)
#undef NEED
    gb_cu_result result = cuda.init(0);
    if (result != CU_SUCCESS) {
        *why = gb_text("cuInit failed with %s (%d): %s", error_name(result), result, error_text(result));
        return false;
    }
    ready = true;
    return true;
}

static struct gb_device *cuda_open(int ordinal, char **why) {
    if (!open_driver(why)) {
        return NULL;
    }
    int count = 0;
    gb_cu_result result = cuda.device_count(&count);
    if (result != CU_SUCCESS || ordinal < 0 || ordinal >= count || ordinal >= GB_MAX_DEVICES) {
        *why = result != CU_SUCCESS
                   ? gb_text("cuDeviceGetCount failed with %s (%d)", error_name(result), result)
                   : gb_text("there is no cuda:%d; the driver finds %d device%s", ordinal, count, count == 1 ? "" : "s");
        return NULL;
    }
    if (devices[ordinal] != NULL) {
        return &devices[ordinal]->base;
    }
    struct cuda_device *device = gb_allocate(sizeof *device);
    char name[256] = "";
    if ((result = cuda.device_get(&device->handle, ordinal)) != CU_SUCCESS ||
        (result = cuda.device_name(name, (int)sizeof name - 1, device->handle)) != CU_SUCCESS ||
        (result = cuda.device_attribute(&device->major, CU_DEVICE_MAJOR, device->handle)) != CU_SUCCESS ||
        (result = cuda.device_attribute(&device->minor, CU_DEVICE_MINOR, device->handle)) != CU_SUCCESS ||
        (result = cuda.device_attribute(&device->most_shared, CU_DEVICE_MAX_SHARED_PER_BLOCK_OPTIN, device->handle)) !=
            CU_SUCCESS) {
        free(device);
        *why = gb_text("cuda:%d does not report its properties: %s (%d)", ordinal, error_name(result), result);
        return NULL;
    }
    (void)pthread_mutex_init(&device->lock, NULL);
    device->base = (struct gb_device){
        .vendor = GB_VENDOR_CUDA,
        .ordinal = ordinal,
        .name = gb_text("cuda:%d (%s, sm_%d%d)", ordinal, name, device->major, device->minor),
        .calls = &calls,
    };
    devices[ordinal] = device;
    return &device->base;
}

static const char *const sparse_libraries[] = {"libcusparse.so.12", "libcusparse.so.11", "libcusparse.so", NULL};
static const char *const sparselt_libraries[] = {"libcusparseLt.so.0", "libcusparseLt.so", NULL};
static const struct gb_sparselt_library sparselt = {
    .prefix = "cusparseLt", .libraries = sparselt_libraries, .compute_i32 = 0, .oldest = 600};
const struct gb_sparse_vendor gb_cuda_sparse = {
    .prefix = "cusparse", .libraries = sparse_libraries, .sparselt = &sparselt};
const struct gb_vendor_calls gb_cuda_vendor = {.open = cuda_open, .recognize = gb_cuda_recognize};
