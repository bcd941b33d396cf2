/* access_checks.c: the checks that kernels with `sanitize:` call, and the calls of the launcher around them. */
#define _GNU_SOURCE /* dladdr */
#include "sanitizer/sanitizer.h"

#include "cpu/cpu_device.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of segments, which grows as needed with zeros. */
struct segments {
    uint32_t *numbers;
    uint32_t count, capacity;
};

/* A workgroup that this thread runs. */
struct workgroup {
    uint32_t block[3];
    bool begun;
    uint32_t epoch, segment; /* of all work-items, in code that runs whole workgroups */
    uint32_t epochs[GB_CPU_MAX_BLOCK];        /* barriers that each work-item has passed */
    uint32_t item_segments[GB_CPU_MAX_BLOCK]; /* of each work-item */
    struct segments segments;                 /* of each epoch; 0 where not known yet */
    bool waited; /* in code that runs whole workgroups: subgroups have waited, so `item_segments` is used */
    uint32_t waits[GB_CPU_MAX_BLOCK]; /* of each work-item's subgroup, since the latest barrier */
    uint32_t wait_epoch;
    struct segments wait_segments; /* behind each wait in that epoch */
    unsigned char *written;        /* 1 for each byte of its memory that was written */
    size_t written_capacity;
};

/* The workgroups of this thread. A thread without checked kernels has only a null pointer. */
struct thread {
    const gb_cpu_launch_info *launch;
    char *shared;
    size_t stride;
    const char *stack_top; /* above the frames of kernels */
    bool single; /* one workgroup at a time */
    uint64_t device_first, device_bytes; /* memory that GPUs could access, found last in this launch */
    struct workgroup groups[GB_CHECK_MOST_BLOCKS];
};

static _Thread_local struct thread *mine;

void gb_check_image(const gb_cpu_image *image) {
    for (uint64_t i = 0; i < image->kernel_count; i++) {
        if ((image->kernels[i].flags & GB_CPU_KERNEL_CHECKS) != 0) {
            gb_check_enable();
            if ((image->kernels[i].flags & GB_CPU_KERNEL_CHECK_HOST_MEMORY) != 0) {
                gb_cpu_keep_freed_memory();
            }
            return;
        }
    }
}

void gb_check_launch_begin(const gb_cpu_kernel *kernel) {
    gb_check_count_launch(kernel);
    if ((kernel->flags & GB_CPU_KERNEL_CHECK_RACE) != 0) {
        gb_check_race_begin();
    }
}

void gb_check_launch_end(const gb_cpu_kernel *kernel) {
    if ((kernel->flags & GB_CPU_KERNEL_CHECK_RACE) != 0) {
        gb_check_race_end();
    }
    gb_check_flush(kernel);
}

void gb_check_workgroups(const gb_cpu_launch_info *launch, char *shared, size_t stride, uint32_t blocks) {
    if (mine == NULL) {
        mine = gb_allocate(sizeof *mine); /* never freed: threads live as long as the program */
    }
    mine->launch = launch;
    mine->shared = shared;
    mine->single = blocks == 1;
    mine->stride = stride;
    mine->stack_top = __builtin_frame_address(0);
    mine->device_bytes = 0; /* it may have been freed */
    for (uint32_t i = 0; i < blocks; i++) {
        mine->groups[i].begun = false;
    }
}

/* ---- indices ---- */

static uint64_t linear_block(const gb_cpu_item *item) {
    const uint32_t *id = item->block_id;
    return ((uint64_t)id[2] * item->grid_dim[1] + id[1]) * item->grid_dim[0] + id[0];
}

/* A finding of `kind` by a work-item; the caller adds the rest. */
static struct gb_check_finding start_finding(enum gb_check_kind kind, const gb_cpu_item *item, uint32_t site) {
    struct gb_check_finding finding = {.kind = kind, .kernel = item->kernel, .block = linear_block(item)};
    const uint32_t *dim = item->block_dim;
    const uint32_t *id = item->thread_id;
    finding.item = (id[2] * dim[1] + id[1]) * dim[0] + id[0];
    memcpy(finding.by.block, item->block_id, sizeof finding.by.block);
    memcpy(finding.by.item, item->thread_id, sizeof finding.by.item);
    finding.by.site = site;
    finding.other.site = GB_CHECK_NOWHERE;
    return finding;
}

/* Whether the indices are in bounds: the same condition as in compiled code. */
static bool inside(uint64_t first, uint64_t count, uint64_t step, uint64_t size) {
    if (count == 0) {
        return true;
    }
    uint64_t last = first + (count - 1) * step;
    bool second = count == 1 || first + step < size;
    return first < size && second && last < size && (count <= size || step == 0);
}

