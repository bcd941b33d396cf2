/* core_state.h: what core.c, which decides who goes on, and items.c, which work-items call, know of a launch. */
#ifndef DEVICE_IR_CORE_STATE_H
#define DEVICE_IR_CORE_STATE_H

#include "core.h"

#include "cpu/cpu_device.h"

#include <setjmp.h>

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

extern struct emu_state {
    const struct emu_launch *launch;
    struct item *items;
    struct gb_fiber_stacks stacks;
    uint32_t items_reserved; /* room in `items` */
    uint32_t item_count, group[3];
    struct gb_fiber scheduler;
    struct item *self; /* NULL while the scheduler runs */
    char message[2048];
    bool failed;
    jmp_buf given_up; /* where the scheduler goes on after a failure that is no work-item's alone */
} emu;

#endif
