/* cpu_image.h: what a CPU object (an ELF shared object made by gpubuild/engine/backends/cpu) and the runtime
 * exchange.
 *
 * A CPU object exports one symbol, `gpubuild_cpu_image` (with `.MODULE` behind it, where objects of several
 * modules are linked together). gpubuild/engine/backends/cpu/image_layout.py repeats the offsets of this file;
 * tests/unit/engine/backends/cpu/test_image_layout.py compares the two.
 */
#ifndef GPUBUILD_CPU_IMAGE_H
#define GPUBUILD_CPU_IMAGE_H

#include "core/runtime.h"

#define GB_CPU_IMAGE_MAGIC 0x55504342u /* "BCPU" */
#define GB_CPU_IMAGE_ABI 8u            /* raise when anything below changes */
#define GB_CPU_IMAGE_SYMBOL "gpubuild_cpu_image"

#define GB_CPU_MAX_BLOCK 1024u /* work-items in a workgroup, as on GPUs */
#define GB_CPU_SUBGROUP 32u

typedef struct gb_cpu_kernel gb_cpu_kernel;
typedef struct gb_cpu_services gb_cpu_services;

/* One work-item, as kernel code sees it: the last argument of every function with a body.
 * The fibers tier keeps its own fields behind this part. */
typedef struct gb_cpu_item {
    uint32_t thread_id[3];
    uint32_t block_dim[3];
    uint32_t block_id[3];
    uint32_t grid_dim[3];
    uint32_t cluster_dim[3]; /* in workgroups; 1, 1, 1 without clusters */
    uint32_t linear_id;      /* of the work-item in its workgroup, x fastest */
    char *shared;            /* static workgroup memory, 64-byte aligned */
    char *dynamic;           /* dynamic workgroup memory, 64-byte aligned */
    uint32_t dynamic_bytes;
    uint32_t reserved;
    const gb_cpu_kernel *kernel;
    char *contexts; /* fission tier: context arrays, values of work-items that outlive a barrier; 64-byte aligned */
} gb_cpu_item;

/* What is the same for all workgroups of a launch. */
typedef struct gb_cpu_launch_info {
    uint32_t block_dim[3];
    uint32_t grid_dim[3];
    uint32_t cluster_dim[3];
    uint32_t dynamic_bytes;
    void **params; /* one pointer to each parameter's value, as mgpuLaunchKernel gets them */
    const gb_cpu_kernel *kernel;
    int64_t cache_bytes; /* of the largest cache; what is larger than that is not worth keeping in one */
} gb_cpu_launch_info;

/* Loop and fission tiers: runs the workgroups [first, last), linear ids with x fastest. */
typedef void gb_cpu_run(const gb_cpu_launch_info *launch, uint64_t first, uint64_t last,
                        char *shared, char *dynamic, char *contexts);
/* Fibers tier: runs one work-item, which may be suspended in a service. */
typedef void gb_cpu_run_item(void **params, gb_cpu_item *item);

enum gb_cpu_tier { GB_CPU_TIER_LOOP = 0, GB_CPU_TIER_FIBERS = 1, GB_CPU_TIER_FISSION = 2 };

/* Flags of a kernel. */
#define GB_CPU_KERNEL_CLUSTER_BARRIER 1u /* the workgroups of a cluster must run together */
#define GB_CPU_KERNEL_CHECK_BOUNDS 2u    /* `sanitize:` of its target; see sanitizer/sanitizer.h */
#define GB_CPU_KERNEL_CHECK_RACE 4u
#define GB_CPU_KERNEL_CHECK_BARRIER 8u
#define GB_CPU_KERNEL_CHECK_UNINITIALIZED 16u
#define GB_CPU_KERNEL_CHECK_HOST_MEMORY 32u
#define GB_CPU_KERNEL_CHECKS 62u
/* Above the flags: how much stack the kernel's code needs, in units of 64 KiB; 0: no more than any thread has. */
#define GB_CPU_KERNEL_STACK_SHIFT 8u
#define GB_CPU_STACK_BYTES(flags) ((size_t)((flags) >> GB_CPU_KERNEL_STACK_SHIFT) << 16)

struct gb_cpu_kernel {
    const char *name;
    gb_cpu_run *run; /* NULL when the tier is FIBERS */
    gb_cpu_run_item *item;
    uint32_t tier;
    uint32_t flags;
    uint64_t shared_bytes;
    uint64_t param_count;
    const uint64_t *param_bytes;
    uint32_t required_block[3]; /* known_block_size; 0, 0, 0 when any will do */
    uint32_t max_items;         /* bound on work-items in a workgroup; 0 when none was given */
    uint64_t context_bytes;     /* context arrays that `run` needs, for the largest workgroup */
};

