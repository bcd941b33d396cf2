/* amd.c: what AMD's ISA documents and LLVM's AMDGPUUsage say of instructions that lanes of a subgroup execute together,
 * and of what the HIP runtime gives to a kernel. A lane that takes no part has nothing to read. */
#include "core.h"

#include <string.h>

enum { MESSAGES = 1 << 16, HEAD = 8 };

static uint32_t gfx; /* major version */
static _Alignas(8) unsigned char messages[HEAD + MESSAGES];
static _Alignas(8) unsigned char implicit[256];

static void put(uint32_t at, uint64_t value, uint32_t bytes) {
    memcpy(implicit + at, &value, bytes);
}

/* Before a launch: an empty buffer for messages of `room` bytes, as HIP's PrintfDbg::init makes it. */
void amd_begin(uint32_t major, uint32_t room) {
    gfx = major;
    memset(messages, EMU_POISON_BYTE, sizeof messages);
    memset(messages, 0, 4);
    memcpy(messages + 4, &room, 4);
}

/* What the kernel left, as it lies there; returns how much that is. */
uint32_t amd_take_messages(unsigned char *into, uint32_t bytes) {
    uint32_t used;
    memcpy(&used, messages, 4);
    memcpy(into, messages + HEAD, used < bytes ? used : bytes);
    return used;
}

/* The implicit kernel arguments of code object version 5, those that are asked for; others are no numbers. */
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

/* ---- what lanes of a subgroup read of each other ---- */

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

static void forward_permute(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        requests[lane]->out[0] = 0;
    }
    EACH_LANE(lane, set) {
        uint64_t to = requests[lane]->in[0] / 4 & (emu_subgroup_size() - 1);
        if (set >> to & 1) {
            requests[to]->out[0] = requests[lane]->in[1];
        }
    }
}

uint32_t amd_permute(uint32_t address, uint32_t value, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {address, value}};
    return (uint32_t)together(&request, "ds_permute", forward_permute, site, depth);
}

/* GCN3 ISA, 12.15.2; each 32 lanes for themselves. Lanes that are off read as 0. */
static void swizzle(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        uint32_t pattern = (uint32_t)requests[lane]->in[1];
        uint32_t from;
        if (pattern >= 0xC000) {
            emu_fail("ds_swizzle with pattern %#x, of which nothing is known here", pattern);
        } else if (pattern & 0x8000) {
            from = (lane & ~3u) | (pattern >> 2 * (lane & 3) & 3);
        } else {
            uint32_t low = (((lane & 31) & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
            from = (lane & ~31u) | low;
        }
        requests[lane]->out[0] = set >> from & 1 ? requests[from]->in[0] : 0;
    }
}

uint32_t amd_swizzle(uint32_t value, uint32_t pattern, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {value, pattern}};
    return (uint32_t)together(&request, "ds_swizzle", swizzle, site, depth);
}

/* ---- data-parallel primitives (DPP) ---- */

enum { NO_LANE = -1 };

static int within_row(uint32_t lane, int position) {
    return position < 0 || position > 15 ? NO_LANE : (int)(lane & ~15u) + position;
}

