/* Fibers that switch to each other and check that their registers, integer and floating-point, are preserved: more values
 * than a function has registers for. Exit code 0, or the number of the failed check. FREESTANDING: without a C library. */
#include "cpu/cpu_device.h"

enum { FIBERS = 5, ROUNDS = 1000, STACK_STRIDE = (1024 + 64) * 1024 };

static _Alignas(64) char memory[FIBERS * (size_t)STACK_STRIDE];
static struct gb_fiber fibers[FIBERS], home;
static volatile int running;
static volatile double seeds[FIBERS];
static int wrong;
static int rounds[FIBERS];

static void next(void) {
    int before = running;
    running = before + 1;
    gb_fiber_switch(&fibers[before], running < FIBERS ? &fibers[running] : &home);
}

static void check(int number, int expected, int found) {
    if (expected != found && wrong == 0) {
        wrong = number;
    }
}

static void entry(void) {
    const int self = running;
    double a = seeds[self], b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6, h = a + 7;
    long i = self, j = self + 1, k = self + 2, l = self + 3, m = self + 4, n = self + 5, o = self + 6, p = self + 7;
    check(2, 0, (int)((uintptr_t)__builtin_frame_address(0) % 16)); /* the ABI of both processors */
    for (;;) {
        next();
        rounds[self]++;
        a += 1, b += 1, c += 1, d += 1, e += 1, f += 1, g += 1, h += 1;
        i++, j++, k++, l++, m++, n++, o++, p++;
        check(3, self, running);
        check(4, rounds[self] * 8 + (int)(8 * seeds[self]) + 28, (int)(a + b + c + d + e + f + g + h));
        check(5, rounds[self] * 8 + 8 * self + 28, (int)(i + j + k + l + m + n + o + p));
    }
}

static int run(void) {
    struct gb_fiber_stacks stacks = {memory, FIBERS, GB_FIBER_STACK_BYTES};
    for (int i = 0; i < FIBERS; i++) {
        seeds[i] = i + 0.5;
        gb_fiber_start(&fibers[i], &stacks, (size_t)i, entry);
    }
    double kept = seeds[1];
    for (int i = 0; i <= ROUNDS; i++) {
        running = 0;
        gb_fiber_switch(&home, &fibers[0]);
        kept += 1;
    }
    check(6, ROUNDS + 1, (int)(kept - seeds[1]));
    for (int i = 0; i < FIBERS; i++) {
        check(7, ROUNDS, rounds[i]);
    }
    return wrong;
}

#if defined(FREESTANDING)
void _start(void);
void _start(void) {
    register long code __asm__("x0") = run();
    register long call __asm__("x8") = 93; /* exit, of AArch64 Linux */
    __asm__ volatile("svc #0" : : "r"(code), "r"(call));
    __builtin_unreachable();
}
#else
int main(void) {
    return run();
}
#endif
