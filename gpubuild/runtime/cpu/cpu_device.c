/* cpu_device.c: the processor as a device. Launches, copies and fills become work of a stream. */
#define _GNU_SOURCE /* tsearch and its kin */
#include "core/module.h"
#include "cpu/cpu_device.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 256,      /* what cuMemAlloc promises */
    AT_ONCE_BYTES = 16384 /* submitting a copy of this size takes longer than the copy */
};

static const struct gb_device_calls calls;

static struct gb_fit cpu_fit(struct gb_device *device, const struct gb_image *image) {
    (void)device;
    return gb_cpu_fit(image);
}

static void *cpu_module_load(struct gb_device *device, const struct gb_image *image, int opt_level,
                             const struct gb_where *where) {
    (void)device, (void)opt_level;
    return gb_cpu_module_load(image->data, image->size, where->module);
}

static void cpu_module_unload(struct gb_device *device, void *module, const struct gb_where *where) {
    (void)device, (void)where;
    gb_cpu_streams_drain(); /* the program may end while kernels run */
    gb_cpu_module_unload(module);
}

static void *cpu_kernel(struct gb_device *device, void *module, const char *name, const struct gb_where *where) {
    (void)device;
    const gb_cpu_kernel *kernel = gb_cpu_module_kernel(module, name);
    if (kernel == NULL) {
        gb_fatal(where, "the module has no kernel of this name");
    }
    return (void *)kernel; /* an opaque handle; no code writes through it */
}

/* ---- launches ---- */

struct launch_work {
    struct gb_cpu_work work;
    const gb_cpu_kernel *kernel;
    struct gb_profile *profile; /* NULL: no profile */
    uint64_t bytes;             /* of memory that the arguments point into; only with a profile */
    struct gb_launch launch;    /* `params` point behind this */
    struct gb_where where;      /* for messages; its texts live as long as the module */
};

static void run_launch(struct gb_cpu_work *work) {
    const struct launch_work *self = (const struct launch_work *)work;
    uint64_t start = self->profile != NULL ? gb_now_ns() : 0;
    const struct gb_where *before = gb_enter(&self->where); /* of a host thread that does the work of its stream */
    gb_cpu_launch(self->kernel, &self->launch);
    gb_enter(before);
    if (self->profile != NULL) {
        gb_profile_add(self->profile, gb_now_ns() - start, self->bytes);
    }
}

/* The offset of a parameter of `bytes`, at least `offset`: a multiple of its size's next power of two, as
 * C and LLVM have it, or of the largest vectors'. */
static size_t param_offset(size_t offset, size_t bytes) {
    size_t alignment = 8;
    while (alignment < bytes && alignment < GB_CPU_WORK_ALIGNMENT) {
        alignment *= 2;
    }
    return (offset + alignment - 1) / alignment * alignment;
}

static uint64_t reached_bytes(void *const *params, const uint64_t *param_bytes, size_t count);

/* A launch with its own copy of the parameters: the caller's are on its stack. */
static struct launch_work *make_launch(const gb_cpu_kernel *kernel, const struct gb_launch *launch,
                                       const struct gb_where *where) {
    size_t count = (size_t)kernel->param_count;
    size_t head = sizeof(struct launch_work) + count * sizeof(void *);
    size_t bytes = head;
    for (size_t i = 0; i < count; i++) {
        bytes = param_offset(bytes, (size_t)kernel->param_bytes[i]) + (size_t)kernel->param_bytes[i];
    }
    struct launch_work *self = gb_cpu_work_make(bytes, run_launch);
    self->kernel = kernel;
    self->launch = *launch;
    self->where = *where;
    if (gb_profile_on()) {
        self->profile = gb_profile_of(where);
        self->bytes = reached_bytes(launch->params, kernel->param_bytes, count);
    }
    self->launch.params = (void **)(self + 1);
    for (size_t i = 0, offset = head; i < count; i++) {
        size_t param_bytes = (size_t)kernel->param_bytes[i];
        offset = param_offset(offset, param_bytes);
        self->launch.params[i] = memcpy((char *)self + offset, launch->params[i], param_bytes);
        offset += param_bytes;
    }
    return self;
}

