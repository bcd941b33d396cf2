/* items.c: functions that work-items call: ids, waiting, positions. */
#define _GNU_SOURCE
#include "core_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *output;
static size_t output_bytes, output_reserved;

static void leave(void) {
    gb_fiber_switch(&emu.self->fiber, &emu.scheduler);
}

void emu_fail(const char *format, ...) {
    char what[1500];
    va_list list;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    if (!emu.failed && emu.self != NULL) {
        snprintf(emu.message, sizeof emu.message, "workgroup (%u, %u, %u), work-item (%u, %u, %u): %s",
                 emu.group[0], emu.group[1], emu.group[2], emu.self->id[0], emu.self->id[1], emu.self->id[2], what);
    } else if (!emu.failed) {
        snprintf(emu.message, sizeof emu.message, "workgroup (%u, %u, %u): %s", emu.group[0], emu.group[1],
                 emu.group[2], what);
    }
    emu.failed = true;
    if (emu.self != NULL) {
        emu.self->state = ENDED;
        leave();
    }
    longjmp(emu.given_up, 1);
}

void emu_unknown(const char *name) {
    emu_fail("calls %s, which is unknown here", name);
}

static void set_position(uint32_t site, uint32_t depth) {
    uint32_t at = emu.self->base + 2 * depth;
    if (at > emu.self->length || at + 1 > EMU_MOST_KEY) {
        emu_fail("lost count of loops");
    }
    emu.self->key[at] = site;
    emu.self->length = at + 1;
}

/* Enter a loop or its next iteration. `depth` loops of this function are around it. */
void emu_head(uint32_t loop, uint32_t depth) {
    uint32_t at = emu.self->base + 2 * depth;
    if (at + 2 > EMU_MOST_KEY) {
        emu_fail("loops nested too deep");
    }
    bool again = at + 2 <= emu.self->length && emu.self->key[at] == loop;
    emu.self->key[at + 1] = again ? emu.self->key[at + 1] + 1 : 0;
    emu.self->key[at] = loop;
    emu.self->length = at + 2;
}

void emu_enter(uint32_t site, uint32_t depth) {
    uint32_t at = emu.self->base + 2 * depth;
    if (at + 2 > EMU_MOST_KEY || emu.self->frames == EMU_MOST_KEY) {
        emu_fail("calls nested too deep");
    }
    emu.self->key[at] = site;
    emu.self->key[at + 1] = 0;
    emu.self->length = at + 2;
    emu.self->bases[emu.self->frames++] = emu.self->base;
    emu.self->base = emu.self->length;
}

void emu_leave(void) {
    emu.self->length = emu.self->base - 2;
    emu.self->base = emu.self->bases[--emu.self->frames];
}

void emu_converge(struct emu_request *request, uint32_t site, uint32_t depth) {
    set_position(site, depth);
    request->lane = emu_lane();
    if (request->members != 0 && !(request->members >> request->lane & 1)) {
        emu_fail("%s of lanes %#llx by lane %u, which is not one of them", request->kind,
                 (unsigned long long)request->members, request->lane);
    }
    emu.self->request = request;
    emu.self->state = CONVERGING;
    leave();
    emu.self->length--;
}

void emu_barrier(uint32_t id, uint32_t site, uint32_t depth) {
    set_position(site, depth);
    emu.self->barrier = id;
    emu.self->state = AT_BARRIER;
    leave();
    emu.self->length--;
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

uint32_t emu_thread_id(uint32_t axis) { return emu.self->id[axis]; }
uint32_t emu_block_id(uint32_t axis) { return emu.group[axis]; }
uint32_t emu_block_dim(uint32_t axis) { return emu.launch->block[axis]; }
uint32_t emu_grid_dim(uint32_t axis) { return emu.launch->grid[axis]; }
uint32_t emu_cluster_dim(uint32_t axis) { return emu.launch->cluster[axis]; }
uint32_t emu_flat_id(void) { return emu.self->flat; }
uint32_t emu_lane(void) { return emu.self->flat % emu.launch->subgroup_size; }
uint32_t emu_subgroup_size(void) { return emu.launch->subgroup_size; }

size_t emu_take_output(char *into, size_t bytes) {
    size_t taken = output_bytes < bytes - 1 ? output_bytes : bytes - 1;
    memcpy(into, output != NULL ? output : "", taken);
    into[taken] = 0;
    size_t all = output_bytes;
    output_bytes = 0;
    return all;
}
