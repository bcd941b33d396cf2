/* Streams and events used from several threads at once, for test_streams.py: the runtime's own code without
 * images. Prints "ok", or how often something was out of order. */
#define _GNU_SOURCE
#include "cpu/cpu_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct step {
    struct gb_cpu_work work;
    long *cell;
    long from, to;
};

static atomic_int wrong;

static void take_step(struct gb_cpu_work *work) {
    struct step *step = (struct step *)work;
    if (*step->cell != step->from) {
        atomic_fetch_add(&wrong, 1);
    }
    *step->cell = step->to;
}

static void submit(struct gb_cpu_stream *stream, long *cell, long from, long to) {
    struct step *step = gb_allocate(sizeof *step);
    *step = (struct step){.work = {.run = take_step}, .cell = cell, .from = from, .to = to};
    gb_cpu_stream_submit(stream, &step->work);
}

/* A value that is handed from stream to stream by events; plain memory, so a race shows in a sanitizer. */
static void *relay(void *rounds) {
    enum { STREAMS = 4 };
    struct gb_cpu_stream *streams[STREAMS];
    struct gb_cpu_event *event = gb_cpu_event_create();
    long cell = 0;
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = gb_cpu_stream_create();
    }
    for (long i = 0; i < (long)rounds; i++) {
        struct gb_cpu_stream *stream = streams[i % STREAMS];
        gb_cpu_stream_wait(stream, event);
        submit(stream, &cell, i, i + 1);
        gb_cpu_event_record(event, stream);
        if (i % 17 == 0) {
            gb_cpu_event_synchronize(event);
            if (cell != i + 1) {
                atomic_fetch_add(&wrong, 1);
            }
        }
        if (i % 29 == 0) { /* work of a destroyed stream is done, and its events stay good */
            gb_cpu_stream_destroy(stream);
            streams[i % STREAMS] = gb_cpu_stream_create();
        }
    }
    gb_cpu_event_synchronize(event);
    if (cell != (long)rounds) {
        atomic_fetch_add(&wrong, 1);
    }
    for (int i = 0; i < STREAMS; i++) {
        gb_cpu_stream_destroy(streams[i]);
    }
    gb_cpu_event_destroy(event);
    return NULL;
}

struct meeting {
    struct gb_cpu_work work;
    atomic_int *arrived;
    int expected;
};

static void meet(struct gb_cpu_work *work) {
    struct meeting *meeting = (struct meeting *)work;
    atomic_fetch_add(meeting->arrived, 1);
    while (atomic_load(meeting->arrived) < meeting->expected) {
    }
}

/* Work of several streams that ends only when all of it has begun. */
static void meet_in_streams(int count) {
    atomic_int arrived = 0;
    struct gb_cpu_stream *streams[8];
    for (int i = 0; i < count; i++) {
        streams[i] = gb_cpu_stream_create();
        struct meeting *meeting = gb_allocate(sizeof *meeting);
        *meeting = (struct meeting){.work = {.run = meet}, .arrived = &arrived, .expected = count};
        gb_cpu_stream_submit(streams[i], &meeting->work);
    }
    for (int i = 0; i < count; i++) {
        gb_cpu_stream_synchronize(streams[i]);
        gb_cpu_stream_destroy(streams[i]);
    }
}

static void *use_default_stream(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        long cell = 0;
        submit(NULL, &cell, 0, 1);
        submit(NULL, &cell, 1, 2);
        gb_cpu_stream_synchronize(NULL);
        if (cell != 2) {
            atomic_fetch_add(&wrong, 1);
        }
    }
    return NULL;
}

#ifdef NO_RUNNERS
/* Stands in for pthread_create in cpu_stream.c: a process that may not have more threads. */
int no_thread(void) {
    return 11; /* EAGAIN */
}
#endif

int main(void) {
    int threads = 8;
    long rounds = 1000;
    pthread_t started[64];
    for (int i = 0; i < threads; i++) {
        pthread_create(&started[i], NULL, i % 4 == 3 ? use_default_stream : relay, (void *)rounds);
    }
#ifdef NO_RUNNERS
    (void)meet_in_streams; /* needs threads */
#else
    for (int i = 0; i < 20; i++) {
        meet_in_streams(2 + i % 3);
    }
#endif
    for (int i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
    }
    long pending = 0;
    struct gb_cpu_stream *stream = gb_cpu_stream_create();
    for (long i = 0; i < 100; i++) {
        submit(stream, &pending, i, i + 1);
    }
    gb_cpu_stream_destroy(stream);
    gb_cpu_streams_drain();
    if (pending != 100) {
        atomic_fetch_add(&wrong, 1);
    }
    printf(wrong == 0 ? "ok\n" : "%d wrong\n", wrong);
    return wrong != 0;
}