static void cpu_launch(struct gb_device *device, void *kernel, void *stream, const struct gb_launch *launch,
                       const struct gb_where *where) {
    (void)device;
    if (launch->extra != NULL) {
        gb_fatal(where, "the launch passes its parameters in `extra`, which only GPU drivers support; pass them in `params`");
    }
    gb_cpu_launch_check(kernel, launch);
    gb_cpu_stream_submit(stream, &make_launch(kernel, launch, where)->work);
}

/* ---- streams and events ---- */

/* A NULL event is an error, which drivers report too. */
static struct gb_cpu_event *some_event(void *event, const struct gb_where *where) {
    if (event == NULL) {
        gb_fatal(where, "the event is NULL");
    }
    return event;
}

#define ON_DEVICE(device, where, symbol, call) ((void)(device), (void)(where), (void)(call))

GB_NEW_HANDLE_CALL(cpu_stream_create, stream, , stream = gb_cpu_stream_create())
GB_DRIVER_CALL(cpu_stream_destroy, , gb_cpu_stream_destroy(stream), void *stream)
GB_DRIVER_CALL(cpu_stream_synchronize, , gb_cpu_stream_synchronize(stream), void *stream)
GB_DRIVER_CALL(cpu_stream_wait_event, , gb_cpu_stream_wait(stream, some_event(event, where)), void *stream, void *event)

GB_NEW_HANDLE_CALL(cpu_event_create, event, , event = gb_cpu_event_create())
GB_DRIVER_CALL(cpu_event_destroy, , gb_cpu_event_destroy(some_event(event, where)), void *event)
GB_DRIVER_CALL(cpu_event_synchronize, , gb_cpu_event_synchronize(some_event(event, where)), void *event)
GB_DRIVER_CALL(cpu_event_record, , gb_cpu_event_record(some_event(event, where), stream), void *event, void *stream)

/* ---- memory ---- */

/* Hold a thread slot for a long copy or fill, which keeps a CPU busy as a kernel does. */
static void enter_slot(size_t bytes) {
    if (bytes > AT_ONCE_BYTES) {
        gb_cpu_slot_acquire();
    }
}

static void leave_slot(size_t bytes) {
    if (bytes > AT_ONCE_BYTES) {
        gb_cpu_slot_release();
    }
}

static bool is_done_at_once(void *stream, size_t bytes) {
    return bytes <= AT_ONCE_BYTES && gb_cpu_stream_is_idle(stream);
}

/* A copy, or the release of `to`. */
struct memory_work {
    struct gb_cpu_work work;
    void *to;
    void *from;
    size_t bytes;
};

static void run_copy(struct gb_cpu_work *work) {
    const struct memory_work *self = (const struct memory_work *)work;
    enter_slot(self->bytes);
    memmove(self->to, self->from, self->bytes); /* like the drivers', defined for overlapping ranges of one buffer */
    leave_slot(self->bytes);
}

/* Elements may lie at any address: a subview of packed data need not be aligned. Constant sizes are fast. */
static void fill(char *to, const void *element, size_t element_bytes, size_t count) {
    for (size_t i = 0; element_bytes == 4 && i < count; i++) {
        memcpy(to + 4 * i, element, 4);
    }
    for (size_t i = 0; element_bytes != 4 && i < count; i++) {
        memcpy(to + i * element_bytes, element, element_bytes);
    }
}

struct fill_work {
    struct gb_cpu_work work;
    char *to;
    size_t count;
    size_t element_bytes;
    char element[];
};

static void run_fill(struct gb_cpu_work *work) {
    const struct fill_work *self = (const struct fill_work *)work;
    enter_slot(self->count * self->element_bytes);
    fill(self->to, self->element, self->element_bytes, self->count);
    leave_slot(self->count * self->element_bytes);
}

/* ---- allocations that are not freed yet: a balanced tree of the C library, ordered by address ---- */

struct span {
    uintptr_t first;
    size_t bytes;
    uint64_t counted; /* number of the last launch in whose profile it was counted */
};

static pthread_mutex_t spans_lock = PTHREAD_MUTEX_INITIALIZER;
static void *spans; /* no two have a byte in common */

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_MEMORY, &spans_lock);
}

/* Spans that overlap are equal, so that one byte finds the span it is in. */
static int compare_spans(const void *left, const void *right) {
    const struct span *a = left;
    const struct span *b = right;
    return a->first + a->bytes <= b->first ? -1 : b->first + b->bytes <= a->first ? 1 : 0;
}

