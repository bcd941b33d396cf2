/* cpu_device.h: what the files of this folder provide to each other and to the sanitizer. All calls are safe from several
 * threads. */
#ifndef GPUBUILD_CPU_DEVICE_H
#define GPUBUILD_CPU_DEVICE_H

#include "core/image.h"
#include "cpu/cpu_image.h"

#include <stdatomic.h>

/* ---- cpu_chip.c ---- */

bool gb_cpu_recognize(struct gb_image *image);
struct gb_fit gb_cpu_fit(const struct gb_image *image);

/* Whether this machine can run code for `chip` (an LLVM CPU name) with `features` ("+avx2,-fma"; may be
 * NULL). */
int gb_cpu_supports(const char *chip, const char *features);

/* ---- cpu_module.c ---- */

typedef struct gb_cpu_module gb_cpu_module;

/* Loads a CPU object that lies in memory. `data` may go away afterwards. Ends the program, naming
 * `module_name` and the symbol or reason, when it cannot be loaded. */
gb_cpu_module *gb_cpu_module_load(const void *data, size_t size, const char *module_name);
void gb_cpu_module_unload(gb_cpu_module *module);

/* The kernel called `name`, or NULL. It lives as long as the module. */
const gb_cpu_kernel *gb_cpu_module_kernel(const gb_cpu_module *module, const char *name);

/* The name of a site of the kernel's module in messages. */
const char *gb_cpu_site_name(const gb_cpu_kernel *kernel, uint32_t site);
/* The module a kernel belongs to. */
const char *gb_cpu_kernel_module(const gb_cpu_kernel *kernel);

/* ---- cpu_launch.c ---- */

/* Ends the program when a launch cannot be: a size is out of range, or the number of parameters is wrong.
 * `param_count` 0 with parameters expected means "not known" (cluster launches do not pass it). */
void gb_cpu_launch_check(const gb_cpu_kernel *kernel, struct gb_dim3 cluster, struct gb_dim3 grid,
                         struct gb_dim3 block, size_t param_count);

/* Runs a kernel to its end. A grid or workgroup with a zero extent has no work-items: nothing runs.
 * Ends the program where gb_cpu_launch_check does, or when the kernel breaks the rules of barriers. */
void gb_cpu_launch(const gb_cpu_kernel *kernel, struct gb_dim3 cluster, struct gb_dim3 grid,
                   struct gb_dim3 block, uint32_t dynamic_bytes, void **params, size_t param_count);

/* ---- cpu_resources.c ---- */

/* GPUBUILD_CPU_THREADS; when that is not set, the CPUs that the process may run on, or fewer where its control group's
 * quota is less. At least 1. Counted once: later changes have no effect. */
unsigned gb_cpu_thread_count(void);

/* Have the calling thread run on any CPU that the process may run on: it has been made by one that may be bound. */
void gb_cpu_unbind_thread(void);

/* CPUs' worth of time that control groups leave the process, rounded up; 0: no limit. `membership` is the text of
 * /proc/self/cgroup, `mount` where control groups are mounted. */
unsigned gb_cpu_quota(const char *membership, const char *mount);

/* GPUBUILD_CPU_CACHE_BYTES; when that is not set, the size of the largest cache that a CPU reaches. Thread-safe. */
int64_t gb_cpu_cache_bytes(void);

/* The size of the cache that sysfs describes in `folder`, or 0. For tests. */
int64_t gb_cpu_cache_size(const char *folder);

/* ---- cpu_pool.c ---- */

/* Tasks 0, 1, … that any thread may do in any order; the first member of what `run` needs. */
struct gb_cpu_job {
    void (*run)(struct gb_cpu_job *job, uint64_t first, uint64_t last);
    uint64_t tasks;
    unsigned max_threads; /* 1: only the thread that it comes from */

    /* the pool's own */
    uint64_t least_chunk;
    atomic_uint_fast64_t next;
    unsigned joined; /* pool threads at work on it */
    unsigned ever_joined;
    struct gb_cpu_job *later;
};

/* Do all of a job. The calling thread takes part, so this needs no other thread; idle ones join in. */
void gb_cpu_pool_run(struct gb_cpu_job *job);

/* A seat for other work that keeps a CPU busy, such as a long copy. */
void gb_cpu_seat_take(void);
void gb_cpu_seat_give(void);

/* ---- cpu_workgroup.c: the fibers tier ---- */

/* The work-items of one workgroup, or of all workgroups of a cluster that has a cluster barrier. */
struct gb_cpu_team;

struct gb_cpu_team *gb_cpu_team_create(void);
void gb_cpu_team_destroy(struct gb_cpu_team *team);

/* Get ready for workgroups of a launch, `blocks` at a time. Workgroup i of those has its static memory at
 * shared + i * stride and its dynamic memory at dynamic + i * stride. */
void gb_cpu_team_begin(struct gb_cpu_team *team, const gb_cpu_launch_info *launch, uint32_t blocks, char *shared,
                       char *dynamic, size_t stride);

/* Run the workgroups with these linear ids, as many as gb_cpu_team_begin was called for, to their end. */
void gb_cpu_team_run(struct gb_cpu_team *team, const uint64_t *block_ids);

/* The address behind the stack of a work-item that runs in a team. */
const char *gb_cpu_team_stack_end(const gb_cpu_item *item);

/* The services of cpu/cpu_image.h that make a work-item wait. */
void gb_cpu_barrier(gb_cpu_item *item, uint32_t site);
void gb_cpu_cluster_barrier(gb_cpu_item *item, uint32_t site);
uint64_t gb_cpu_lanes(gb_cpu_item *item, uint32_t site, uint32_t op, uint32_t mask, uint32_t value,
                      uint32_t lane, uint32_t clamp);

#endif
