/* core.c: the fibers of a workgroup, their order, and how operations of subgroups come about. */
#define _GNU_SOURCE
#include "core.h"

#include "cpu_fiber.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum state { READY, CONVERGING, AT_BARRIER, ENDED };

struct item {
    struct gb_fiber fiber;
    enum state state;
    uint32_t id[3], flat;
    struct emu_request *request;
    uint32_t barrier, count;
    bool aligned;
    uint32_t key[EMU_MOST_KEY]; /* where it is: (loop, turn) or (call, 0) pairs, then the site */
    uint32_t length, base, bases[EMU_MOST_KEY], frames;
};

static const struct emu_launch *launch;
static struct item *items;
static uint32_t item_count, items_reserved, group[3];
static struct gb_fiber_stacks stacks;
static struct gb_fiber scheduler;
static struct item *self;
static char message[2048];
static bool failed;
static jmp_buf given_up; /* where the scheduler goes on after a failure that is no work-item's alone */
static char *output;
static size_t output_bytes, output_reserved;

/* ---- for work-items ---- */

static void leave(void) {
    gb_fiber_switch(&self->fiber, &scheduler);
}

void emu_fail(const char *format, ...) {
    char what[1500];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (!failed && self != NULL) {
        snprintf(message, sizeof message, "workgroup (%u, %u, %u), work-item (%u, %u, %u): %s", group[0], group[1],
                 group[2], self->id[0], self->id[1], self->id[2], what);
    } else if (!failed) {
        snprintf(message, sizeof message, "workgroup (%u, %u, %u): %s", group[0], group[1], group[2], what);
    }
    failed = true;
    if (self != NULL) {
        self->state = ENDED;
        leave();
    }
    longjmp(given_up, 1);
}

void emu_unknown(const char *name) {
    emu_fail("comes to %s, of which nothing is known here", name);
}

static void place(uint32_t site, uint32_t depth) {
    uint32_t at = self->base + 2 * depth;
    if (at > self->length || at + 1 > EMU_MOST_KEY) {
        emu_fail("lost count of loops");
    }
    self->key[at] = site;
    self->length = at + 1;
}

/* Entering a loop, or its next turn. `depth` loops of this function are around it. */
void emu_head(uint32_t loop, uint32_t depth) {
    uint32_t at = self->base + 2 * depth;
    if (at + 2 > EMU_MOST_KEY) {
        emu_fail("loops nested too deep");
    }
    bool again = at + 2 <= self->length && self->key[at] == loop;
    self->key[at + 1] = again ? self->key[at + 1] + 1 : 0;
    self->key[at] = loop;
    self->length = at + 2;
}

void emu_enter(uint32_t site, uint32_t depth) {
    uint32_t at = self->base + 2 * depth;
    if (at + 2 > EMU_MOST_KEY || self->frames == EMU_MOST_KEY) {
        emu_fail("calls nested too deep");
    }
    self->key[at] = site;
    self->key[at + 1] = 0;
    self->length = at + 2;
    self->bases[self->frames++] = self->base;
    self->base = self->length;
}

void emu_leave(void) {
    self->length = self->base - 2;
    self->base = self->bases[--self->frames];
}

void emu_converge(struct emu_request *request, uint32_t site, uint32_t depth) {
    place(site, depth);
    request->lane = emu_lane();
    if (request->members != 0 && !(request->members >> request->lane & 1)) {
        emu_fail("%s of lanes %#llx by lane %u, which is not one of them", request->kind,
                 (unsigned long long)request->members, request->lane);
    }
    self->request = request;
    self->state = CONVERGING;
    leave();
    self->length--;
}

void emu_barrier(uint32_t id, uint32_t count, bool aligned, uint32_t site, uint32_t depth) {
    place(site, depth);
    self->barrier = id;
    self->count = count;
    self->aligned = aligned;
    self->state = AT_BARRIER;
    leave();
    self->length--;
}

void emu_yield(void) {
    leave();
}

void emu_print(const char *text, size_t bytes) {
    if (output_bytes + bytes > output_reserved) {
        output_reserved = 2 * (output_bytes + bytes);
        output = realloc(output, output_reserved);
        if (output == NULL) {
            abort();
        }
    }
    memcpy(output + output_bytes, text, bytes);
    output_bytes += bytes;
}

uint32_t emu_thread_id(uint32_t axis) { return self->id[axis]; }
uint32_t emu_block_id(uint32_t axis) { return group[axis]; }
uint32_t emu_block_dim(uint32_t axis) { return launch->block[axis]; }
uint32_t emu_grid_dim(uint32_t axis) { return launch->grid[axis]; }
uint32_t emu_cluster_dim(uint32_t axis) { return launch->cluster[axis]; }
uint32_t emu_flat_id(void) { return self->flat; }
uint32_t emu_lane(void) { return self->flat % launch->subgroup_size; }
uint32_t emu_subgroup_size(void) { return launch->subgroup_size; }
uint32_t emu_dynamic_bytes(void) { return launch->dynamic_bytes; }