/* The lock is held. */
static struct span *containing(const void *address) {
    const struct span byte = {.first = (uintptr_t)address, .bytes = 1};
    struct span **found = tfind(&byte, &spans, compare_spans);
    return found != NULL ? *found : NULL;
}

static void add_span(void *address, size_t bytes) {
    struct span *made = gb_allocate(sizeof *made);
    *made = (struct span){.first = (uintptr_t)address, .bytes = bytes};
    gb_lock(&spans_lock);
    /* Earlier allocations at this address were freed without this device, for instance by memref.dealloc. */
    for (struct span **gone; (gone = tfind(made, &spans, compare_spans)) != NULL;) {
        struct span *old = *gone;
        tdelete(old, &spans, compare_spans);
        free(old);
    }
    struct span **kept = tsearch(made, &spans, compare_spans);
    gb_unlock(&spans_lock);
    if (kept == NULL) {
        gb_fatal(NULL, "out of host memory");
    }
}

/* Other memory that kernels may access, for profiles and `sanitize: [host-memory]`: host memory that is registered, and
 * allocations that are freed once submitted kernels have run. A list: it may overlap, and is short. */
struct registered {
    struct span span;
    struct registered *next;
};

static struct registered *registered;

/* The lock is held. */
static void add_registered(void *address, size_t bytes) {
    struct registered *made = gb_allocate(sizeof *made);
    *made = (struct registered){.span = {.first = (uintptr_t)address, .bytes = bytes}, .next = registered};
    registered = made;
}

static void remove_registered(const void *address) {
    pthread_mutex_lock(&spans_lock);
    for (struct registered **link = &registered; *link != NULL; link = &(*link)->next) {
        if ((*link)->span.first == (uintptr_t)address) {
            struct registered *gone = *link;
            *link = gone->next;
            free(gone);
            break;
        }
    }
    pthread_mutex_unlock(&spans_lock);
}

static atomic_bool keeps_freed;

void gb_cpu_keep_freed_memory(void) {
    keeps_freed = true;
}

/* Fatal if no allocation that is not freed yet begins at the address. */
static void remove_span(void *address, const struct gb_where *where) {
    gb_lock(&spans_lock);
    struct span *found = containing(address);
    const struct span at = found != NULL ? *found : (struct span){0};
    if (at.first == (uintptr_t)address && found != NULL) {
        if (keeps_freed) {
            add_registered(address, at.bytes);
        }
        tdelete(found, &spans, compare_spans);
        free(found);
    }
    gb_unlock(&spans_lock);
    if (found == NULL) {
        gb_fatal(where, "%p is freed, and no memory that the program has allocated and not freed begins there: it is freed "
                        "twice, or was not allocated by gpu.alloc", address);
    }
    if (at.first != (uintptr_t)address) {
        gb_fatal(where, "%p is freed, which lies %zu bytes inside an allocation of %zu: free what was allocated", address,
                 (size_t)((uintptr_t)address - at.first), at.bytes);
    }
}

/* Fatal if `bytes` at `address` begin in an allocation and do not end in it. Other memory may be the host's, whose size is
 * not known. `doing` is the operation, such as "the program copies". */
static void check_span(const void *address, size_t bytes, const char *doing, const struct gb_where *where) {
    gb_lock(&spans_lock);
    const struct span *found = containing(address);
    const struct span at = found != NULL ? *found : (struct span){0};
    gb_unlock(&spans_lock);
    size_t before = (uintptr_t)address - at.first;
    if (found != NULL && bytes > at.bytes - before) {
        gb_fatal(where, "%s %zu bytes at %p, where the allocation of %zu bytes has %zu left", doing, bytes, address, at.bytes,
                 at.bytes - before);
    }
}

static void *cpu_memory_allocate(struct gb_device *device, size_t bytes, void *stream, bool shared,
                                 const struct gb_where *where) {
    (void)device, (void)stream;
    (void)shared; /* all memory is */
    void *address = NULL;
    if (posix_memalign(&address, ALIGNMENT, bytes) != 0) {
        gb_fatal(where, "out of memory: %zu bytes requested", bytes);
    }
    add_span(address, bytes);
    return address;
}

static void run_free(struct gb_cpu_work *work) {
    void *address = ((struct memory_work *)work)->to;
    if (keeps_freed) {
        remove_registered(address);
    }
    free(address);
}

/* Drivers wait for all work that may use the memory, on any stream. Here no thread waits: the memory is freed after all
 * submitted work. */
