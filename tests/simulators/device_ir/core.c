/* core.c: the fibers of a workgroup, their order, and the operations of subgroups. */
#define _GNU_SOURCE
#include "core_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct emu_state emu;

static uint32_t subgroup_count(void) {
    return (emu.item_count + emu.launch->subgroup_size - 1) / emu.launch->subgroup_size;
}

static struct item *lane_of(uint32_t subgroup, uint32_t lane) {
    uint32_t flat = subgroup * emu.launch->subgroup_size + lane;
    return lane < emu.launch->subgroup_size && flat < emu.item_count ? &emu.items[flat] : NULL;
}

static uint64_t live_lanes(uint32_t subgroup) {
    uint64_t found = 0;
    for (uint32_t lane = 0; lane < emu.launch->subgroup_size; lane++) {
        struct item *item = lane_of(subgroup, lane);
        found |= (uint64_t)(item != NULL && item->state != ENDED) << lane;
    }
    return found;
}

uint64_t emu_live_lanes(void) {
    return live_lanes(emu.self->flat / emu.launch->subgroup_size);
}

static int compare(const struct item *a, const struct item *b) {
    for (uint32_t i = 0; i < a->length && i < b->length; i++) {
        if (a->key[i] != b->key[i]) {
            return a->key[i] < b->key[i] ? -1 : 1;
        }
    }
    return a->length == b->length ? 0 : a->length < b->length ? -1 : 1;
}

static void perform(uint32_t subgroup, uint64_t set) {
    struct emu_request *requests[EMU_MOST_LANES] = {0};
    emu_action *action = NULL;
    for (uint32_t lane = 0; lane < emu.launch->subgroup_size; lane++) {
        if (set >> lane & 1) {
            requests[lane] = lane_of(subgroup, lane)->request;
            action = requests[lane]->action;
        }
    }
    action(requests, set);
    for (uint32_t lane = 0; lane < emu.launch->subgroup_size; lane++) {
        if (set >> lane & 1) {
            lane_of(subgroup, lane)->state = READY;
        }
    }
}

/* The lanes that wait at the position behind all others: lanes in lockstep reach it first. */
static uint64_t at_first_position(uint32_t subgroup, const struct item **found) {
    const struct item *first = NULL;
    uint64_t set = 0;
    for (uint32_t lane = 0; lane < emu.launch->subgroup_size; lane++) {
        const struct item *item = lane_of(subgroup, lane);
        if (item == NULL || item->state != CONVERGING) {
            continue;
        }
        int order = first == NULL ? -1 : compare(item, first);
        if (order < 0) {
            first = item;
            set = 0;
        }
        set |= (uint64_t)(order <= 0) << lane;
    }
    *found = first;
    return set;
}

/* Perform one operation of the subgroup, if one can be; false when none can. */
static bool settle(uint32_t subgroup) {
    const struct item *first;
    uint64_t together = at_first_position(subgroup, &first);
    if (together == 0) {
        return false;
    }
    if (first->request->members == 0) {
        perform(subgroup, together);
        return true;
    }
    uint64_t live = live_lanes(subgroup);
    for (uint32_t lane = 0; lane < emu.launch->subgroup_size; lane++) {
        const struct item *item = lane_of(subgroup, lane);
        if (item == NULL || item->state != CONVERGING || item->request->members == 0) {
            continue;
        }
        const struct emu_request *wanted = item->request;
        uint64_t arrived = 0;
        for (uint32_t other = 0; other < emu.launch->subgroup_size; other++) {
            const struct item *o = lane_of(subgroup, other);
            arrived |= (uint64_t)(o != NULL && o->state == CONVERGING && o->request->members == wanted->members &&
                               o->request->action == wanted->action && strcmp(o->request->kind, wanted->kind) == 0 &&
                               (!wanted->converged || compare(o, item) == 0))
                    << other;
        }
        if (arrived == (wanted->members & live)) {
            perform(subgroup, arrived);
            return true;
        }
    }
    /* The lanes at the first position wait for others, which may continue. */
    for (uint32_t lane = 0; lane < emu.launch->subgroup_size; lane++) {
        const struct item *item = lane_of(subgroup, lane);
        if (item == NULL || item->state != CONVERGING || item->request->members != 0) {
            continue;
        }
        uint64_t set = 0;
        for (uint32_t other = 0; other < emu.launch->subgroup_size; other++) {
            const struct item *o = lane_of(subgroup, other);
            set |= (uint64_t)(o != NULL && o->state == CONVERGING && compare(o, item) == 0) << other;
        }
        perform(subgroup, set);
        return true;
    }
    return false;
}

static bool lanes_agree(const struct item *item) {
    uint32_t subgroup = item->flat / emu.launch->subgroup_size;
    for (uint32_t lane = 0; lane < emu.launch->subgroup_size; lane++) {
        const struct item *other = lane_of(subgroup, lane);
        if (other != NULL && other->state != ENDED &&
            (other->state != AT_BARRIER || other->barrier != item->barrier || compare(other, item) != 0)) {
            return false;
        }
    }
    return true;
}