/* ---- the scheduler ---- */

static uint32_t subgroup_count(void) {
    return (item_count + launch->subgroup_size - 1) / launch->subgroup_size;
}

static struct item *lane_of(uint32_t subgroup, uint32_t lane) {
    uint32_t flat = subgroup * launch->subgroup_size + lane;
    return lane < launch->subgroup_size && flat < item_count ? &items[flat] : NULL;
}

static uint64_t live_lanes(uint32_t subgroup) {
    uint64_t found = 0;
    for (uint32_t lane = 0; lane < launch->subgroup_size; lane++) {
        struct item *item = lane_of(subgroup, lane);
        found |= (uint64_t)(item != NULL && item->state != ENDED) << lane;
    }
    return found;
}

uint64_t emu_live_lanes(void) {
    return live_lanes(self->flat / launch->subgroup_size);
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
    for (uint32_t lane = 0; lane < launch->subgroup_size; lane++) {
        if (set >> lane & 1) {
            requests[lane] = lane_of(subgroup, lane)->request;
            action = requests[lane]->action;
        }
    }
    action(requests, set);
    for (uint32_t lane = 0; lane < launch->subgroup_size; lane++) {
        if (set >> lane & 1) {
            lane_of(subgroup, lane)->state = READY;
        }
    }
}

