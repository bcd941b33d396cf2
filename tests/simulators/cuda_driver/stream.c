/* stream.c: streams and events. Operations are done when the program waits for them. */
#define _GNU_SOURCE
#include "driver.h"

#include <stdlib.h>
#include <time.h>

static struct stream *streams; /* destroyed ones, too: their work must still be done */

static struct stream *new_stream(struct context *context, bool waits_for_default) {
    struct stream *stream = new_handle(A_STREAM, sizeof *stream, context);
    stream->waits_for_default = waits_for_default;
    stream->last = &stream->first;
    stream->next = streams;
    streams = stream;
    return stream;
}

static struct stream *default_stream[MOST_DEVICES];

static struct stream *default_of(struct context *context) {
    if (default_stream[context->device] == NULL) {
        default_stream[context->device] = new_stream(context, false);
    }
    return default_stream[context->device];
}

static bool is_default(const struct stream *stream) {
    return stream == default_stream[stream->handle.context->device];
}

struct stream *stream_of(void *given, struct context *context) {
    if (given == NULL || given == (void *)1) {
        return default_of(context);
    }
    return is_handle(given, A_STREAM, context) && !is_default(given) ? given : NULL;
}

/* ---- operations ---- */

static bool reached(struct mark mark) {
    return mark.stream == NULL || mark.stream->done >= mark.count;
}

static int do_next(struct stream *stream) {
    struct operation *operation = stream->first;
    struct context *context = operation->context;
    for (int i = 0; i < 2; i++) {
        int result = complete(operation->after[i]);
        if (result != SUCCESS) {
            return result;
        }
    }
    stream->busy = true;
    int result = context->error != SUCCESS ? context->error : operation->act(operation);
    stream->busy = false;
    stream->first = operation->next;
    if (stream->first == NULL) {
        stream->last = &stream->first;
    }
    stream->done++;
    free(operation);
    return result;
}

int complete(struct mark mark) {
    while (!reached(mark)) {
        int result = do_next(mark.stream);
        if (result != SUCCESS) {
            return result;
        }
    }
    return SUCCESS;
}

bool do_another(int *result) {
    for (struct stream *s = streams; s != NULL; s = s->next) {
        if (!s->busy && s->first != NULL && reached(s->first->after[0]) && reached(s->first->after[1])) {
            *result = do_next(s);
            return true;
        }
    }
    return false;
}

static struct mark now(struct stream *stream) {
    return (struct mark){.stream = stream, .count = stream->issued};
}

int complete_all(struct context *context) {
    for (struct stream *s = streams; s != NULL; s = s->next) {
        int result = s->handle.context == context ? complete(now(s)) : SUCCESS;
        if (result != SUCCESS) {
            return result;
        }
    }
    return SUCCESS;
}

static void append(struct stream *stream, struct operation *operation) {
    *stream->last = operation;
    stream->last = &operation->next;
    stream->issued++;
}

static int nothing(struct operation *operation) {
    (void)operation;
    return SUCCESS;
}

static void wait_for(struct stream *stream, struct mark mark) {
    if (!reached(mark)) {
        struct operation *operation = calloc(1, sizeof *operation);
        operation->act = nothing;
        operation->after[0] = mark;
        operation->context = stream->handle.context;
        append(stream, operation);
    }
}

int issue(struct stream *stream, struct operation *operation) {
    struct context *context = stream->handle.context;
    if (is_default(stream)) {
        for (struct stream *s = streams; s != NULL; s = s->next) {
            if (s->waits_for_default && s->handle.context == context) {
                wait_for(stream, now(s));
            }
        }
    } else if (stream->waits_for_default) {
        wait_for(stream, now(default_of(context)));
    }
    append(stream, operation);
    return early() ? complete(now(stream)) : SUCCESS;
}

/* ---- the API: streams ---- */

int cuStreamCreate(struct stream **result, unsigned flags) {
    CALL(context);
    if (flags > 1) {
        return INVALID_VALUE;
    }
    *result = new_stream(context, flags == 0);
    return SUCCESS;
}

int cuStreamDestroy_v2(struct stream *stream) {
    CALL(context);
    if (!is_handle(stream, A_STREAM, context) || is_default(stream)) {
        return INVALID_HANDLE;
    }
    stream->handle.kind = NOTHING; /* its work is still done */
    return SUCCESS;
}

int cuStreamSynchronize(void *given) {
    CALL(context);
    struct stream *stream = stream_of(given, context);
    return stream != NULL ? complete(now(stream)) : INVALID_HANDLE;
}

int cuStreamWaitEvent(void *given, struct event *event, unsigned flags) {
    CALL(context);
    struct stream *stream = stream_of(given, context);
    /* The event may be of another device. */
    if (stream == NULL || !is_handle(event, AN_EVENT, NULL)) {
        return INVALID_HANDLE;
    }
    if (flags != 0) {
        return INVALID_VALUE;
    }
    wait_for(stream, event->mark);
    return SUCCESS;
}

/* ---- the API: events ---- */

struct record {
    struct operation operation;
    struct event *event;
    uint64_t count;
};

static uint64_t nanoseconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int do_record(struct operation *operation) {
    struct record *record = (struct record *)operation;
    if (record->event->mark.count == record->count) { /* else it was recorded again */
        record->event->nanoseconds = nanoseconds();
    }
    return SUCCESS;
}

int cuEventCreate(struct event **result, unsigned flags) {
    CALL(context);
    if (flags > 3) { /* BLOCKING_SYNC | DISABLE_TIMING */
        return INVALID_VALUE;
    }
    *result = new_handle(AN_EVENT, sizeof **result, context);
    (*result)->timed = (flags & 2) == 0;
    return SUCCESS;
}

int cuEventDestroy_v2(struct event *event) {
    CALL(context);
    if (!is_handle(event, AN_EVENT, NULL)) {
        return INVALID_HANDLE;
    }
    event->handle.kind = NOTHING;
    return SUCCESS;
}

int cuEventRecord(struct event *event, void *given) {
    CALL(context);
    struct stream *stream = stream_of(given, context);
    if (stream == NULL || !is_handle(event, AN_EVENT, context)) {
        return INVALID_HANDLE;
    }
    struct record *record = calloc(1, sizeof *record);
    record->operation.act = do_record;
    record->operation.context = context;
    record->event = event;
    event->recorded = true;
    event->nanoseconds = 0;
    /* `issue` may add waits before it, and do it at once. */
    record->count = event->mark.count = UINT64_MAX;
    int result = issue(stream, &record->operation);
    if (result == SUCCESS) {
        event->mark = now(stream);
        if (!reached(event->mark)) {
            record->count = event->mark.count;
        }
    }
    return result;
}

int cuEventSynchronize(struct event *event) {
    CALL(context);
    return is_handle(event, AN_EVENT, NULL) ? complete(event->mark) : INVALID_HANDLE;
}

int cuEventElapsedTime(float *milliseconds, struct event *first, struct event *last) {
    CALL(context);
    struct event *events[] = {first, last};
    for (int i = 0; i < 2; i++) {
        if (!is_handle(events[i], AN_EVENT, NULL) || !events[i]->timed || !events[i]->recorded) {
            return INVALID_HANDLE;
        }
        if (!reached(events[i]->mark)) {
            return NOT_READY;
        }
    }
    *milliseconds = (float)((double)(int64_t)(last->nanoseconds - first->nanoseconds) * 1e-6);
    return SUCCESS;
}