/* Resume the work-items at a barrier that all have reached; false when there is none. */
static bool release(void) {
    const struct item *first = NULL;
    for (uint32_t i = 0; i < emu.item_count; i++) {
        const struct item *item = &emu.items[i];
        first = first == NULL && item->state != ENDED ? item : first;
        if (first != NULL && item->state != ENDED &&
            (item->state != AT_BARRIER || item->barrier != first->barrier)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < emu.item_count; i++) {
        if (emu.items[i].state == AT_BARRIER && !lanes_agree(&emu.items[i])) {
            emu_fail("lanes of subgroup %u are at different barriers, or not all of them at one",
                     i / emu.launch->subgroup_size);
        }
    }
    for (uint32_t i = 0; i < emu.item_count; i++) {
        emu.items[i].state = emu.items[i].state == AT_BARRIER ? READY : ENDED;
    }
    return true;
}

/* Write the operations that work-items wait for to the message. */
static void describe_stop(void) {
    size_t used = (size_t)snprintf(emu.message, sizeof emu.message,
                                   "workgroup (%u, %u, %u): no work-item can continue:", emu.group[0],
                                   emu.group[1], emu.group[2]);
    for (uint32_t i = 0; i < emu.item_count && used < sizeof emu.message - 120; i++) {
        const struct item *item = &emu.items[i];
        if (item->state == ENDED ||
            (i > 0 && emu.items[i - 1].state == item->state && compare(&emu.items[i - 1], item) == 0)) {
            continue;
        }
        used += (size_t)snprintf(emu.message + used, sizeof emu.message - used,
                                 " from work-item %u on at site %u: %s %#llx;",
                                 i, item->key[item->length - 1],
                                 item->state == AT_BARRIER ? "barrier" : item->request->kind,
                                 item->state == AT_BARRIER ? item->barrier
                                                           : (unsigned long long)item->request->members);
    }
    emu.failed = true;
}

static void run_item(void) {
    emu.launch->kernel(emu.launch->arguments);
    emu.self->state = ENDED;
    gb_fiber_switch(&emu.self->fiber, &emu.scheduler);
}

static void run_subgroup(uint32_t subgroup, bool *progress) {
    for (uint32_t n = 0; n < emu.launch->subgroup_size && !emu.failed; n++) {
        struct item *item = lane_of(subgroup, emu.launch->backwards ? emu.launch->subgroup_size - 1 - n : n);
        if (item != NULL && item->state == READY) {
            *progress = true;
            emu.self = item;
            gb_fiber_switch(&emu.scheduler, &item->fiber);
            emu.self = NULL;
        }
    }
}

static void check_dynamic_memory(void) {
    for (uint64_t i = emu.launch->dynamic_bytes; i < emu.launch->dynamic.bytes; i++) {
        if ((unsigned char)emu.launch->dynamic.address[i] != EMU_POISON_BYTE) {
            emu_fail("byte %llu of dynamic workgroup memory was written, which has %u bytes", (unsigned long long)i,
                     emu.launch->dynamic_bytes);
        }
    }
}

static void run_workgroup(void) {
    for (uint32_t i = 0; i < emu.launch->shared_count; i++) {
        memset(emu.launch->shared[i].address, EMU_POISON_BYTE, emu.launch->shared[i].bytes);
    }
    if (emu.launch->dynamic.address != NULL) {
        memset(emu.launch->dynamic.address, EMU_POISON_BYTE, emu.launch->dynamic.bytes);
    }
    for (uint32_t i = 0; i < emu.item_count; i++) {
        struct item *item = &emu.items[i];
        memset(item, 0, sizeof *item);
        item->flat = i;
        item->id[0] = i % emu.launch->block[0];
        item->id[1] = i / emu.launch->block[0] % emu.launch->block[1];
        item->id[2] = i / emu.launch->block[0] / emu.launch->block[1];
        gb_fiber_start(&item->fiber, &emu.stacks, i, run_item);
    }
    bool ended = false;
    while (!ended && !emu.failed) {
        bool progress = false;
        uint32_t subgroups = subgroup_count();
        for (uint32_t n = 0; n < subgroups && !emu.failed; n++) {
            uint32_t subgroup = emu.launch->backwards ? subgroups - 1 - n : n;
            do { /* a subgroup runs as far as possible before the next one */
                run_subgroup(subgroup, &progress);
            } while (!emu.failed && settle(subgroup));
        }
        for (uint32_t n = 0; n < subgroups && !emu.failed; n++) {
            progress |= settle(n);
        }
        if (progress || emu.failed) {
            continue;
        }
        ended = true;
        for (uint32_t i = 0; i < emu.item_count; i++) {
            ended &= emu.items[i].state == ENDED;
        }
        if (!ended && !release() && !emu.failed) {
            describe_stop();
        }
    }
    if (!emu.failed && emu.launch->dynamic.address != NULL) {
        check_dynamic_memory();
    }
}

int emu_run(const struct emu_launch *given) {
    emu.launch = given;
    emu.item_count = given->block[0] * given->block[1] * given->block[2];
    emu.failed = false;
    emu.self = NULL;
    gb_fiber_stacks_reserve(&emu.stacks, emu.item_count, GB_FIBER_STACK_BYTES);
    if (emu.item_count > emu.items_reserved) {
        emu.items = realloc(emu.items, emu.item_count * sizeof *emu.items);
        emu.items_reserved = emu.item_count;
        if (emu.items == NULL) {
            abort();
        }
    }
    if (setjmp(emu.given_up) != 0) {
        return 1;
    }
    for (emu.group[2] = 0; emu.group[2] < given->grid[2] && !emu.failed; emu.group[2]++) {
        for (emu.group[1] = 0; emu.group[1] < given->grid[1] && !emu.failed; emu.group[1]++) {
            for (emu.group[0] = 0; emu.group[0] < given->grid[0] && !emu.failed; emu.group[0]++) {
                run_workgroup();
            }
        }
    }
    return emu.failed;
}

const char *emu_message(void) {
    return emu.message;
}
