/* core_state.h: the state of a launch, for core.c, which schedules work-items, and for the functions that they call. */
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
    uint32_t barrier;
    uint32_t key[EMU_MOST_KEY]; /* position: pairs (loop, iteration) or (call, 0), then the site */
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
    jmp_buf given_up; /* the scheduler continues here after a failure outside of work-items */
} emu;

#endif
