/* cpu/cpu_runner.h: inside the streams of the CPU device: their state, and who serves them.
 *
 * One lock guards all of it; it is never held while work is done.
 */
#ifndef GPUBUILD_CPU_RUNNER_H
#define GPUBUILD_CPU_RUNNER_H

#include "cpu/cpu_stream.h"

#include <pthread.h>

enum gb_cpu_stream_state {
    GB_IDLE,    /* nothing to do */
    GB_READY,   /* in the list of streams that wait for a runner */
    GB_SERVED,  /* some thread is at it */
    GB_BLOCKED, /* its first piece of work awaits another stream, in whose `blocked` it is */
};

struct gb_cpu_stream {
    enum gb_cpu_stream_state state;
    unsigned references; /* of the program's handle, of events, of work that awaits it, and of each waiting thread */
    struct gb_cpu_work *first;
    struct gb_cpu_work **end;
    uint64_t submitted;
    uint64_t completed;
    uint64_t wake_at; /* what the first of the threads asleep on `moved` waits for `completed` to be */
    pthread_cond_t moved;
    struct gb_cpu_stream *blocked; /* streams that await this one */
    struct gb_cpu_stream *next;    /* in the list of READY streams, or in another's `blocked` */
    struct gb_cpu_stream *newer;   /* in the list of busy streams, that is not IDLE */
    struct gb_cpu_stream *older;
    pthread_t server; /* who is at it while it is SERVED */
};

void gb_cpu_lock(void);
void gb_cpu_unlock(void);

/* The lock is held for these. */

/* Give back the memory of work that is done. */
void gb_cpu_work_free(struct gb_cpu_work *work);

/* Have a stream served that was given work. */
void gb_cpu_wake(struct gb_cpu_stream *stream);
/* Return when the stream has done `count` pieces of work. */
void gb_cpu_await(struct gb_cpu_stream *stream, uint64_t count);
/* Give up a reference. */
void gb_cpu_release(struct gb_cpu_stream *stream);
/* The streams with something to do: this one, then those that `older` leads to. */
struct gb_cpu_stream *gb_cpu_newest_busy(void);

#endif
