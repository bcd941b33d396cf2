/* amd.c: instructions that lanes of a subgroup execute together, after AMD's ISA documents and LLVM's AMDGPUUsage, and
 * the arguments that HIP adds to a kernel's. */
#include "core.h"

#include <string.h>

enum { MESSAGES = 1 << 16, HEAD = 8 };

static _Alignas(8) unsigned char messages[HEAD + MESSAGES];
static _Alignas(8) unsigned char implicit[256];

static void put(uint32_t at, uint64_t value, uint32_t bytes) {
    memcpy(implicit + at, &value, bytes);
}

/* Before a launch: an empty buffer for messages of `room` bytes, as HIP's PrintfDbg::init makes it. */
void amd_begin(uint32_t room) {
    memset(messages, EMU_POISON_BYTE, sizeof messages);
    memset(messages, 0, 4);
    memcpy(messages + 4, &room, 4);
}

/* Copy the kernel's messages; returns their bytes. */
uint32_t amd_take_messages(unsigned char *into, uint32_t bytes) {
    uint32_t used;
    memcpy(&used, messages, 4);
    memcpy(into, messages + HEAD, used < bytes ? used : bytes);
    return used;
}

/* The implicit kernel arguments of code object version 5 that kernels use; the others are poison. */
const void *amd_implicit_arguments(void) {
    memset(implicit, EMU_POISON_BYTE, sizeof implicit);
    for (uint32_t axis = 0; axis < 3; axis++) {
        put(4 * axis, emu_grid_dim(axis), 4);
        put(12 + 2 * axis, emu_block_dim(axis), 2);
        put(18 + 2 * axis, 0, 2);
        put(40 + 8 * axis, 0, 8);
    }
    put(64, 3, 2);
    put(72, (uint64_t)(uintptr_t)messages, 8);
    return implicit;
}

_Noreturn void amd_trap(void) {
    emu_fail("trap");
}

/* ---- lanes that read other lanes ---- */

static uint64_t together(struct emu_request *request, const char *kind, emu_action *action, uint32_t site,
                         uint32_t depth) {
    request->kind = kind;
    request->action = action;
    emu_converge(request, site, depth);
    return request->out[0];
}

#define EACH_LANE(lane, set)                                                                                           \
    for (uint32_t lane = 0; lane < EMU_MOST_LANES; lane++)                                                             \
        if (set >> lane & 1)

static void read_first(struct emu_request *const *requests, uint64_t set) {
    uint64_t value = requests[__builtin_ctzll(set)]->in[0];
    EACH_LANE(lane, set) {
        requests[lane]->out[0] = value;
    }
}

uint64_t amd_read_first_lane(uint64_t value, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {value}};
    return together(&request, "readfirstlane", read_first, site, depth);
}

static void read_lane(struct emu_request *const *requests, uint64_t set) {
    uint64_t from = requests[__builtin_ctzll(set)]->in[1] & (emu_subgroup_size() - 1);
    uint64_t value = set >> from & 1 ? requests[from]->in[0] : EMU_POISON;
    EACH_LANE(lane, set) {
        /* The number is in a scalar register: LLVM takes the first lane's where they differ. */
        requests[lane]->out[0] = value;
        requests[lane]->out[1] = (requests[lane]->in[1] & (emu_subgroup_size() - 1)) == from;
    }
}

uint64_t amd_read_lane(uint64_t value, uint32_t from, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {value, from}};
    together(&request, "readlane", read_lane, site, depth);
    if (!request.out[1]) {
        emu_fail("readlane from lane %u, while other lanes name another", from);
    }
    return request.out[0];
}

static void ballot(struct emu_request *const *requests, uint64_t set) {
    uint64_t yes = 0;
    EACH_LANE(lane, set) {
        yes |= requests[lane]->in[0] << lane;
    }
    EACH_LANE(lane, set) {
        requests[lane]->out[0] = yes;
    }
}

uint64_t amd_ballot(uint32_t yes, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {yes}};
    return together(&request, "ballot", ballot, site, depth);
}

/* Lanes that are off read as 0 (GCN3 ISA, 12.15.1). */
static void backward_permute(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        uint64_t from = requests[lane]->in[0] / 4 & (emu_subgroup_size() - 1);
        requests[lane]->out[0] = set >> from & 1 ? requests[from]->in[1] : 0;
    }
}

uint32_t amd_bpermute(uint32_t address, uint32_t value, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {address, value}};
    return (uint32_t)together(&request, "ds_bpermute", backward_permute, site, depth);
}

/* Lanes below this one in `mask`, of the first 32 or of the others. */
uint32_t amd_count_below(uint32_t mask, uint32_t base, uint32_t upper) {
    uint32_t lane = emu_lane();
    uint32_t below = upper ? (lane < 32 ? 0 : lane - 32) : lane;
    uint32_t all = below >= 32 ? ~0u : (1u << below) - 1;
    return base + (uint32_t)__builtin_popcount(mask & all);
}
