/* opencl_device.c: devices with OpenCL 2.1 or newer that take SPIR-V.
 *
 * A stream is an in-order queue. Memory is unified shared memory where the device has it, else shared virtual memory:
 * both give pointers that kernels and the host's calls use alike.
 */
#define _POSIX_C_SOURCE 200809L
#include "core/device.h"
#include "opencl/opencl_api.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_ADDED = 4 }; /* parameters that launches do not pass: a shape, a flag, workgroup memory */

/* The queue of a stream. It is never released: a new stream uses an idle one. */
struct queue {
    struct queue *next;
    void *handle;
    void *last; /* of a destroyed stream: a marker behind its work; else NULL */
};

struct opencl_device {
    struct gb_device base;
    struct gb_opencl_facts facts;
    void *context;
    void *queue; /* of the NULL stream */
    pthread_mutex_t lock; /* guards the other queues */
    struct queue *queues;
    uint32_t *failed;    /* kernels store 1 when an assertion failed; made for the first kernel that needs it */
};

struct opencl_module {
    void *program;
    struct gb_spirv_module content;
    struct opencl_kernel *kernels; /* a list */
};

struct opencl_kernel {
    struct opencl_kernel *next;
    void *handle;
    const struct gb_spirv_kernel *content;
    pthread_mutex_t lock; /* arguments are part of the kernel until the launch */
};

/* An event of the runtime can be recorded again, one of OpenCL cannot. */
struct opencl_event {
    pthread_mutex_t lock;
    void *recorded; /* NULL: not yet */
};

/* Used only by opencl_open, under core/module.c's lock, and at the end of the program. */
static struct opencl_device *devices[GB_MAX_DEVICES];
static pid_t opened_by; /* 0: no process */

static _Noreturn void fail(gb_cl_result result, const char *call, const struct gb_where *where, const char *details) {
    gb_fatal_driver(where, call, result, gb_opencl_result_name(result), "see the OpenCL specification", details);
}

static void check(gb_cl_result result, const char *call, const struct gb_where *where) {
    if (result != CL_SUCCESS) {
        fail(result, call, where, NULL);
    }
}

static struct opencl_device *own(struct gb_device *device) {
    return (struct opencl_device *)device;
}

static void *queue_of(struct gb_device *device, void *stream) {
    return stream != NULL ? stream : own(device)->queue;
}

/* ---- Modules and kernels ---- */

static struct gb_fit opencl_fit(struct gb_device *device, const struct gb_image *image) {
    return gb_opencl_fit(image, &own(device)->facts.features);
}

