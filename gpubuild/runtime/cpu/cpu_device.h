/* cpu_device.h: what the files of this folder provide to each other, to the sanitizer and to the async runtime.
 * All calls are safe from several threads. */
#ifndef GPUBUILD_CPU_DEVICE_H
#define GPUBUILD_CPU_DEVICE_H

#include "core/device.h"
#include "cpu/cpu_image.h"

#include <stdatomic.h>

/* ---- cpu_chip.c ---- */

bool gb_cpu_recognize(struct gb_image *image);
struct gb_fit gb_cpu_fit(const struct gb_image *image);

/* Whether this machine can run code for `chip` (an LLVM CPU name) with `features` ("+avx2,-fma"; may be NULL). */
int gb_cpu_supports(const char *chip, const char *features);

/* ---- cpu_module.c ---- */

typedef struct gb_cpu_module gb_cpu_module;

/* Load a CPU object from memory; `data` may be freed afterwards. Fatal, with `module_name` and the symbol or reason,
 * when it cannot be loaded. */
gb_cpu_module *gb_cpu_module_load(const void *data, size_t size, const char *module_name);
void gb_cpu_module_unload(gb_cpu_module *module);

/* The kernel called `name`, or NULL. It lives as long as the module. */
const gb_cpu_kernel *gb_cpu_module_kernel(const gb_cpu_module *module, const char *name);

/* The name of a site of the kernel's module in messages. */
const char *gb_cpu_site_name(const gb_cpu_kernel *kernel, uint32_t site);
/* Module and kernel for messages. It takes a lock. */
struct gb_where gb_cpu_where(const gb_cpu_kernel *kernel);

/* ---- cpu_device.c ---- */

/* Whether a GPU could access the memory: of gpu.alloc, or registered. Sets the range that is known to be. */
bool gb_cpu_is_device_memory(uint64_t address, uint64_t *first, uint64_t *bytes);

/* Let profiles count memory of the host that kernels use in place, until it is unregistered. Nothing without a profile. */
void gb_cpu_note_host_memory(void *address, size_t bytes);

/* From now on, memory counts as allocated until the kernels that were submitted before it was freed have run. */
void gb_cpu_keep_freed_memory(void);

/* ---- cpu_launch.c ---- */

/* Fatal when a size is out of range or the number of parameters is wrong. */
void gb_cpu_launch_check(const gb_cpu_kernel *kernel, const struct gb_launch *launch);

/* Run a kernel to its end, after gb_cpu_launch_check. A grid or workgroup with a zero extent has no work-items: nothing runs.
 * Fatal when the kernel breaks the rules of barriers. */
void gb_cpu_launch(const gb_cpu_kernel *kernel, const struct gb_launch *launch);

/* ---- cpu_resources.c ---- */

/* GPUBUILD_CPU_THREADS; by default the CPUs that the process may run on, or fewer where the quota of its control group
 * is less. At least 1. Determined once. */
unsigned gb_cpu_thread_count(void);

/* Allow the calling thread all CPUs of the process: its creator may be bound to one. */
void gb_cpu_unbind_thread(void);

/* Start a detached thread with a stack of 8 MiB, for private memory of work-items; returns whether it runs. */
bool gb_cpu_start_thread(void *(*run)(void *unused));

/* The number of CPUs that control groups (version 2) allow the process, rounded up; 0: no limit. `membership` is the text
 * of /proc/self/cgroup, `mount` where control groups are mounted. */
unsigned gb_cpu_quota(const char *membership, const char *mount);

/* GPUBUILD_CPU_CACHE_BYTES; by default the size of the largest cache of a CPU. */
int64_t gb_cpu_cache_bytes(void);

/* The size of the cache that sysfs describes in `folder`, or 0. For tests. */
int64_t gb_cpu_cache_size(const char *folder);

/* ---- cpu_pool.c ---- */

/* Tasks 0, 1, … that any thread may do in any order; the first member of what `run` needs. */
struct gb_cpu_job {
    void (*run)(struct gb_cpu_job *job, uint64_t first, uint64_t last);
    uint64_t tasks;
    unsigned max_threads; /* 1: only the thread that it comes from */

    /* of the pool */
    uint64_t least_chunk;
    atomic_uint_fast64_t next;
    unsigned joined; /* pool threads at work on it */
    unsigned ever_joined;
    struct gb_cpu_job *later;
};

/* Do all of a job. The calling thread takes part, so this needs no other thread; idle ones join in. */
void gb_cpu_pool_run(struct gb_cpu_job *job);

/* Hold a thread slot for other work that keeps a CPU busy, such as a long copy. */
void gb_cpu_slot_acquire(void);
void gb_cpu_slot_release(void);

/* ---- cpu_stream.c: queues whose work is done in order, in parallel with the caller and each other ---- */

struct gb_cpu_stream;
struct gb_cpu_event;

/* A piece of work; the first member of the structure that `run` uses. The stream frees it. */
struct gb_cpu_work {
    void (*run)(struct gb_cpu_work *work); /* NULL: only wait */
    struct gb_cpu_work *next;
    struct gb_cpu_stream *awaited; /* not before this stream has done `count` pieces; NULL: at once */
    uint64_t count;
    size_t bytes; /* as passed to gb_cpu_work_make(); 0: memory of gb_allocate */
};