/* What a subgroup operation computes once all its lanes have arrived. */
enum gb_cpu_lane_op {
    GB_CPU_SHUFFLE_UP = 0, /* result: value, and in bit 32 whether the lane was in range */
    GB_CPU_SHUFFLE_DOWN = 1,
    GB_CPU_SHUFFLE_XOR = 2,
    GB_CPU_SHUFFLE_INDEX = 3,
    GB_CPU_VOTE_ALL = 4, /* result: 0 or 1 */
    GB_CPU_VOTE_ANY = 5,
    GB_CPU_VOTE_UNIFORM = 6,
    GB_CPU_VOTE_BALLOT = 7, /* result: a bit for each lane */
    GB_CPU_MATCH_ANY = 8,   /* result: lanes that hold the same value */
    GB_CPU_MATCH_ALL = 9,   /* result: the mask or 0, and in bit 32 whether all agree */
    GB_CPU_LANE_SYNC = 10,
    GB_CPU_ELECT = 11, /* result: the elected lane, and in bit 32 whether it is this one */
    GB_CPU_REDUCE_ADD = 12,
    GB_CPU_REDUCE_AND = 13,
    GB_CPU_REDUCE_OR = 14,
    GB_CPU_REDUCE_XOR = 15,
    GB_CPU_REDUCE_MIN = 16,
    GB_CPU_REDUCE_MAX = 17,
    GB_CPU_REDUCE_UMIN = 18,
    GB_CPU_REDUCE_UMAX = 19
};

/* How checked code accesses memory. */
enum gb_check_mode {
    GB_CHECK_READ = 0,
    GB_CHECK_WRITE = 1,
    GB_CHECK_ATOMIC = 2,
    GB_CHECK_UNKNOWN = 3, /* may write any of it: counts as initialised, and as nothing else */
    /* Or'ed to these: what is known not to be found. */
    GB_CHECK_NO_RACE = 4,
    GB_CHECK_INITIALIZED = 8
};

/* What the runtime does for kernels. `site` numbers the operation in gb_cpu_image.sites. */
struct gb_cpu_services {
    void (*barrier)(gb_cpu_item *item, uint32_t site);
    void (*cluster_barrier)(gb_cpu_item *item, uint32_t site);
    uint64_t (*lanes)(gb_cpu_item *item, uint32_t site, uint32_t op, uint32_t mask, uint32_t value,
                      uint32_t lane, uint32_t clamp);
    int (*print)(gb_cpu_item *item, const char *format, ...);
    void (*assert_fail)(gb_cpu_item *item, const char *message, const char *file, uint32_t line,
                        uint32_t column);
    uint64_t (*time_ns)(void);
    /* Checked kernels only. Indices in one dimension that are out of bounds if not all of
     * first, first + step, …, first + (count - 1) * step are below size. */
    void (*check_bounds)(gb_cpu_item *item, uint32_t site, uint32_t dimension, uint64_t first, uint64_t count,
                         uint64_t step, uint64_t size);
    void (*check_view)(gb_cpu_item *item, uint32_t site, uint32_t dimension, uint64_t first, uint64_t count,
                       uint64_t step, uint64_t size);
    /* An access that is about to happen; `mode` is an enum gb_check_mode. */
    void (*check_access)(gb_cpu_item *item, uint32_t site, uint32_t mode, uint64_t address, uint64_t bytes);
    /* The work-item has passed a barrier of its workgroup. */
    void (*check_meet)(gb_cpu_item *item);
    /* Fission tier: of the workgroup, or of a subgroup when `lanes` is not 0, some work-items go on to wait at
     * `site` and others do not. `bits` points to a byte for each work-item. Ends the program. */
    void (*diverged)(gb_cpu_item *item, uint32_t site, uint64_t bits, uint32_t lanes);
    /* Checked kernels only. The work-item has waited for all lanes of its subgroup. */
    void (*check_wait)(gb_cpu_item *item);
};

typedef struct gb_cpu_image {
    uint32_t magic;
    uint32_t abi;
    const gb_cpu_services *services; /* filled by the runtime before anything is called */
    const char *module;
    const gb_cpu_kernel *kernels;
    uint64_t kernel_count;
    const char *const *sites; /* for messages, such as "gpu.barrier 1 of @reduce" */
    uint64_t site_count;
} gb_cpu_image;

#endif