static char *build_log(const struct opencl_device *device, void *program) {
    size_t bytes = 0;
    if (gb_cl.program_build_info(program, device->facts.handle, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes) != CL_SUCCESS) {
        return gb_text("(the driver has no log)");
    }
    char *log = gb_allocate(bytes + 1);
    gb_cl.program_build_info(program, device->facts.handle, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
    return log;
}

static void *opencl_module_load(struct gb_device *base, const struct gb_image *image, int opt_level,
                                const struct gb_where *where) {
    (void)opt_level; /* drivers decide */
    struct opencl_device *device = own(base);
    struct opencl_module *module = gb_allocate(sizeof *module);
    if (!gb_spirv_read(image, &module->content)) {
        gb_fatal(where, "the SPIR-V module is damaged");
    }
    gb_cl_result result = CL_SUCCESS;
    module->program = gb_cl.program_create(device->context, image->data, image->size, &result);
    check(result, "clCreateProgramWithIL", where);
    result = gb_cl.program_build(module->program, 1, &device->facts.handle, device->facts.options, NULL, NULL);
    if (result != CL_SUCCESS) {
        fail(result, "clBuildProgram", where, gb_text("the log of the driver's compiler:\n%s", build_log(device, module->program)));
    }
    return module;
}

/* At exit the driver may have ended before a second library unloads its modules: Intel's then answers so to everything. */
static void check_release(gb_cl_result result, const char *call, const struct gb_where *where) {
    check(result == CL_INVALID_OPERATION ? CL_SUCCESS : result, call, where);
}

static void opencl_module_unload(struct gb_device *device, void *handle, const struct gb_where *where) {
    (void)device;
    struct opencl_module *module = handle;
    for (struct opencl_kernel *kernel = module->kernels, *next; kernel != NULL; kernel = next) {
        next = kernel->next;
        check_release(gb_cl.kernel_release(kernel->handle), "clReleaseKernel", where);
        free(kernel);
    }
    check_release(gb_cl.program_release(module->program), "clReleaseProgram", where);
    gb_spirv_release(&module->content);
    free(module);
}

/* Let the kernel use all memory that it finds pointers to. */
static void allow_all_memory(const struct opencl_device *device, void *kernel, const struct gb_where *where) {
    static const uint32_t kinds[] = {CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL,
                                     CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL,
                                     CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL};
    uint32_t yes = 1;
    for (size_t i = 0; device->facts.has_usm && i < sizeof kinds / sizeof kinds[0]; i++) {
        check(gb_cl.set_kernel_info(kernel, kinds[i], sizeof yes, &yes), "clSetKernelExecInfo", where);
    }
    if (device->facts.svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) {
        check(gb_cl.set_kernel_info(kernel, CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, sizeof yes, &yes),
              "clSetKernelExecInfo", where);
    }
}

static void *opencl_memory_allocate(struct gb_device *base, size_t bytes, void *stream, bool shared,
                                    const struct gb_where *where);

/* End the program if a kernel that has ended failed an assertion; OpenCL's printf wrote the message. */
static void check_assertions(const struct opencl_device *device, const struct gb_where *where) {
    if (device->failed != NULL && *(volatile uint32_t *)device->failed != 0) {
        gb_fatal(where, "an assertion failed in a kernel (the message above)");
    }
}

/* Called under core/module.c's lock, once for each kernel. */
static void *opencl_kernel(struct gb_device *base, void *handle, const char *name, const struct gb_where *where) {
    struct opencl_module *module = handle;
    struct opencl_kernel *kernel = gb_allocate(sizeof *kernel);
    gb_cl_result result = CL_SUCCESS;
    kernel->handle = gb_cl.kernel_create(module->program, name, &result);
    check(result, "clCreateKernel", where);
    for (size_t i = 0; i < module->content.kernel_count; i++) {
        if (strcmp(module->content.kernels[i].name, name) == 0) {
            kernel->content = &module->content.kernels[i];
        }
    }
    if (kernel->content == NULL) {
        gb_fatal(where, "the SPIR-V module has no kernel %s", name);
    }
    allow_all_memory(own(base), kernel->handle, where);
    bool can_share = own(base)->facts.has_usm || (own(base)->facts.svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
    if (own(base)->failed == NULL && can_share) {
        own(base)->failed = opencl_memory_allocate(base, sizeof *own(base)->failed, NULL, true, where);
        *own(base)->failed = 0;
    }
    (void)pthread_mutex_init(&kernel->lock, NULL);
    kernel->next = module->kernels;
    module->kernels = kernel;
    return kernel;
}

static gb_cl_result set_arguments(const struct opencl_device *device, const struct opencl_kernel *kernel,
                                  const struct gb_launch *launch) {
    gb_cl_result result = CL_SUCCESS;
    const uint32_t shape[2] = {launch->block.x, launch->block.y};
    for (uint32_t i = 0; result == CL_SUCCESS && i < kernel->content->parameter_count; i++) {
        if (kernel->content->parameters[i].kind == GB_SPIRV_WORKGROUP) {
            result = gb_cl.set_argument(kernel->handle, i, launch->shared_bytes > 0 ? launch->shared_bytes : 1, NULL);
        } else if (i >= launch->param_count && kernel->content->parameters[i].kind == GB_SPIRV_VALUE) {
            result = gb_cl.set_argument(kernel->handle, i, sizeof shape[0], &shape[i - launch->param_count]);
        } else if (kernel->content->parameters[i].kind == GB_SPIRV_VALUE) {
            result = gb_cl.set_argument(kernel->handle, i, kernel->content->parameters[i].bytes, launch->params[i]);
        } else {
            const void *address = i < launch->param_count ? *(void *const *)launch->params[i] : device->failed;
            result = (device->facts.has_usm ? device->facts.usm.set_pointer : gb_cl.set_svm_pointer)(kernel->handle, i, address);
        }
    }
    return result;
}

/* Whether the kernel runs in workgroups of one row, whose real shape is two more parameters: see engine/backends/spirv. */
static bool has_shape(const struct opencl_kernel *kernel, const struct gb_launch *launch) {
    return launch->param_count < kernel->content->parameter_count &&
           kernel->content->parameters[launch->param_count].kind == GB_SPIRV_VALUE;
}

static void check_launch(const struct opencl_device *device, const struct opencl_kernel *kernel,
                         const struct gb_launch *launch, const struct gb_where *where) {
    const struct gb_dim3 block = launch->block;
    if (launch->cluster.x != 1 || launch->cluster.y != 1 || launch->cluster.z != 1) {
        gb_fatal(where, "the launch asks for clusters of %ux%ux%u workgroups, which OpenCL devices do not have",
                 launch->cluster.x, launch->cluster.y, launch->cluster.z);
    }
    if (launch->extra != NULL) {
        gb_fatal(where, "the launch passes its parameters in `extra`, which only CUDA and HIP support; pass them in `params`");
    }
    size_t added = kernel->content->parameter_count - launch->param_count;
    if (launch->param_count > kernel->content->parameter_count || added > MOST_ADDED) {
        gb_fatal(where, "the launch passes %zu arguments; the kernel has %u", launch->param_count,
                 kernel->content->parameter_count);
    }
    size_t most = 0;
    check(gb_cl.kernel_limit(kernel->handle, device->facts.handle, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL),
          "clGetKernelWorkGroupInfo", where);
    if ((size_t)block.x * block.y * block.z > most) {
        gb_fatal(where, "the launch has workgroups of %ux%ux%u work-items; for this kernel the device allows %zu", block.x,
                 block.y, block.z, most);
    }
}

static void opencl_launch(struct gb_device *base, void *handle, void *stream, const struct gb_launch *launch,
                          const struct gb_where *where) {
    struct opencl_device *device = own(base);
    struct opencl_kernel *kernel = handle;
    const struct gb_dim3 grid = launch->grid, block = launch->block;
    void *queue = queue_of(base, stream);
    check_launch(device, kernel, launch, where);
    size_t local[3] = {block.x, block.y, block.z};
    if (has_shape(kernel, launch)) {
        local[0] *= local[1] * local[2];
        local[1] = local[2] = 1;
    }
    const size_t global[3] = {grid.x * local[0], grid.y * local[1], grid.z * local[2]};
    gb_lock(&kernel->lock);
    gb_cl_result result = set_arguments(device, kernel, launch);
    const char *call = "clSetKernelArg";
    if (result == CL_SUCCESS) {
        call = "clEnqueueNDRangeKernel";
        result = gb_cl.launch(queue, kernel->handle, 3, NULL, global, local, 0, NULL, NULL);
    }
    gb_unlock(&kernel->lock);
    if (result != CL_SUCCESS) {
        fail(result, call, where, gb_launch_text(launch));
    }
    check(gb_cl.flush(queue), "clFlush", where);
}

/* ---- Streams and events ---- */

static void *create_queue(const struct opencl_device *device, gb_cl_result *result) {
    static const uint64_t properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_PROFILING_ENABLE, 0};
    return gb_cl.queue_create(device->context, device->facts.handle, properties, result);
}

/* Add a marker behind the work of the queue. */
static void *mark(void *queue, const struct gb_where *where) {
    void *marker = NULL;
    check(gb_cl.marker(queue, 0, NULL, &marker), "clEnqueueMarkerWithWaitList", where);
    check(gb_cl.flush(queue), "clFlush", where);
    return marker;
}

static bool is_complete(void *marker, const struct gb_where *where) {
    gb_cl_result status = CL_COMPLETE;
    check(gb_cl.event_info(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL), "clGetEventInfo", where);
    check(status < 0 ? status : CL_SUCCESS, "an operation of a stream", where);
    return status == CL_COMPLETE;
}

static void *opencl_stream_create(struct gb_device *base, const struct gb_where *where) {
    struct opencl_device *device = own(base);
    gb_cl_result result = CL_SUCCESS;
    gb_lock(&device->lock);
    struct queue *queue = device->queues;
    while (queue != NULL && (queue->last == NULL || !is_complete(queue->last, where))) {
        queue = queue->next;
    }
    if (queue != NULL) {
        check(gb_cl.event_release(queue->last), "clReleaseEvent", where);
        queue->last = NULL;
    } else {
        queue = gb_allocate(sizeof *queue);
        queue->handle = create_queue(device, &result);
        check(result, "clCreateCommandQueueWithProperties", where);
        queue->next = device->queues;
        device->queues = queue;
    }
    gb_unlock(&device->lock);
    return queue->handle;
}

/* The driver still executes the work of the stream. */
static void opencl_stream_destroy(struct gb_device *base, void *stream, const struct gb_where *where) {
    struct opencl_device *device = own(base);
    gb_lock(&device->lock);
    struct queue *queue = device->queues;
    while (queue != NULL && queue->handle != stream) {
        queue = queue->next;
    }
    if (queue == NULL || queue->last != NULL) {
        gb_fatal(where, "there is no such stream, or it is destroyed already");
    }
    queue->last = mark(stream, where);
    gb_unlock(&device->lock);
}

static void finish(const struct opencl_device *device, void *queue, const struct gb_where *where) {
    check(gb_cl.finish(queue), "clFinish", where);
    check_assertions(device, where);
}

/* Wait for the work of all streams, without the lock: kernels may wait for a thread that creates one. */
static void finish_all(struct opencl_device *device, const struct gb_where *where) {
    gb_lock(&device->lock);
    const struct queue *queue = device->queues;
    gb_unlock(&device->lock);
    finish(device, device->queue, where);
    for (; queue != NULL; queue = queue->next) {
        finish(device, queue->handle, where);
    }
}

static void opencl_stream_synchronize(struct gb_device *device, void *stream, const struct gb_where *where) {
    finish(own(device), queue_of(device, stream), where);
}

static void *opencl_event_create(struct gb_device *device, const struct gb_where *where) {
    (void)device, (void)where;
    struct opencl_event *event = gb_allocate(sizeof *event);
    (void)pthread_mutex_init(&event->lock, NULL);
    return event;
}

static void set_recorded(struct opencl_event *event, void *marker, const struct gb_where *where) {
    gb_lock(&event->lock);
    void *before = event->recorded;
    event->recorded = marker;
    gb_unlock(&event->lock);
    if (before != NULL) {
        check(gb_cl.event_release(before), "clReleaseEvent", where);
    }
}

static void opencl_event_destroy(struct gb_device *device, void *event, const struct gb_where *where) {
    (void)device;
    set_recorded(event, NULL, where);
    free(event);
}

static void opencl_event_record(struct gb_device *device, void *event, void *stream, const struct gb_where *where) {
    set_recorded(event, mark(queue_of(device, stream), where), where);
}

/* Return what the event stands for now, to be released, or NULL: another thread may record the event again. */
static void *retain_recorded(struct opencl_event *event, const struct gb_where *where) {
    gb_lock(&event->lock);
    void *recorded = event->recorded;
    if (recorded != NULL) {
        check(gb_cl.event_retain(recorded), "clRetainEvent", where);
    }
    gb_unlock(&event->lock);
    return recorded;
}

static void opencl_event_synchronize(struct gb_device *device, void *handle, const struct gb_where *where) {
    void *recorded = retain_recorded(handle, where);
    if (recorded != NULL) {
        check(gb_cl.wait(1, &recorded), "clWaitForEvents", where);
        check(gb_cl.event_release(recorded), "clReleaseEvent", where);
        check_assertions(own(device), where);
    }
}

static void opencl_stream_wait_event(struct gb_device *device, void *stream, void *handle, const struct gb_where *where) {
    void *recorded = retain_recorded(handle, where);
    if (recorded != NULL) {
        check(gb_cl.barrier(queue_of(device, stream), 1, &recorded, NULL), "clEnqueueBarrierWithWaitList", where);
        check(gb_cl.event_release(recorded), "clReleaseEvent", where);
    }
}

static uint64_t opencl_timer_elapsed_ns(struct gb_device *device, void *first, void *last, const struct gb_where *where) {
    uint64_t times[2] = {0, 0};
    void *const both[2] = {first, last};
    opencl_event_synchronize(device, last, where);
    for (int i = 0; i < 2; i++) {
        check(gb_cl.event_time(((struct opencl_event *)both[i])->recorded, CL_PROFILING_COMMAND_END, sizeof times[i], &times[i], NULL),
              "clGetEventProfilingInfo", where);
    }
    return times[1] - times[0];
}

/* ---- Memory ---- */

static void *opencl_memory_allocate(struct gb_device *base, size_t bytes, void *stream, bool shared,
                                    const struct gb_where *where) {
    (void)stream; /* not stream-ordered: any stream may use the memory at once, as upstream allows */
    struct opencl_device *device = own(base);
    gb_cl_result result = CL_SUCCESS;
    void *address = NULL;
    const char *call = "clSVMAlloc";
    if (device->facts.has_usm) {
        call = shared ? "clSharedMemAllocINTEL" : "clDeviceMemAllocINTEL";
        address = (shared ? device->facts.usm.allocate_shared : device->facts.usm.allocate_device)(device->context, device->facts.handle, NULL,
                                                                                     bytes, 0, &result);
    } else if (shared && (device->facts.svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) == 0) {
        gb_fatal(where, "this OpenCL device has no memory that host and kernels can both access at any time\n"
                        "  what to do: use gpu.alloc without host_shared, and gpu.memcpy");
    } else {
        address = gb_cl.svm_allocate(device->context, CL_MEM_READ_WRITE | (shared ? CL_MEM_SVM_FINE_GRAIN_BUFFER : 0), bytes, 0);
    }
    if (address == NULL || result != CL_SUCCESS) {
        fail(result != CL_SUCCESS ? result : -4, call, where, gb_text("%zu bytes", bytes));
    }
    return address;
}

static void opencl_memory_free(struct gb_device *base, void *address, void *stream, const struct gb_where *where) {
    struct opencl_device *device = own(base);
    if (device->facts.has_usm) {
        check(device->facts.usm.release(device->context, address), "clMemBlockingFreeINTEL", where); /* waits for its users */
        return;
    }
    finish_all(device, where);
    finish(device, queue_of(base, stream), where); /* it may be another library's */
    gb_cl.svm_free(device->context, address);
}

static void copy(struct opencl_device *device, void *queue, void *to, const void *from, size_t bytes,
                 const struct gb_where *where) {
    if (bytes == 0) {
        return;
    }
    if (device->facts.has_usm) {
        check(device->facts.usm.copy(queue, 0, to, from, bytes, 0, NULL, NULL), "clEnqueueMemcpyINTEL", where);
    } else {
        check(gb_cl.svm_copy(queue, 0, to, from, bytes, 0, NULL, NULL), "clEnqueueSVMMemcpy", where);
    }
}

static void opencl_memory_copy(struct gb_device *device, void *to, void *from, size_t bytes, void *stream,
                               const struct gb_where *where) {
    void *queue = queue_of(device, stream);
    copy(own(device), queue, to, from, bytes, where);
    check(gb_cl.flush(queue), "clFlush", where);
}

static void fill(struct opencl_device *device, void *queue, void *to, const void *pattern, size_t pattern_bytes, size_t bytes,
                 const struct gb_where *where) {
    if (device->facts.has_usm) {
        check(device->facts.usm.fill(queue, to, pattern, pattern_bytes, bytes, 0, NULL, NULL), "clEnqueueMemFillINTEL", where);
    } else {
        check(gb_cl.svm_fill(queue, to, pattern, pattern_bytes, bytes, 0, NULL, NULL), "clEnqueueSVMMemFill", where);
    }
}

/* Fills have patterns of 1, 2 or 4 bytes here, at multiples of their size; other elements are written once, and copied in
 * doubling pieces. */
static void opencl_memory_fill(struct gb_device *base, void *to, const void *element, size_t element_bytes, size_t count,
                               void *stream, const struct gb_where *where) {
    struct opencl_device *device = own(base);
    void *queue = queue_of(base, stream);
    size_t unit = gb_fill_unit(element, element_bytes), total = element_bytes * count;
    if (total == 0) {
        return;
    }
    if (unit != 0 && (uintptr_t)to % unit == 0) {
        fill(device, queue, to, element, unit, total, where);
    } else {
        for (size_t at = 0; at < element_bytes; at++) {
            fill(device, queue, (char *)to + at, (const char *)element + at, 1, 1, where);
        }
        for (size_t done = element_bytes; done < total; done *= 2) {
            copy(device, queue, (char *)to + done, to, done < total - done ? done : total - done, where);
        }
    }
    check(gb_cl.flush(queue), "clFlush", where);
}

static void opencl_host_register(struct gb_device *device, void *address, size_t bytes, const struct gb_where *where) {
    (void)address, (void)bytes;
    if ((own(device)->facts.svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) == 0) {
        gb_fatal(where, "kernels of this OpenCL device cannot access memory of the host\n"
                        "  what to do: use gpu.alloc host_shared, or gpu.memcpy, instead of gpu.host_register");
    }
}

static void opencl_host_unregister(struct gb_device *device, void *address, const struct gb_where *where) {
    (void)device, (void)address, (void)where;
}

static const struct gb_device_calls calls = {
    GB_COMMON_CALLS(opencl),
    .timer_create = opencl_event_create,
    .timer_elapsed_ns = opencl_timer_elapsed_ns,
};

/* ---- Opening ---- */

/* Finish the work of all devices before the drivers end: an assertion may fail in it. Forked processes have no work. */
static void finish_devices(void) {
    for (int i = 0; getpid() == opened_by && i < GB_MAX_DEVICES; i++) {
        if (devices[i] != NULL) {
            finish_all(devices[i], &(struct gb_where){.device = devices[i]->base.name, .call = "exit"});
        }
    }
}

static struct gb_device *opencl_open(int ordinal, char **why) {
    struct gb_opencl_facts facts;
    if (!gb_opencl_find(ordinal, &facts, why)) {
        return NULL;
    }
    if (devices[ordinal] != NULL) {
        return &devices[ordinal]->base;
    }
    struct opencl_device *device = gb_allocate(sizeof *device);
    device->facts = facts;
    gb_cl_result result = CL_SUCCESS;
    device->context = gb_cl.context_create(NULL, 1, &device->facts.handle, NULL, NULL, &result);
    if (result == CL_SUCCESS) {
        device->queue = create_queue(device, &result);
    }
    if (result != CL_SUCCESS) {
        *why = gb_text("opencl:%d cannot be opened: %s (%d)", ordinal, gb_opencl_result_name(result), result);
        free(device);
        return NULL;
    }
    if (!gb_opencl_describe(&device->facts)) {
        *why = gb_text("opencl:%d has neither shared virtual memory nor cl_intel_unified_shared_memory", ordinal);
        free(device);
        return NULL;
    }
    device->base = (struct gb_device){
        .vendor = GB_VENDOR_OPENCL,
        .ordinal = ordinal,
        .name = gb_text("opencl:%d (%s)", ordinal, device->facts.name),
        .calls = &calls,
    };
    (void)pthread_mutex_init(&device->lock, NULL);
    devices[ordinal] = device;
    if (opened_by == 0 && atexit(finish_devices) != 0) {
        gb_fatal(NULL, "opencl:%d cannot be opened: atexit failed", ordinal);
    }
    opened_by = getpid();
    return &device->base;
}

const struct gb_sparse_vendor gb_opencl_sparse = {.prefix = "none"};
const struct gb_vendor_calls gb_opencl_vendor = {.open = opencl_open, .recognize = gb_opencl_recognize};
