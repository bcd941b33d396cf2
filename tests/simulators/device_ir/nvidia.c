/* nvidia.c: instructions of the PTX ISA that lanes execute together or that LLVM lacks, and the driver's functions. */
#include "core_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before sm_70 lanes that name each other must come to the same instruction together. */
static bool lockstep;

void nv_set_chip(uint32_t number) {
    lockstep = number < 70;
}

static void sync(struct emu_request *request, const char *kind, emu_action *action, uint32_t members, uint32_t site,
                 uint32_t depth) {
    if (members == 0) {
        emu_fail("%s of no lanes", kind);
    }
    request->kind = kind;
    request->action = action;
    request->members = members;
    request->converged = lockstep;
    emu_converge(request, site, depth);
}

/* ---- shuffles ---- */

#define EACH_LANE(lane, set)                                                                                           \
    for (uint32_t lane = 0; lane < 32; lane++)                                                                         \
        if ((set) >> lane & 1)

enum { UP, DOWN, BUTTERFLY, INDEX };

static void shuffle(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        struct emu_request *request = requests[lane];
        uint32_t mode = (uint32_t)request->in[0];
        int b = request->in[2] & 31, c = request->in[3] & 31, segments = request->in[3] >> 8 & 31;
        int most = ((int)lane & segments) | (c & ~segments & 31), least = (int)lane & segments;
        int from = 0;
        bool inside = false;
        switch (mode) {
        case UP: from = (int)lane - b; inside = from >= most; break;
        case DOWN: from = (int)lane + b; inside = from <= most; break;
        case BUTTERFLY: from = (int)lane ^ b; inside = from <= most; break;
        default: from = least | (b & ~segments & 31); inside = from <= most; break;
        }
        if (!inside) {
            from = (int)lane;
        }
        /* A lane that takes no part has nothing to read. */
        request->out[0] = set >> from & 1 ? requests[from]->in[1] : EMU_POISON;
        request->out[1] = inside;
    }
}

uint32_t nv_shuffle(uint32_t mode, uint32_t members, uint32_t value, uint32_t b, uint32_t c, uint32_t *inside,
                    uint32_t site, uint32_t depth) {
    static const char *const KINDS[] = {"shfl.sync.up", "shfl.sync.down", "shfl.sync.bfly", "shfl.sync.idx"};
    struct emu_request request = {.in = {mode, value, b, c}};
    sync(&request, KINDS[mode], shuffle, members, site, depth);
    *inside = (uint32_t)request.out[1];
    return (uint32_t)request.out[0];
}

/* ---- votes and reductions ---- */

static void vote(struct emu_request *const *requests, uint64_t set) {
    uint64_t yes = 0;
    EACH_LANE(lane, set) {
        yes |= requests[lane]->in[0] << lane;
    }
    EACH_LANE(lane, set) {
        requests[lane]->out[0] = yes;
    }
}

uint32_t nv_ballot(uint32_t members, uint32_t predicate, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {predicate}};
    sync(&request, "vote.sync.ballot", vote, members, site, depth);
    return (uint32_t)request.out[0];
}

enum { ADD, MIN, MAX, UMIN, UMAX, AND, OR, XOR };

static uint32_t reduced(uint32_t op, uint32_t a, uint32_t b) {
    switch (op) {
    case ADD: return a + b;
    case MIN: return (int32_t)a < (int32_t)b ? a : b;
    case MAX: return (int32_t)a > (int32_t)b ? a : b;
    case UMIN: return a < b ? a : b;
    case UMAX: return a > b ? a : b;
    case AND: return a & b;
    case OR: return a | b;
    default: return a ^ b;
    }
}

static void reduce(struct emu_request *const *requests, uint64_t set) {
    uint32_t first = (uint32_t)__builtin_ctzll(set), total = (uint32_t)requests[first]->in[1];
    EACH_LANE(lane, set & ~(1ull << first)) {
        total = reduced((uint32_t)requests[lane]->in[0], total, (uint32_t)requests[lane]->in[1]);
    }
    EACH_LANE(lane, set) {
        requests[lane]->out[0] = total;
    }
}

uint32_t nv_redux(uint32_t op, uint32_t value, uint32_t members, uint32_t site, uint32_t depth) {
    static const char *const KINDS[] = {"redux.add", "redux.min", "redux.max", "redux.umin",
                                        "redux.umax", "redux.and", "redux.or", "redux.xor"};
    struct emu_request request = {.in = {op, value}};
    sync(&request, KINDS[op], reduce, members, site, depth);
    return (uint32_t)request.out[0];
}

static void take_set(struct emu_request *const *requests, uint64_t set) {
    EACH_LANE(lane, set) {
        requests[lane]->out[0] = set;
    }
}

uint32_t nv_activemask(uint32_t site, uint32_t depth) {
    struct emu_request request = {.kind = "activemask", .action = take_set};
    emu_converge(&request, site, depth);
    return (uint32_t)request.out[0];
}

/* Which lane is elected is not said: the last one here, since programs may come to rely on the first. */
uint32_t nv_elect(uint32_t members, uint32_t *elected, uint32_t site, uint32_t depth) {
    struct emu_request request = {0};
    sync(&request, "elect.sync", take_set, members, site, depth);
    uint32_t last = 31u - (uint32_t)__builtin_clz((uint32_t)request.out[0]);
    *elected = emu_lane() == last;
    return last;
}

