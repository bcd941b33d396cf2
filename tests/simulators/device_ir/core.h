/* core.h: work-items of one workgroup at a time, as fibers, and what they wait for.
 *
 * A launch runs a kernel's LLVM IR, compiled for this machine, once for each work-item. Whatever work-items do
 * together goes through emu_converge or emu_barrier: a fiber stops there until the others have come. */
#ifndef DEVICE_IR_CORE_H
#define DEVICE_IR_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EMU_MOST_LANES = 64,
    EMU_MOST_KEY = 96, /* words: two for each loop and call, one for the site */
    EMU_MOST_WORDS = 64
};

/* The value of a read that a GPU leaves undefined. */
#define EMU_POISON 0xBADC0DE5BADC0DE5ull
#define EMU_POISON_BYTE 0xE5

struct emu_request;
/* Perform the operation for the lanes of `set`; requests[i] is of lane i. */
typedef void emu_action(struct emu_request *const *requests, uint64_t set);

/* A lane's part in an operation of its subgroup, on the stack of its fiber. */
struct emu_request {
    const char *kind;   /* equal text: the same instruction with the same qualifiers */
    emu_action *action;
    uint64_t members;   /* lanes that take part unless they have ended; 0: the lanes at this position */
    bool converged;     /* members must be at one position */
    uint32_t lane;
    uint64_t in[EMU_MOST_WORDS];
    uint64_t out[EMU_MOST_WORDS];
};

/* Called by work-items. `site` and `depth` are numbers that host_form.py gives to the call. */
void emu_converge(struct emu_request *request, uint32_t site, uint32_t depth);
/* Wait for all work-items of the workgroup that have not ended. Lanes of a subgroup must come together. */
void emu_barrier(uint32_t id, uint32_t site, uint32_t depth);
_Noreturn void emu_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void emu_unknown(const char *name);
void emu_print(const char *text, size_t bytes);

uint32_t emu_thread_id(uint32_t axis), emu_block_id(uint32_t axis), emu_block_dim(uint32_t axis);
uint32_t emu_grid_dim(uint32_t axis), emu_cluster_dim(uint32_t axis), emu_lane(void), emu_flat_id(void);
uint32_t emu_subgroup_size(void);
/* Lanes of this subgroup that exist and have not ended. */
uint64_t emu_live_lanes(void);

struct emu_memory {
    char *address;
    uint64_t bytes;
};

struct emu_launch {
    void (*kernel)(void **arguments);
    void **arguments;
    uint32_t grid[3], block[3], cluster[3];
    uint32_t subgroup_size;
    uint32_t backwards; /* work-items and subgroups run from the last to the first */
    uint32_t dynamic_bytes;
    uint32_t shared_count;
    struct emu_memory dynamic; /* all of its room */
    const struct emu_memory *shared; /* variables of a workgroup */
};

/* 0, or 1 after undefined behaviour or a failure, which emu_message() describes. */
int emu_run(const struct emu_launch *launch);
const char *emu_message(void);
/* Take the output since the last call, up to `bytes` with the NUL; returns its length. */
size_t emu_take_output(char *into, size_t bytes);

#endif