/* From which lane `lane` reads: LLVM's SIDefines.h names the numbers, the ISA says what they do. */
static int dpp_source(uint32_t control, uint32_t lane) {
    int position = (int)(lane & 15), count = (int)(control & 15), size = (int)emu_subgroup_size();
    if (control <= 0xFF) {
        return (int)((lane & ~3u) | (control >> 2 * (lane & 3) & 3));
    }
    switch (control >> 4) {
    case 0x10: return within_row(lane, position + count); /* row_shl */
    case 0x11: return within_row(lane, position - count); /* row_shr */
    case 0x12: return within_row(lane, (position - count) & 15); /* row_ror */
    case 0x15:
        if (gfx < 9) {
            break;
        }
        return within_row(lane, count); /* row_newbcast of gfx90a, row_share of gfx10 */
    case 0x16:
        if (gfx < 10) {
            break;
        }
        return within_row(lane, position ^ count); /* row_xmask */
    default: break;
    }
    if (control == 0x140) { /* row_mirror */
        return within_row(lane, 15 - position);
    }
    if (control == 0x141) { /* row_half_mirror */
        return within_row(lane, (position & 8) + 7 - (position & 7));
    }
    if (gfx < 10) {
        switch (control) {
        case 0x130: return (int)lane + 1 < size ? (int)lane + 1 : NO_LANE; /* wave_shl */
        case 0x134: return ((int)lane + 1) % size;                         /* wave_rol */
        case 0x138: return (int)lane - 1;                                  /* wave_shr */
        case 0x13C: return ((int)lane + size - 1) % size;                  /* wave_ror */
        case 0x142: return lane < 16 ? NO_LANE : (int)(lane & ~15u) - 1;   /* row_bcast15 */
        case 0x143: return lane < 32 ? NO_LANE : 31;                       /* row_bcast31 */
        default: break;
        }
    }
    emu_fail("dpp_ctrl %#x, which gfx%u does not have", control, gfx);
}

static void move_across(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        const uint64_t *in = requests[lane]->in;
        uint32_t row = lane / 16, bank = lane % 16 / 4;
        int from = dpp_source((uint32_t)in[2], lane);
        bool enabled = (in[3] >> row & 1) && (in[4] >> bank & 1);
        bool valid = from != NO_LANE && (set >> from & 1);
        requests[lane]->out[0] = !enabled ? in[0] : valid ? requests[from]->in[1] : in[5] ? 0 : in[0];
    }
}

uint32_t amd_dpp(uint32_t old, uint32_t value, uint32_t control, uint32_t rows, uint32_t banks, uint32_t bound,
                 uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {old, value, control, rows, banks, bound}};
    return (uint32_t)together(&request, "dpp", move_across, site, depth);
}

/* v_permlane16 and v_permlanex16: of 16 lanes the numbers lie in two scalar words; x: from the other row of the pair. */
static void permute_rows(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        const uint64_t *in = requests[lane]->in;
        uint64_t numbers = in[2] | in[3] << 32;
        uint32_t from = (lane & ~15u) | (uint32_t)(numbers >> 4 * (lane & 15) & 15);
        from ^= in[4] ? 16 : 0;
        requests[lane]->out[0] = set >> from & 1 ? requests[from]->in[1] : in[5] ? 0 : in[0];
    }
}

uint32_t amd_permlane(uint32_t old, uint32_t value, uint32_t low, uint32_t high, uint32_t crossed, uint32_t bound,
                      uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {old, value, low, high, crossed, bound}};
    if (gfx < 10) {
        emu_fail("v_permlane16, which gfx%u does not have", gfx);
    }
    return (uint32_t)together(&request, "permlane16", permute_rows, site, depth);
}

/* v_permlane16_swap and v_permlane32_swap of gfx950: odd rows of the first with even rows of the second. */
static void swap_rows(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        struct emu_request *request = requests[lane];
        uint32_t rows = (uint32_t)request->in[2], other = lane ^ rows;
        bool there = set >> other & 1;
        bool odd = lane & rows;
        request->out[0] = !odd ? request->in[0] : there ? requests[other]->in[1] : EMU_POISON;
        request->out[1] = odd ? request->in[1] : there ? requests[other]->in[0] : EMU_POISON;
    }
}

void amd_swap(uint32_t a, uint32_t b, uint32_t rows, uint32_t *pair, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {a, b, rows}};
    together(&request, rows == 16 ? "permlane16_swap" : "permlane32_swap", swap_rows, site, depth);
    pair[0] = (uint32_t)request.out[0];
    pair[1] = (uint32_t)request.out[1];
}

/* Lanes below this one in `mask`, of the first 32 or of the others. */
uint32_t amd_count_below(uint32_t mask, uint32_t base, uint32_t upper) {
    uint32_t lane = emu_lane();
    uint32_t below = upper ? (lane < 32 ? 0 : lane - 32) : lane;
    uint32_t all = below >= 32 ? ~0u : (1u << below) - 1;
    return base + (uint32_t)__builtin_popcount(mask & all);
}