static bool note_bounds(const gb_cpu_item *item, uint32_t site, uint32_t dimension, uint64_t first, uint64_t count,
                        uint64_t step, uint64_t size, bool view) {
    if (inside(first, count, step, size)) {
        return false; /* the index of another dimension is wrong */
    }
    struct gb_check_finding finding = start_finding(GB_CHECK_BOUNDS, item, site);
    finding.view = view;
    finding.dimension = dimension;
    finding.first = first;
    finding.count = count;
    finding.step = step;
    finding.size = size;
    gb_check_note(&finding);
    return true;
}

void gb_check_bounds(gb_cpu_item *item, uint32_t site, uint32_t dimension, uint64_t first, uint64_t count,
                     uint64_t step, uint64_t size) {
    (void)note_bounds(item, site, dimension, first, count, step, size, false);
}

void gb_check_view(gb_cpu_item *item, uint32_t site, uint32_t dimension, uint64_t first, uint64_t count,
                   uint64_t step, uint64_t size) {
    if (note_bounds(item, site, dimension, first, count, step, size, true)) {
        gb_check_end(); /* accesses through the view are checked by its wrong sizes */
    }
}

/* ---- workgroups ---- */

static uint32_t *segment_at(struct segments *list, uint32_t index) {
    if (index >= list->capacity) {
        list->capacity = 2 * index + 16;
        list->numbers = realloc(list->numbers, list->capacity * sizeof *list->numbers);
        if (list->numbers == NULL) {
            gb_fatal(NULL, "out of host memory");
        }
    }
    for (; list->count <= index; list->count++) {
        list->numbers[list->count] = 0;
    }
    return &list->numbers[index];
}

static uint32_t segment_of(struct workgroup *group, const gb_cpu_item *item, uint32_t epoch) {
    uint32_t *segment = segment_at(&group->segments, epoch);
    if (*segment == 0) {
        *segment = gb_check_segment(linear_block(item), 0);
    }
    return *segment;
}

/* The segment of subgroups that have waited `waits` times after the barrier that begins `epoch`. They may share it: the
 * work-item of an access identifies its subgroup. */
static uint32_t segment_behind(struct workgroup *group, const gb_cpu_item *item, uint32_t epoch, uint32_t waits) {
    if (group->wait_epoch != epoch) {
        group->wait_epoch = epoch; /* no work-item waits in an earlier one any more */
        group->wait_segments.count = 0;
    }
    uint32_t *segment = segment_at(&group->wait_segments, waits);
    if (*segment == 0) {
        *segment = gb_check_segment(linear_block(item), segment_of(group, item, epoch));
    }
    return *segment;
}

__attribute__((noinline)) static void begin_group(struct workgroup *group, const gb_cpu_item *item) {
    const uint32_t *dim = item->block_dim;
    uint32_t items = dim[0] * dim[1] * dim[2];
    memcpy(group->block, item->block_id, sizeof group->block);
    group->begun = true;
    memset(group->epochs, 0, items * sizeof *group->epochs);
    group->segments.count = 0;
    if ((item->kernel->flags & GB_CPU_KERNEL_CHECK_RACE) != 0) {
        if (mine->single) {
            gb_check_drop_segments();
        }
        uint32_t segment = segment_of(group, item, 0);
        group->epoch = 0;
        group->segment = segment;
        group->waited = false;
        group->wait_epoch = 0;
        group->wait_segments.count = 0;
        memset(group->waits, 0, items * sizeof *group->waits);
        for (uint32_t i = 0; i < items; i++) {
            group->item_segments[i] = segment;
        }
    }
    if ((item->kernel->flags & GB_CPU_KERNEL_CHECK_UNINITIALIZED) != 0) {
        size_t bytes = (size_t)(item->dynamic - item->shared) + item->dynamic_bytes;
        if (bytes > group->written_capacity) {
            free(group->written);
            group->written = gb_allocate(bytes);
            group->written_capacity = bytes;
        } else if (bytes > 0) {
            memset(group->written, 0, bytes);
        }
    }
}

static inline struct workgroup *group_of(struct thread *thread, const gb_cpu_item *item) {
    size_t number = thread->single ? 0 : (size_t)(item->shared - thread->shared) / thread->stride;
    struct workgroup *group = &thread->groups[number];
    const uint32_t *a = group->block;
    const uint32_t *b = item->block_id;
    if (!group->begun || a[0] != b[0] || a[1] != b[1] || a[2] != b[2]) {
        begin_group(group, item);
    }
    return group;
}

