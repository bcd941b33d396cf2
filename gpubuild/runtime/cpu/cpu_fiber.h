/* cpu_fiber.h: stacks, and the switch from one to another. */
#ifndef GPUBUILD_CPU_FIBER_H
#define GPUBUILD_CPU_FIBER_H

#include <stddef.h>
#include <stdint.h>

/* The switch in assembly takes some 3 ns; the C library's, which keeps signal masks, takes ten times as long.
 * GB_FIBER_UCONTEXT selects the latter where both exist. */
#if !defined(GB_FIBER_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define GB_FIBER_UCONTEXT
#endif

#if defined(GB_FIBER_UCONTEXT)
#include <ucontext.h>
#endif

/* Of one work-item, unless its kernel needs more. GPUs allow 512 KiB of private memory; printf and
 * mathematics come on top. Pages are backed by memory only once they are touched. */
#define GB_FIBER_STACK_BYTES (1024u * 1024u)

/* A suspended flow of control. */
struct gb_fiber {
#if defined(GB_FIBER_UCONTEXT)
    ucontext_t context;
#else
    void *stack_pointer;
#endif
};

/* Stacks of `bytes` for `count` fibers, each with an inaccessible page below it. */
struct gb_fiber_stacks {
    char *base;
    size_t count;
    size_t bytes;
};

/* How many threads may have stacks for `fibers` fibers at once; at least 1. Guard pages are a
 * limited resource on older kernels. */
unsigned gb_fiber_max_threads(unsigned fibers);

/* Provide stacks for at least `count` fibers, of at least `bytes` each; keeps the present ones if they are
 * enough. Fatal when memory runs out. */
void gb_fiber_stacks_reserve(struct gb_fiber_stacks *stacks, size_t count, size_t bytes);
void gb_fiber_stacks_free(struct gb_fiber_stacks *stacks);

/* The address behind the stack of fiber `index`. */
const char *gb_fiber_stack_end(const struct gb_fiber_stacks *stacks, size_t index);

/* Prepare fiber `index` to run `entry`, which must not return, on its own stack. */
void gb_fiber_start(struct gb_fiber *fiber, const struct gb_fiber_stacks *stacks, size_t index,
                    void (*entry)(void));

/* Save the present flow in `from` and continue where `to` was saved or started. */
void gb_fiber_switch(struct gb_fiber *from, struct gb_fiber *to);

#endif
