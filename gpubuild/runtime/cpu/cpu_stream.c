/* cpu/cpu_stream.c: what the program does with streams and events of the CPU device.
 *
 * An event is a stream and a number of pieces of work; it has happened when the stream has done as many.
 */
#include "cpu/cpu_recycle.h"
#include "cpu/cpu_runner.h"

struct gb_cpu_event {
    struct gb_cpu_stream *stream; /* NULL: never recorded */
    uint64_t count;
};

static struct gb_cpu_stream default_stream = {
    .references = 1, .wake_at = UINT64_MAX, .end = &default_stream.first, .moved = PTHREAD_COND_INITIALIZER};

static struct gb_cpu_stream *locked(struct gb_cpu_stream *stream) {
    gb_cpu_lock();
    return stream != NULL ? stream : &default_stream;
}

/* The lock is held. */
static struct gb_cpu_stream *new_stream(void) {
    struct gb_cpu_stream *stream = gb_recycle_take(sizeof *stream);
    stream->references = 1;
    stream->end = &stream->first;
    stream->wake_at = UINT64_MAX;
    pthread_cond_init(&stream->moved, NULL);
    return stream;
}

struct gb_cpu_stream *gb_cpu_stream_create(void) {
    gb_cpu_lock();
    struct gb_cpu_stream *stream = new_stream();
    gb_cpu_unlock();
    return stream;
}

void *gb_cpu_work_make(size_t bytes, void (*run)(struct gb_cpu_work *work)) {
    gb_cpu_lock();
    struct gb_cpu_work *work = gb_recycle_take(bytes);
    gb_cpu_unlock();
    work->bytes = bytes;
    work->run = run;
    return work;
}

void gb_cpu_stream_destroy(struct gb_cpu_stream *stream) {
    if (stream != NULL) {
        gb_cpu_release(locked(stream));
        gb_cpu_unlock();
    }
}

static void submit(struct gb_cpu_stream *stream, struct gb_cpu_work *work) {
    work->next = NULL;
    *stream->end = work;
    stream->end = &work->next;
    stream->submitted++;
    gb_cpu_wake(stream);
}

static void submit_wait(struct gb_cpu_stream *stream, struct gb_cpu_stream *awaited, uint64_t count) {
    if (awaited->completed < count) {
        struct gb_cpu_work *work = gb_recycle_take(sizeof *work);
        work->bytes = sizeof *work;
        work->awaited = awaited;
        work->count = count;
        awaited->references++;
        submit(stream, work);
    }
}

void gb_cpu_stream_submit(struct gb_cpu_stream *stream, struct gb_cpu_work *work) {
    work->awaited = NULL;
    submit(locked(stream), work);
    gb_cpu_unlock();
}

/* Except for what the caller is at itself: a task may end the program. */
static void wait_for_all(struct gb_cpu_stream *last) {
    for (struct gb_cpu_stream *stream = gb_cpu_newest_busy(); stream != NULL; stream = stream->older) {
        bool own = stream->state == GB_SERVED && pthread_equal(stream->server, pthread_self()) != 0;
        if (stream != last && !own) {
            submit_wait(last, stream, stream->submitted);
        }
    }
}

void gb_cpu_submit_last(struct gb_cpu_work *work) {
    gb_cpu_lock();
    if (gb_cpu_newest_busy() == NULL) {
        gb_cpu_unlock();
        work->run(work);
        gb_cpu_lock();
        gb_cpu_work_free(work);
        gb_cpu_unlock();
        return;
    }
    struct gb_cpu_stream *last = new_stream();
    wait_for_all(last);
    submit(last, work);
    gb_cpu_release(last);
    gb_cpu_unlock();
}

bool gb_cpu_stream_is_idle(struct gb_cpu_stream *stream) {
    bool idle = locked(stream)->state == GB_IDLE;
    gb_cpu_unlock();
    return idle;
}

void gb_cpu_stream_synchronize(struct gb_cpu_stream *stream) {
    stream = locked(stream);
    gb_cpu_await(stream, stream->submitted);
    gb_cpu_unlock();
}

void gb_cpu_streams_drain(void) {
    gb_cpu_lock();
    struct gb_cpu_stream *last = new_stream();
    wait_for_all(last);
    gb_cpu_await(last, last->submitted);
    gb_cpu_release(last);
    gb_cpu_unlock();
}

struct gb_cpu_event *gb_cpu_event_create(void) {
    gb_cpu_lock();
    struct gb_cpu_event *event = gb_recycle_take(sizeof *event);
    gb_cpu_unlock();
    return event;
}

static void forget(struct gb_cpu_event *event) {
    if (event->stream != NULL) {
        gb_cpu_release(event->stream);
        event->stream = NULL;
    }
}

void gb_cpu_event_destroy(struct gb_cpu_event *event) {
    if (event != NULL) {
        gb_cpu_lock();
        forget(event);
        gb_recycle_give(event, sizeof *event);
        gb_cpu_unlock();
    }
}

void gb_cpu_event_record(struct gb_cpu_event *event, struct gb_cpu_stream *stream) {
    stream = locked(stream);
    stream->references++;
    forget(event);
    event->stream = stream;
    event->count = stream->submitted;
    gb_cpu_unlock();
}

void gb_cpu_event_synchronize(struct gb_cpu_event *event) {
    gb_cpu_lock();
    if (event->stream != NULL) {
        gb_cpu_await(event->stream, event->count);
    }
    gb_cpu_unlock();
}

void gb_cpu_stream_wait(struct gb_cpu_stream *stream, struct gb_cpu_event *event) {
    stream = locked(stream);
    if (event->stream != NULL && event->stream != stream) {
        submit_wait(stream, event->stream, event->count);
    }
    gb_cpu_unlock();
}