void gb_check_meet(gb_cpu_item *item) {
    struct workgroup *group = group_of(mine, item);
    if (item->kernel->run != NULL) {
        /* Code that runs the whole workgroup calls this once. */
        group->segment = segment_of(group, item, ++group->epoch);
        group->waited = false;
        return;
    }
    uint32_t epoch = ++group->epochs[item->linear_id];
    group->waits[item->linear_id] = 0;
    group->item_segments[item->linear_id] = segment_of(group, item, epoch);
}

void gb_check_wait(gb_cpu_item *item) {
    struct workgroup *group = group_of(mine, item);
    bool whole = item->kernel->run != NULL;
    if (whole && !group->waited) {
        uint32_t items = item->block_dim[0] * item->block_dim[1] * item->block_dim[2];
        group->waited = true;
        for (uint32_t i = 0; i < items; i++) {
            group->waits[i] = 0;
            group->item_segments[i] = group->segment;
        }
    }
    uint32_t epoch = whole ? group->epoch : group->epochs[item->linear_id];
    uint32_t waits = ++group->waits[item->linear_id];
    group->item_segments[item->linear_id] = segment_behind(group, item, epoch, waits);
}

static inline uint32_t current_segment(const struct workgroup *group, const gb_cpu_item *item) {
    bool together = item->kernel->run != NULL && !group->waited;
    return together ? group->segment : group->item_segments[item->linear_id];
}

/* ---- accesses ---- */

/* Whether only this work-item can know the address: it is in the kernel's frames, or in the context arrays to which
 * fission moves private memory. */
static inline bool is_private(const struct thread *thread, const gb_cpu_item *item, uint64_t address) {
    uint64_t frame = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    uint64_t offset = address - (uint64_t)(uintptr_t)item->contexts;
    if (item->contexts != NULL && offset < item->kernel->context_bytes) {
        return true;
    }
    const char *end = item->kernel->run == NULL ? gb_cpu_team_stack_end(item) : thread->stack_top;
    return address >= frame && address < (uint64_t)(uintptr_t)end;
}

static void position_of(uint64_t linear, const uint32_t *dim, uint32_t *position) {
    position[0] = (uint32_t)(linear % dim[0]);
    position[1] = (uint32_t)(linear / dim[0] % dim[1]);
    position[2] = (uint32_t)(linear / dim[0] / dim[1]);
}

/* Rare, so not inlined: gb_check_access then needs almost no stack. */
__attribute__((noinline)) static void check_race(const gb_cpu_item *item, uint32_t segment, uint32_t site,
                                                 uint32_t mode, uint64_t address, uint64_t bytes, bool shared) {
    struct gb_check_conflict conflict;
    if (!gb_check_race_access(address, bytes, mode, shared, segment, item->linear_id, site, &conflict)) {
        return;
    }
    struct gb_check_finding finding = start_finding(GB_CHECK_RACE, item, site);
    finding.by.mode = mode;
    finding.address = shared ? address - (uint64_t)(uintptr_t)item->shared : address;
    finding.bytes = bytes;
    finding.workgroup_memory = shared;
    position_of(conflict.block, item->grid_dim, finding.other.block);
    position_of(conflict.item, item->block_dim, finding.other.item);
    finding.other.site = conflict.site;
    finding.other.mode = conflict.mode;
    gb_check_note(&finding);
}

static void check_initialized(const gb_cpu_item *item, struct workgroup *group, uint32_t site, uint32_t mode,
                              uint64_t offset, uint64_t bytes) {
    if (mode != GB_CHECK_WRITE && memchr(group->written + offset, 0, bytes) != NULL) {
        struct gb_check_finding finding = start_finding(GB_CHECK_UNINITIALIZED, item, site);
        finding.by.mode = mode;
        finding.address = offset;
        finding.bytes = bytes;
        finding.workgroup_memory = true;
        gb_check_note(&finding);
    }
    if (mode != GB_CHECK_READ) {
        memset(group->written + offset, 1, bytes);
    }
}

/* Whether a GPU could access the memory, which is not the workgroup's or a work-item's. */
static bool is_device_memory(struct thread *thread, const gb_cpu_item *item, uint64_t address) {
    if (address - thread->device_first < thread->device_bytes ||
        gb_cpu_is_device_memory(address, &thread->device_first, &thread->device_bytes)) {
        return true;
    }
    Dl_info memory, image; /* variables of the gpu.module are in its image */
    return dladdr((void *)(uintptr_t)address, &memory) != 0 && dladdr(item->kernel, &image) != 0 &&
           memory.dli_fbase == image.dli_fbase;
}

