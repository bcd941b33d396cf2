/* cpu/cpu_pool.h: the threads of the CPU device, and who of them may be at work.
 *
 * Work is done on a seat, and there are as many seats as threads may be busy (cpu/cpu_resources.h), over all streams and all of
 * the program's own threads. Who finds none waits for its turn; so N threads that launch at once, on M streams, keep no
 * more CPUs busy than one that launches alone. */
#ifndef GPUBUILD_CPU_POOL_H
#define GPUBUILD_CPU_POOL_H

#include "core/runtime.h"

#include <stdatomic.h>

/* Tasks 0, 1, … that any thread may do in any order; the first member of what `run` needs. */
struct gb_cpu_job {
    void (*run)(struct gb_cpu_job *job, uint64_t first, uint64_t last);
    uint64_t tasks;
    unsigned max_threads; /* 1: only the thread that it comes from */

    /* the pool's own */
    uint64_t least_chunk;
    atomic_uint_fast64_t next;
    unsigned joined; /* pool threads at work on it */
    unsigned ever_joined;
    struct gb_cpu_job *later;
};

/* Do all of a job. The calling thread takes part, so this needs no other thread; idle ones join in. */
void gb_cpu_pool_run(struct gb_cpu_job *job);

/* A seat for other work that keeps a CPU busy, such as a long copy. */
void gb_cpu_seat_take(void);
void gb_cpu_seat_give(void);

#endif