/* A NULL stream is the default stream: one for the process, in no order with the others. */

/* A piece of work with `bytes` in all, the rest zeroed, aligned to GB_CPU_WORK_ALIGNMENT; from memory that is kept. */
#define GB_CPU_WORK_ALIGNMENT 64u
void *gb_cpu_work_make(size_t bytes, void (*run)(struct gb_cpu_work *work));

struct gb_cpu_stream *gb_cpu_stream_create(void);
/* Submitted work is still done. */
void gb_cpu_stream_destroy(struct gb_cpu_stream *stream);

/* Do `work` after all that was submitted to the stream before, and return at once. */
void gb_cpu_stream_submit(struct gb_cpu_stream *stream, struct gb_cpu_work *work);
/* Do `work` once all is done that was submitted so far, to any stream, and return at once. */
void gb_cpu_submit_last(struct gb_cpu_work *work);
/* Whether all that was submitted is done. */
bool gb_cpu_stream_is_idle(struct gb_cpu_stream *stream);
/* Return when all that was submitted so far is done; the caller may do a part of it. */
void gb_cpu_stream_synchronize(struct gb_cpu_stream *stream);
/* The same for every stream of the process. */
void gb_cpu_streams_drain(void);

/* An event is complete when its stream has done the work submitted before the latest record, or if there was none. */
struct gb_cpu_event *gb_cpu_event_create(void);
void gb_cpu_event_destroy(struct gb_cpu_event *event);
void gb_cpu_event_record(struct gb_cpu_event *event, struct gb_cpu_stream *stream);
void gb_cpu_event_synchronize(struct gb_cpu_event *event);
/* Later work of the stream starts after the event's latest record so far is complete. */
void gb_cpu_stream_wait(struct gb_cpu_stream *stream, struct gb_cpu_event *event);

/* ---- cpu_fiber.c: stacks, and the switch from one to another ---- */

/* For one work-item, unless its kernel needs more. GPUs allow 512 KiB of private memory; printf and
 * mathematics come on top. Pages are backed by memory only once they are touched. */
#define GB_FIBER_STACK_BYTES (1024u * 1024u)

/* A suspended flow of control. */
struct gb_fiber {
    void *stack_pointer;
};

/* Stacks of `bytes` for `count` fibers, each with an inaccessible guard below it. */
struct gb_fiber_stacks {
    char *base;
    size_t count;
    size_t bytes;
};

/* How many threads may have stacks for `fibers` fibers at once; at least 1. Guard pages are a
 * limited resource on older kernels. */
unsigned gb_fiber_max_threads(unsigned fibers);

/* Provide stacks for at least `count` fibers, of at least `bytes` each; large enough ones are kept. Fatal when memory
 * runs out. */
void gb_fiber_stacks_reserve(struct gb_fiber_stacks *stacks, size_t count, size_t bytes);
void gb_fiber_stacks_free(struct gb_fiber_stacks *stacks);

/* The address behind the stack of fiber `index`. */
const char *gb_fiber_stack_end(const struct gb_fiber_stacks *stacks, size_t index);

/* Prepare fiber `index` to run `entry`, which must not return, on its own stack. */
void gb_fiber_start(struct gb_fiber *fiber, const struct gb_fiber_stacks *stacks, size_t index,
                    void (*entry)(void));

/* Save the present flow in `from` and continue where `to` was saved or started. */
void gb_fiber_switch(struct gb_fiber *from, struct gb_fiber *to);

/* ---- cpu_workgroup.c: the fibers tier ---- */

/* The work-items of one workgroup, or of all workgroups of a cluster that has a cluster barrier. */
struct gb_cpu_team;

struct gb_cpu_team *gb_cpu_team_create(void);
void gb_cpu_team_destroy(struct gb_cpu_team *team);

/* Prepare for workgroups of a launch, `blocks` at a time. Workgroup i of those has its static memory at
 * shared + i * stride and its dynamic memory at dynamic + i * stride. */
void gb_cpu_team_begin(struct gb_cpu_team *team, const gb_cpu_launch_info *launch, uint32_t blocks, char *shared,
                       char *dynamic, size_t stride);

/* Run the workgroups with these linear ids, as many as gb_cpu_team_begin was called for, to their end. */
void gb_cpu_team_run(struct gb_cpu_team *team, const uint64_t *block_ids);

/* The work-item that the team's thread executes. Async-signal-safe. */
const gb_cpu_item *gb_cpu_team_running(const struct gb_cpu_team *team);

/* The address behind the stack of a work-item that runs in a team. */
const char *gb_cpu_team_stack_end(const gb_cpu_item *item);

/* The services of cpu/cpu_image.h that make a work-item wait. */
void gb_cpu_barrier(gb_cpu_item *item, uint32_t site);
void gb_cpu_cluster_barrier(gb_cpu_item *item, uint32_t site);
uint64_t gb_cpu_lanes(gb_cpu_item *item, uint32_t site, uint32_t op, uint32_t mask, uint32_t value,
                      uint32_t lane, uint32_t clamp);

#endif