static void cpu_memory_free(struct gb_device *device, void *address, void *stream, const struct gb_where *where) {
    (void)device, (void)stream;
    remove_span(address, where);
    struct memory_work *self = gb_cpu_work_make(sizeof *self, run_free);
    self->to = address;
    gb_cpu_submit_last(&self->work);
}

static void cpu_memory_copy(struct gb_device *device, void *to, void *from, size_t bytes, void *stream,
                            const struct gb_where *where) {
    (void)device;
    check_span(to, bytes, "the program copies", where);
    check_span(from, bytes, "the program reads for a copy", where);
    if (is_done_at_once(stream, bytes)) {
        memmove(to, from, bytes);
        return;
    }
    struct memory_work *self = gb_cpu_work_make(sizeof *self, run_copy);
    self->to = to;
    self->from = from;
    self->bytes = bytes;
    gb_cpu_stream_submit(stream, &self->work);
}

static void cpu_memory_fill(struct gb_device *device, void *to, const void *element, size_t element_bytes,
                            size_t count, void *stream, const struct gb_where *where) {
    (void)device;
    check_span(to, count * element_bytes, "the program sets", where);
    if (is_done_at_once(stream, count * element_bytes)) {
        fill(to, element, element_bytes, count);
        return;
    }
    struct fill_work *self = gb_cpu_work_make(sizeof *self + element_bytes, run_fill);
    self->to = to;
    self->count = count;
    self->element_bytes = element_bytes;
    memcpy(self->element, element, element_bytes);
    gb_cpu_stream_submit(stream, &self->work);
}

static void cpu_host_register(struct gb_device *device, void *address, size_t bytes, const struct gb_where *where) {
    (void)device, (void)where;
    pthread_mutex_lock(&spans_lock);
    add_registered(address, bytes);
    pthread_mutex_unlock(&spans_lock);
}

static void cpu_host_unregister(struct gb_device *device, void *address, const struct gb_where *where) {
    (void)device, (void)where;
    remove_registered(address);
}

/* The lock is held. */
static struct span *device_memory_at(uintptr_t address) {
    struct span *found = containing((const void *)address);
    for (struct registered *one = registered; found == NULL && one != NULL; one = one->next) {
        found = address - one->span.first < one->span.bytes ? &one->span : NULL;
    }
    return found;
}

/* The bytes of all memory that parameters point into; each memory is counted once. */
static uint64_t reached_bytes(void *const *params, const uint64_t *param_bytes, size_t count) {
    static uint64_t launches;
    uint64_t total = 0;
    pthread_mutex_lock(&spans_lock);
    launches++;
    for (size_t i = 0; i < count; i++) {
        uintptr_t value = 0;
        if (param_bytes[i] == sizeof value) {
            memcpy(&value, params[i], sizeof value);
            struct span *found = device_memory_at(value);
            if (found != NULL && found->counted != launches) {
                found->counted = launches;
                total += found->bytes;
            }
        }
    }
    pthread_mutex_unlock(&spans_lock);
    return total;
}

void gb_cpu_note_host_memory(void *address, size_t bytes) {
    pthread_mutex_lock(&spans_lock);
    if (gb_profile_on() && device_memory_at((uintptr_t)address) == NULL) {
        add_registered(address, bytes);
    }
    pthread_mutex_unlock(&spans_lock);
}

bool gb_cpu_is_device_memory(uint64_t address, uint64_t *first, uint64_t *bytes) {
    pthread_mutex_lock(&spans_lock);
    const struct span *found = device_memory_at((uintptr_t)address);
    if (found != NULL) {
        *first = found->first;
        *bytes = found->bytes;
    }
    pthread_mutex_unlock(&spans_lock);
    return found != NULL;
}

static const struct gb_device_calls calls = {
    GB_COMMON_CALLS(cpu),
    .uses_host_memory = true,
};

static struct gb_device *cpu_open(int ordinal, char **why) {
    static char name[] = "cpu";
    static struct gb_device device = {.vendor = GB_VENDOR_CPU, .ordinal = 0, .name = name, .calls = &calls};
    if (ordinal != 0) {
        *why = gb_text("there is no cpu:%d; the processor is one device", ordinal);
        return NULL;
    }
    gb_library_stay(); /* while no lock of streams or of the pool is held */
    return &device;
}

const struct gb_vendor_calls gb_cpu_vendor = {.open = cpu_open, .recognize = gb_cpu_recognize};
