/* strided_memory.c: copies and fills for which the mgpu* ABI has no call: elements of any size, and memrefs with gaps
 * between their elements. gpubuild's host code calls these functions.
 *
 * Extents are read before a call returns. What lies without gaps becomes one operation of the device.
 */
#include "core/module.h"

/* One copy (`from` is not NULL) or fill. Strides are in elements. */
struct task {
    struct gb_device *device;
    const struct gb_where *where;
    void *stream;
    const int64_t *sizes;
    const int64_t *to_strides;
    const int64_t *from_strides;
    const void *element;
    size_t element_bytes;
    size_t run; /* elements without gaps that are done at once */
};

/* Take dimensions from the inside as long as they follow each other without gaps; returns how many are left. */
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
        const struct gb_device_calls *calls = task->device->calls;
        if (from != NULL) {
            calls->memory_copy(task->device, to, from, task->run * task->element_bytes, task->stream, task->where);
        } else {
            calls->memory_fill(task->device, to, task->element, task->element_bytes, task->run, task->stream,
                               task->where);
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
