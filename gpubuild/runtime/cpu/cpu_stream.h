/* cpu_stream.h: streams of the CPU device: queues whose work is done in order, beside the caller and each other. */
#ifndef GPUBUILD_CPU_STREAM_H
#define GPUBUILD_CPU_STREAM_H

#include "core/runtime.h"

struct gb_cpu_stream;
struct gb_cpu_event;

/* A piece of work; the first member of the structure that `run` uses. The stream frees it. */
struct gb_cpu_work {
    void (*run)(struct gb_cpu_work *work); /* NULL: nothing to do but to wait */
    struct gb_cpu_work *next;
    struct gb_cpu_stream *awaited; /* not before this stream has done `count` pieces; NULL: at once */
    uint64_t count;
    size_t bytes; /* as passed to gb_cpu_work_make(); 0: memory of gb_allocate */
};

/* All functions may be called from any thread. A NULL stream is the default stream: one for the process,
 * in no order with the others. */

/* A piece of work with `bytes` in all, the rest zeroed, aligned to GB_CPU_WORK_ALIGNMENT; from memory that is kept. */
#define GB_CPU_WORK_ALIGNMENT 64u
void *gb_cpu_work_make(size_t bytes, void (*run)(struct gb_cpu_work *work));

struct gb_cpu_stream *gb_cpu_stream_create(void);
/* Submitted work is still done. */
void gb_cpu_stream_destroy(struct gb_cpu_stream *stream);

/* Do `work` after all that was submitted to the stream before, and return at once. */
void gb_cpu_stream_submit(struct gb_cpu_stream *stream, struct gb_cpu_work *work);
/* Do `work` once all is done that was submitted so far, to whatever stream, and return at once. */
void gb_cpu_submit_last(struct gb_cpu_work *work);
/* Whether all that was submitted is done. */
bool gb_cpu_stream_is_idle(struct gb_cpu_stream *stream);
/* Return when all that was submitted so far is done; the caller may do a part of it. */
void gb_cpu_stream_synchronize(struct gb_cpu_stream *stream);
/* The same for every stream of the process. */
void gb_cpu_streams_drain(void);

/* An event is complete when the work is that its stream had when the event was recorded last, or if it never was. */
struct gb_cpu_event *gb_cpu_event_create(void);
void gb_cpu_event_destroy(struct gb_cpu_event *event);
void gb_cpu_event_record(struct gb_cpu_event *event, struct gb_cpu_stream *stream);
void gb_cpu_event_synchronize(struct gb_cpu_event *event);
/* Later work of the stream starts after the work for which the event stands now. */
void gb_cpu_stream_wait(struct gb_cpu_stream *stream, struct gb_cpu_event *event);

#endif