__attribute__((noinline)) static void report_host_memory(const gb_cpu_item *item, uint32_t site, uint32_t mode,
                                                         uint64_t address, uint64_t bytes) {
    struct gb_check_finding finding = start_finding(GB_CHECK_HOST_MEMORY, item, site);
    finding.by.mode = mode;
    finding.address = address;
    finding.bytes = bytes;
    gb_check_note(&finding);
}

/* All accesses but the common one. */
__attribute__((noinline)) static void check_access(gb_cpu_item *item, uint32_t site, uint32_t mode_and_flags,
                                                   uint64_t address, uint64_t bytes) {
    uint32_t flags = item->kernel->flags;
    uint32_t mode = mode_and_flags & ~(uint32_t)(GB_CHECK_NO_RACE | GB_CHECK_INITIALIZED);
    bool race = (flags & GB_CPU_KERNEL_CHECK_RACE) != 0 && (mode_and_flags & GB_CHECK_NO_RACE) == 0;
    uint64_t shared_bytes = (uint64_t)(item->dynamic - item->shared) + item->dynamic_bytes;
    uint64_t offset = address - (uint64_t)(uintptr_t)item->shared;
    bool shared = offset < shared_bytes && bytes <= shared_bytes - offset;
    bool uninitialized = shared && (flags & GB_CPU_KERNEL_CHECK_UNINITIALIZED) != 0 &&
                         (mode_and_flags & GB_CHECK_INITIALIZED) == 0;
    struct thread *thread = mine;
    bool host = !shared && (flags & GB_CPU_KERNEL_CHECK_HOST_MEMORY) != 0 && mode != GB_CHECK_UNKNOWN;
    if (bytes == 0 || !(race || uninitialized || host) || (!shared && is_private(thread, item, address))) {
        return; /* other memory may have been written before the launch */
    }
    if (host && !is_device_memory(thread, item, address)) {
        report_host_memory(item, site, mode, address, bytes);
    }
    if (!(race || uninitialized)) {
        return;
    }
    struct workgroup *group = group_of(thread, item);
    if (mode == GB_CHECK_UNKNOWN) {
        if (uninitialized) {
            memset(group->written + offset, 1, bytes);
        }
        return;
    }
    if (uninitialized) {
        check_initialized(item, group, site, mode, offset, bytes);
    }
    if (race) {
        uint32_t segment = current_segment(group, item);
        if (!gb_check_race_simple(address, bytes, mode, shared, segment, item->linear_id, site)) {
            check_race(item, segment, site, mode, address, bytes, shared);
        }
    }
}

void gb_check_access(gb_cpu_item *item, uint32_t site, uint32_t mode_and_flags, uint64_t address, uint64_t bytes) {
    const gb_cpu_kernel *kernel = item->kernel;
    uint64_t offset = address - (uint64_t)(uintptr_t)item->shared;
    uint64_t static_bytes = (uint64_t)(item->dynamic - item->shared);
    const struct workgroup *group = &mine->groups[0];
    /* The common access, in code that runs whole workgroups: check for races in workgroup memory. */
    bool uninitialized = (kernel->flags & GB_CPU_KERNEL_CHECK_UNINITIALIZED) != 0 &&
                         (mode_and_flags & GB_CHECK_INITIALIZED) == 0;
    if (!uninitialized && (mode_and_flags & ~(uint32_t)GB_CHECK_INITIALIZED) <= GB_CHECK_WRITE &&
        kernel->run != NULL && offset < static_bytes && bytes <= static_bytes - offset && group->begun &&
        memcmp(group->block, item->block_id, sizeof group->block) == 0 &&
        gb_check_race_simple(address, bytes, mode_and_flags & GB_CHECK_WRITE, true, current_segment(group, item),
                             item->linear_id, site)) {
        return;
    }
    check_access(item, site, mode_and_flags, address, bytes);
}

/* ---- barriers ---- */

void gb_check_divergence(const gb_cpu_item *waiting, uint32_t site, uint32_t arrived, uint32_t expected,
                                   const gb_cpu_item *absent, uint32_t other_site) {
    struct gb_check_finding finding = start_finding(GB_CHECK_BARRIER, waiting, site);
    finding.arrived = arrived;
    finding.expected = expected;
    if (absent != NULL) {
        finding.other.site = other_site;
        memcpy(finding.other.block, absent->block_id, sizeof finding.other.block);
        memcpy(finding.other.item, absent->thread_id, sizeof finding.other.item);
    }
    gb_check_note(&finding);
}
