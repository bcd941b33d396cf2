/* cpu_fiber.c: stacks with guard pages, and the first frames of fibers. */
#define _GNU_SOURCE
#include "cpu/cpu_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13: a guard page without a mapping of its own */
#endif

enum {
    DEFAULT_MAPPINGS = 65530, /* vm.max_map_count where it cannot be read */
    OTHER_MAPPINGS = 8192,    /* left to the rest of the program */
    GUARD_BYTES = 64 * 1024   /* a multiple of every page size */
};

/* The distance from one stack to the next. */
static size_t stack_stride(const struct gb_fiber_stacks *stacks) {
    return stacks->bytes + GUARD_BYTES;
}

static unsigned long usable_mappings;

static void read_mappings(void) {
    unsigned long mappings = DEFAULT_MAPPINGS;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file != NULL) {
        if (fscanf(file, "%lu", &mappings) != 1) {
            mappings = DEFAULT_MAPPINGS;
        }
        fclose(file);
    }
    usable_mappings = mappings > 2ul * OTHER_MAPPINGS ? mappings - OTHER_MAPPINGS : mappings / 2;
}

unsigned gb_fiber_max_threads(unsigned fibers) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_mappings);
    unsigned long threads = usable_mappings / (2ul * (fibers > 0 ? fibers : 1)); /* a stack and its guard */
    return threads == 0 ? 1u : threads > 4096 ? 4096u : (unsigned)threads;
}

static void install_guard(char *page, size_t bytes) {
    if (madvise(page, bytes, MADV_GUARD_INSTALL) == 0 || mprotect(page, bytes, PROT_NONE) == 0) {
        return;
    }
    gb_fatal(NULL,
             "cannot protect the stacks of work-items: %s; lower GPUBUILD_CPU_THREADS or raise vm.max_map_count",
             strerror(errno));
}

void gb_fiber_stacks_reserve(struct gb_fiber_stacks *stacks, size_t count, size_t bytes) {
    if (count <= stacks->count && bytes <= stacks->bytes) {
        return;
    }
    gb_fiber_stacks_free(stacks);
    const struct gb_fiber_stacks made = {.count = count, .bytes = bytes};
    size_t all = count * stack_stride(&made);
    char *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        gb_fatal(NULL, "no memory for the stacks of a kernel (%zu of %zu KiB): %s", count, bytes >> 10,
                 strerror(errno));
    }
    for (size_t i = 0; i < count; i++) {
        install_guard(base + i * stack_stride(&made), GUARD_BYTES);
    }
    *stacks = made;
    stacks->base = base;
}

void gb_fiber_stacks_free(struct gb_fiber_stacks *stacks) {
    if (stacks->base != NULL) {
        munmap(stacks->base, stacks->count * stack_stride(stacks));
    }
    *stacks = (struct gb_fiber_stacks){0};
}

const char *gb_fiber_stack_end(const struct gb_fiber_stacks *stacks, size_t index) {
    return stacks->base + (index + 1) * stack_stride(stacks);
}

/* Stagger the stacks: with equal addresses modulo the page size they would use the same cache sets. */
static uintptr_t *top_of(const struct gb_fiber_stacks *stacks, size_t index) {
    enum { STAGGER_BYTES = 192, STAGGER_STEPS = 61 };
    char *top = stacks->base + (index + 1) * stack_stride(stacks) - (index % STAGGER_STEPS) * STAGGER_BYTES;
    return (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15);
}

#if defined(__x86_64__)

void gb_fiber_switch_x86_64(void **from, void *to);

void gb_fiber_start(struct gb_fiber *fiber, const struct gb_fiber_stacks *stacks, size_t index,
                    void (*entry)(void)) {
    enum { SAVED_REGISTERS = 6 };
    uintptr_t *frame = top_of(stacks, index);
    *--frame = 0; /* in place of a return address: ends back traces, and rsp ≡ 8 (mod 16) at entry */
    *--frame = (uintptr_t)entry;
    for (int i = 0; i < SAVED_REGISTERS; i++) {
        *--frame = 0;
    }
    uint32_t control[2] = {0, 0};
    __asm__ volatile("stmxcsr %0" : "=m"(control[0]));
    __asm__ volatile("fnstcw %0" : "=m"(control[1]));
    *--frame = (uintptr_t)control[0] | (uintptr_t)control[1] << 32;
    fiber->stack_pointer = frame;
}

void gb_fiber_switch(struct gb_fiber *from, struct gb_fiber *to) {
    gb_fiber_switch_x86_64(&from->stack_pointer, to->stack_pointer);
}

#elif defined(__aarch64__)

void gb_fiber_switch_aarch64(void **from, void *to);

void gb_fiber_start(struct gb_fiber *fiber, const struct gb_fiber_stacks *stacks, size_t index,
                    void (*entry)(void)) {
    enum { FRAME_WORDS = 22, LINK = 11, CONTROL = 20 }; /* as in cpu/cpu_fiber_switch.S */
    uintptr_t *frame = top_of(stacks, index) - FRAME_WORDS;
    for (int i = 0; i < FRAME_WORDS; i++) {
        frame[i] = 0; /* x29 is 0, too, which ends back traces */
    }
    frame[LINK] = (uintptr_t)entry;
    __asm__ volatile("mrs %0, fpcr" : "=r"(frame[CONTROL]));
    fiber->stack_pointer = frame;
}

void gb_fiber_switch(struct gb_fiber *from, struct gb_fiber *to) {
    gb_fiber_switch_aarch64(&from->stack_pointer, to->stack_pointer);
}

#endif