/* Those that wait at the place that is behind all others, as lanes in lockstep would come to it. */
static uint64_t at_first_place(uint32_t subgroup, const struct item **found) {
    const struct item *first = NULL;
    uint64_t set = 0;
    for (uint32_t lane = 0; lane < launch->subgroup_size; lane++) {
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
    uint64_t together = at_first_place(subgroup, &first);
    if (together == 0) {
        return false;
    }
    if (first->request->members == 0) {
        perform(subgroup, together);
        return true;
    }
    uint64_t live = live_lanes(subgroup);
    for (uint32_t lane = 0; lane < launch->subgroup_size; lane++) {
        const struct item *item = lane_of(subgroup, lane);
        if (item == NULL || item->state != CONVERGING || item->request->members == 0) {
            continue;
        }
        const struct emu_request *wanted = item->request;
        uint64_t come = 0;
        for (uint32_t other = 0; other < launch->subgroup_size; other++) {
            const struct item *o = lane_of(subgroup, other);
            come |= (uint64_t)(o != NULL && o->state == CONVERGING && o->request->members == wanted->members &&
                               o->request->action == wanted->action && strcmp(o->request->kind, wanted->kind) == 0 &&
                               (!wanted->converged || compare(o, item) == 0))
                    << other;
        }
        if (come == (wanted->members & live)) {
            perform(subgroup, come);
            return true;
        }
    }
    /* Nobody waits for what the first place asks, but others may be able to go on without it. */
    for (uint32_t lane = 0; lane < launch->subgroup_size; lane++) {
        const struct item *item = lane_of(subgroup, lane);
        if (item == NULL || item->state != CONVERGING || item->request->members != 0) {
            continue;
        }
        uint64_t set = 0;
        for (uint32_t other = 0; other < launch->subgroup_size; other++) {
            const struct item *o = lane_of(subgroup, other);
            set |= (uint64_t)(o != NULL && o->state == CONVERGING && compare(o, item) == 0) << other;
        }
        perform(subgroup, set);
        return true;
    }
    return false;
}

static bool lanes_agree(const struct item *item) {
    uint32_t subgroup = item->flat / launch->subgroup_size;
    for (uint32_t lane = 0; lane < launch->subgroup_size; lane++) {
        const struct item *other = lane_of(subgroup, lane);
        if (other != NULL && other->state != ENDED &&
            (other->state != AT_BARRIER || other->barrier != item->barrier || compare(other, item) != 0)) {
            return false;
        }
    }
    return true;
}

/* Let those go on that wait at a barrier to which all have come. */
static bool release(void) {
    uint32_t live = 0;
    for (uint32_t i = 0; i < item_count; i++) {
        live += items[i].state != ENDED;
    }
    for (uint32_t i = 0; i < item_count; i++) {
        if (items[i].state != AT_BARRIER) {
            continue;
        }
        uint32_t id = items[i].barrier, count = items[i].count, come = 0;
        for (uint32_t k = 0; k < item_count; k++) {
            come += items[k].state == AT_BARRIER && items[k].barrier == id && items[k].count == count;
        }
        if (come < (count != 0 ? count : live)) {
            continue;
        }
        for (uint32_t k = 0; k < item_count; k++) {
            if (items[k].state == AT_BARRIER && items[k].barrier == id && items[k].aligned && !lanes_agree(&items[k])) {
                emu_fail("lanes of subgroup %u are at different barriers, or not all of them at one",
                         k / launch->subgroup_size);
            }
        }
        for (uint32_t k = 0; k < item_count; k++) {
            if (items[k].state == AT_BARRIER && items[k].barrier == id && items[k].count == count) {
                items[k].state = READY;
            }
        }
        return true;
    }
    return false;
}

/* Which work-items wait for what, for a message. */
static void describe_stop(void) {
    size_t used = (size_t)snprintf(message, sizeof message, "workgroup (%u, %u, %u): nobody can go on:", group[0],
                                   group[1], group[2]);
    for (uint32_t i = 0; i < item_count && used < sizeof message - 120; i++) {
        const struct item *item = &items[i];
        if (item->state == ENDED ||
            (i > 0 && items[i - 1].state == item->state && compare(&items[i - 1], item) == 0)) {
            continue;
        }
        used += (size_t)snprintf(message + used, sizeof message - used, " from work-item %u on at site %u: %s %#llx;",
                                 i, item->key[item->length - 1],
                                 item->state == AT_BARRIER ? "barrier" : item->request->kind,
                                 item->state == AT_BARRIER ? item->barrier
                                                           : (unsigned long long)item->request->members);
    }
    failed = true;
}

static void run_item(void) {
    launch->kernel(launch->arguments);
    self->state = ENDED;
    leave();
}

static void run_subgroup(uint32_t subgroup, bool *progress) {
    for (uint32_t n = 0; n < launch->subgroup_size && !failed; n++) {
        struct item *item = lane_of(subgroup, launch->backwards ? launch->subgroup_size - 1 - n : n);
        if (item != NULL && item->state == READY) {
            *progress = true;
            self = item;
            gb_fiber_switch(&scheduler, &item->fiber);
            self = NULL;
        }
    }
}

static void check_dynamic_memory(void) {
    for (uint64_t i = launch->dynamic_bytes; i < launch->dynamic.bytes; i++) {
        if ((unsigned char)launch->dynamic.address[i] != EMU_POISON_BYTE) {
            emu_fail("byte %llu of dynamic workgroup memory was written, which has %u bytes", (unsigned long long)i,
                     launch->dynamic_bytes);
        }
    }
}

static void run_workgroup(void) {
    for (uint32_t i = 0; i < launch->shared_count; i++) {
        memset(launch->shared[i].address, EMU_POISON_BYTE, launch->shared[i].bytes);
    }
    if (launch->dynamic.address != NULL) {
        memset(launch->dynamic.address, EMU_POISON_BYTE, launch->dynamic.bytes);
    }
    for (uint32_t i = 0; i < item_count; i++) {
        struct item *item = &items[i];
        memset(item, 0, sizeof *item);
        item->flat = i;
        item->id[0] = i % launch->block[0];
        item->id[1] = i / launch->block[0] % launch->block[1];
        item->id[2] = i / launch->block[0] / launch->block[1];
        gb_fiber_start(&item->fiber, &stacks, i, run_item);
    }
    bool ended = false;
    while (!ended && !failed) {
        bool progress = false;
        uint32_t subgroups = subgroup_count();
        for (uint32_t n = 0; n < subgroups && !failed; n++) {
            uint32_t subgroup = launch->backwards ? subgroups - 1 - n : n;
            do { /* a subgroup goes on until it waits for others: as far ahead of them as can be */
                run_subgroup(subgroup, &progress);
            } while (!failed && settle(subgroup));
        }
        for (uint32_t n = 0; n < subgroups && !failed; n++) {
            progress |= settle(n);
        }
        if (progress || failed) {
            continue;
        }
        ended = true;
        for (uint32_t i = 0; i < item_count; i++) {
            ended &= items[i].state == ENDED;
        }
        if (!ended && !release() && !failed) {
            describe_stop();
        }
    }
    if (!failed && launch->dynamic.address != NULL) {
        check_dynamic_memory();
    }
}

int emu_run(const struct emu_launch *given) {
    launch = given;
    item_count = given->block[0] * given->block[1] * given->block[2];
    failed = false;
    self = NULL;
    gb_fiber_stacks_reserve(&stacks, item_count);
    if (item_count > items_reserved) {
        items = realloc(items, item_count * sizeof *items);
        items_reserved = item_count;
        if (items == NULL) {
            abort();
        }
    }
    if (setjmp(given_up) != 0) {
        return 1;
    }
    for (group[2] = 0; group[2] < given->grid[2] && !failed; group[2]++) {
        for (group[1] = 0; group[1] < given->grid[1] && !failed; group[1]++) {
            for (group[0] = 0; group[0] < given->grid[0] && !failed; group[0]++) {
                run_workgroup();
            }
        }
    }
    return failed;
}

const char *emu_message(void) {
    return message;
}

size_t emu_take_output(char *into, size_t bytes) {
    size_t taken = output_bytes < bytes - 1 ? output_bytes : bytes - 1;
    memcpy(into, output != NULL ? output : "", taken);
    into[taken] = 0;
    size_t all = output_bytes;
    output_bytes = 0;
    return all;
}
