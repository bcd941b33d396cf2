/* cpu_peaks.c: what this processor can do at most: the best of a few passes, as anything else on it only slows them. */
#define _POSIX_C_SOURCE 200809L
#include "cpu_peaks.h"

#include "cpu_count.h"
#include "cpu_image.h"
#include "cpu_pool.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

enum {
    PASSES = 4,
    ARRAY_BYTES = 32 << 20, /* three of them: more than caches hold */
    PART = 1 << 16,         /* elements */
    PARTS = ARRAY_BYTES / (int)sizeof(float) / PART,
    TASKS_PER_THREAD = 4,
    ROUNDS = 400000 /* of 12 instructions: a millisecond or two */
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct measurement {
    struct gb_cpu_job job;
    float *a, *b, *c;
    int width; /* of vectors, in bits */
};

/* Seconds of the best pass. */
static double best_pass(struct measurement *it, void (*run)(struct gb_cpu_job *, uint64_t, uint64_t), uint64_t tasks) {
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        it->job = (struct gb_cpu_job){.run = run, .tasks = tasks, .max_threads = UINT_MAX};
        double start = now();
        gb_cpu_pool_run(&it->job);
        double seconds = now() - start;
        best = pass == 0 || seconds < best ? seconds : best;
    }
    return best;
}

/* ---- memory ---- */

static void add_parts(struct gb_cpu_job *job, uint64_t first, uint64_t last) {
    const struct measurement *it = (const struct measurement *)job;
    const float *a = it->a, *b = it->b;
    float *restrict c = it->c;
    for (size_t i = first * PART; i < last * PART; i++) {
        c[i] = a[i] + b[i];
    }
}

/* ---- arithmetic ---- */

#if defined(__x86_64__)

static int vector_bits(void) {
    return gb_cpu_supports("x86-64-v4", NULL) ? 512 : gb_cpu_supports("x86-64-v3", NULL) ? 256 : 128;
}

#define CLOBBERED \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "cc"
#define EACH(ONE) ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9) ONE(10) ONE(11)
#define CLEAR(N) "xorps %%xmm" #N ", %%xmm" #N "\n"
#define CLEAR_WIDE(N) "vpxor %%xmm" #N ", %%xmm" #N ", %%xmm" #N "\n"
#define ADD(N) "addps %%xmm" #N ", %%xmm" #N "\n"
#define FUSED_256(N) "vfmadd231ps %%ymm" #N ", %%ymm" #N ", %%ymm" #N "\n"
#define FUSED_512(N) "vfmadd231ps %%zmm" #N ", %%zmm" #N ", %%zmm" #N "\n"

/* Operations of a round, on zeros. */
static uint64_t compute(int width, uint64_t rounds) {
    uint64_t left = rounds;
    if (width == 512) {
        __asm__ volatile(EACH(CLEAR_WIDE) "1:\n" EACH(FUSED_512) "dec %0\njnz 1b\nvzeroupper\n" : "+r"(left) : : CLOBBERED);
    } else if (width == 256) {
        __asm__ volatile(EACH(CLEAR_WIDE) "1:\n" EACH(FUSED_256) "dec %0\njnz 1b\nvzeroupper\n" : "+r"(left) : : CLOBBERED);
    } else {
        __asm__ volatile(EACH(CLEAR) "1:\n" EACH(ADD) "dec %0\njnz 1b\n" : "+r"(left) : : CLOBBERED);
    }
    return 12u * (unsigned)width / 32u * (width == 128 ? 1u : 2u);
}

#elif defined(__aarch64__)

static int vector_bits(void) {
    return 128;
}

#define EACH(ONE) ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(16) ONE(17) ONE(18) ONE(19)
#define CLEAR(N) "movi v" #N ".4s, #0\n"
#define FUSED(N) "fmla v" #N ".4s, v" #N ".4s, v" #N ".4s\n"

static uint64_t compute(int width, uint64_t rounds) {
    uint64_t left = rounds;
    __asm__ volatile(EACH(CLEAR) "1:\n" EACH(FUSED) "subs %0, %0, #1\nb.ne 1b\n"
                     : "+r"(left)
                     :
                     : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "cc");
    return 12u * (unsigned)width / 32u * 2u;
}

#else

static int vector_bits(void) {
    return 0;
}

static uint64_t compute(int width, uint64_t rounds) {
    (void)width, (void)rounds;
    return 0;
}

#endif

static void compute_tasks(struct gb_cpu_job *job, uint64_t first, uint64_t last) {
    for (uint64_t task = first; task < last; task++) {
        (void)compute(((const struct measurement *)job)->width, ROUNDS);
    }
}

struct gb_cpu_peaks gb_cpu_measure_peaks(void) {
    struct gb_cpu_peaks peaks = {.threads = gb_cpu_thread_count()};
    struct measurement it = {.width = vector_bits()};
    it.a = calloc(3, ARRAY_BYTES);
    if (it.a != NULL) {
        it.b = it.a + ARRAY_BYTES / sizeof(float);
        it.c = it.b + ARRAY_BYTES / sizeof(float);
        for (size_t i = 0; i < 2 * ARRAY_BYTES / sizeof(float); i++) {
            it.a[i] = (float)(i % 1024); /* memory that was never written is one page of zeros */
        }
        peaks.bytes_per_second = 3.0 * ARRAY_BYTES / best_pass(&it, add_parts, PARTS);
        free(it.a);
    }
    uint64_t tasks = (uint64_t)peaks.threads * TASKS_PER_THREAD;
    double flops = (double)compute(it.width, 1) * ROUNDS * (double)tasks;
    peaks.flops_per_second = flops > 0 ? flops / best_pass(&it, compute_tasks, tasks) : 0;
    return peaks;
}