void nv_warp_sync(uint32_t members, uint32_t site, uint32_t depth) {
    struct emu_request request = {0};
    sync(&request, "bar.warp.sync", take_set, members, site, depth);
}

/* ---- the driver's functions ---- */

void nv_assertfail(const char *text, const char *file, uint32_t line, const char *function) {
    emu_fail("assertion failed: %s (%s:%u, %s)", text, file, line, function);
}

/* The arguments lie one after the other, each aligned to its size: none is smaller than an int. */
static uint64_t next_argument(const char *arguments, size_t *at, size_t bytes) {
    uint64_t value = 0;
    *at = (*at + bytes - 1) / bytes * bytes;
    memcpy(&value, arguments + *at, bytes);
    *at += bytes;
    return value;
}

uint32_t nv_vprintf(const char *format, const char *arguments) {
    size_t at = 0;
    uint32_t count = 0;
    char piece[64], text[1024];
    while (*format != 0) {
        if (*format != '%' || format[1] == '%') {
            emu_print(format, 1);
            format += *format == '%' ? 2 : 1;
            continue;
        }
        size_t length = strcspn(format + 1, "diouxXcspfeEgGaA") + 2;
        if (length >= sizeof piece || format[length - 1] == 0) {
            emu_fail("vprintf cannot read %s", format);
        }
        memcpy(piece, format, length);
        piece[length] = 0;
        format += length;
        char kind = piece[length - 1];
        int written;
        if (strchr("feEgGaA", kind) != NULL) {
            uint64_t bits = next_argument(arguments, &at, 8);
            double value;
            memcpy(&value, &bits, 8);
            written = snprintf(text, sizeof text, piece, value);
        } else if (kind == 's' || kind == 'p') {
            written = snprintf(text, sizeof text, piece, (void *)(uintptr_t)next_argument(arguments, &at, 8));
        } else if (strchr(piece, 'l') != NULL) {
            written = snprintf(text, sizeof text, piece, (long long)next_argument(arguments, &at, 8));
        } else {
            written = snprintf(text, sizeof text, piece, (int)next_argument(arguments, &at, 4));
        }
        emu_print(text, (size_t)written);
        count++;
    }
    return count;
}

void *nv_malloc(uint64_t bytes) {
    void *memory = malloc(bytes);
    if (memory != NULL) {
        memset(memory, EMU_POISON_BYTE, bytes);
    }
    return memory;
}

/* ---- addresses ---- */

void *nv_address(uint64_t address, uint32_t bytes) {
    if (address & (bytes - 1)) {
        emu_fail("%u bytes at address %#llx, which is not aligned to as many", bytes, (unsigned long long)address);
    }
    return (void *)(uintptr_t)address;
}

static bool inside(const struct emu_memory *memory, uint64_t size, uint64_t address, uint32_t bytes) {
    uint64_t first = (uint64_t)(uintptr_t)memory->address;
    return memory->address != NULL && address >= first && address + bytes <= first + size;
}

void *nv_shared_address(uint64_t address, uint32_t bytes) {
    bool found = inside(&emu.launch->dynamic, emu.launch->dynamic_bytes, address, bytes);
    for (uint32_t i = 0; !found && i < emu.launch->shared_count; i++) {
        found = inside(&emu.launch->shared[i], emu.launch->shared[i].bytes, address, bytes);
    }
    if (!found) {
        emu_fail("%u bytes at shared address %#llx, where the workgroup has no memory", bytes,
                 (unsigned long long)(address - (uint64_t)(uintptr_t)emu.launch->dynamic.address));
    }
    return nv_address(address, bytes);
}

/* ---- ends ---- */

_Noreturn void nv_trap(void) {
    emu_fail("trap");
}

void nv_exit(void) {
    emu.self->state = ENDED;
    gb_fiber_switch(&emu.self->fiber, &emu.scheduler);
}

/* ---- bits ---- */

/* Bits from `start` on, `length` of them, both of their lower 8 bits; beyond the top there are signs. */
uint64_t nv_bfe(uint64_t value, uint32_t start, uint32_t length, uint32_t bits, uint32_t is_signed) {
    uint32_t first = start & 255, count = length & 255, top = bits - 1;
    uint64_t sign = 0, result = 0;
    if (is_signed && count != 0) {
        uint32_t last = first + count - 1 < top ? first + count - 1 : top;
        sign = value >> last & 1;
    }
    for (uint32_t i = 0; i < bits; i++) {
        uint64_t bit = i < count && first + i <= top ? value >> (first + i) & 1 : sign;
        result |= bit << i;
    }
    return result;
}

uint64_t nv_bfi(uint64_t field, uint64_t into, uint32_t start, uint32_t length, uint32_t bits) {
    uint32_t first = start & 255, count = length & 255;
    for (uint32_t i = 0; i < count && first + i < bits; i++) {
        uint64_t place = 1ull << (first + i);
        into = (field >> i & 1) ? into | place : into & ~place;
    }
    return into;
}

/* Bytes of `b` and `a` by a selection of four: three bits for the byte, one to replicate its sign. */
uint32_t nv_prmt(uint32_t a, uint32_t b, uint32_t selection) {
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t which = selection >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(bytes >> (8 * (which & 7))) & 255;
        result |= (which & 8 ? (byte & 0x80 ? 0xFF : 0) : byte) << (8 * i);
    }
    return result;
}
