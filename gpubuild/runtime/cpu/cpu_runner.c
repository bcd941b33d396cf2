/* cpu/cpu_runner.c: the threads that serve streams of the CPU device.
 *
 * A stream that has something to do is served by one thread at a time: a runner, or a host thread that
 * waits for the stream anyway. There are as many runners as streams with work that can be done now, so a
 * kernel may wait for another stream's. A stream that waits for another takes up no thread.
 */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu_runner.h"

#include "cpu/cpu_resources.h"
#include "core/fork.h"
#include "cpu/cpu_recycle.h"

#include <stdlib.h>

enum {
    MAX_RUNNERS = 128, /* as many kernels run at once on GPUs; more streams take turns */
    STACK_BYTES = 8 << 20
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct gb_cpu_stream *first; /* READY ones */
    struct gb_cpu_stream **end;
    unsigned ready;
    unsigned runners;
    unsigned free; /* runners that are about to look into the list */
    struct gb_cpu_stream *busy;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .end = &all.first};

/* ---- life of a stream ---- */

void gb_cpu_release(struct gb_cpu_stream *stream) {
    if (--stream->references == 0) {
        pthread_cond_destroy(&stream->moved);
        gb_recycle_give(stream, sizeof *stream);
    }
}

void gb_cpu_work_free(struct gb_cpu_work *work) {
    if (work->bytes != 0) {
        gb_recycle_give(work, work->bytes);
    } else {
        free(work);
    }
}

static void set_busy(struct gb_cpu_stream *stream) {
    stream->references++;
    stream->newer = NULL;
    stream->older = all.busy;
    if (all.busy != NULL) {
        all.busy->newer = stream;
    }
    all.busy = stream;
}

static void set_idle(struct gb_cpu_stream *stream) {
    stream->state = GB_IDLE;
    *(stream->newer != NULL ? &stream->newer->older : &all.busy) = stream->older;
    if (stream->older != NULL) {
        stream->older->newer = stream->newer;
    }
    gb_cpu_release(stream);
}

static void wake_sleepers(struct gb_cpu_stream *stream) {
    if (stream->wake_at != UINT64_MAX) {
        stream->wake_at = UINT64_MAX; /* who is not served yet says so again */
        pthread_cond_broadcast(&stream->moved);
    }
}

/* ---- runners ---- */

static void *run_streams(void *unused);

static bool start_runner(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES); /* some C libraries give much less */
    bool started = pthread_create(&thread, &attributes, run_streams, NULL) == 0;
    pthread_attr_destroy(&attributes);
    if (started) {
        all.runners++;
        all.free++;
    }
    return started;
}

static void set_ready(struct gb_cpu_stream *stream) {
    stream->state = GB_READY;
    stream->next = NULL;
    *all.end = stream;
    all.end = &stream->next;
    all.ready++;
    if (all.ready <= all.free) {
        pthread_cond_signal(&all.work);
    } else if (all.runners >= MAX_RUNNERS || !start_runner()) {
        wake_sleepers(stream); /* it is up to them, or to the runner that is free next */
    }
}

static void leave_ready(struct gb_cpu_stream *stream) {
    struct gb_cpu_stream **link = &all.first;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    if (all.end == &stream->next) {
        all.end = link;
    }
    all.ready--;
}

static void unblock(struct gb_cpu_stream *awaited) {
    struct gb_cpu_stream **link = &awaited->blocked;
    while (*link != NULL) {
        struct gb_cpu_stream *stream = *link;
        if (stream->first->count <= awaited->completed) {
            *link = stream->next;
            set_ready(stream);
        } else {
            link = &stream->next;
        }
    }
}

/* Whether the stream's first piece of work must wait; then it is BLOCKED. */
static bool must_wait(struct gb_cpu_stream *stream) {
    struct gb_cpu_stream *awaited = stream->first->awaited;
    if (awaited == NULL || awaited->completed >= stream->first->count) {
        return false;
    }
    stream->state = GB_BLOCKED;
    stream->next = awaited->blocked;
    awaited->blocked = stream;
    wake_sleepers(stream);
    return true;
}

/* Do a READY stream's work until it has done `count` pieces, has none left or must wait. */
static void serve(struct gb_cpu_stream *stream, uint64_t count) {
    leave_ready(stream);
    stream->state = GB_SERVED;
    stream->server = pthread_self();
    while (stream->first != NULL && stream->completed < count) {
        if (must_wait(stream)) {
            return;
        }
        struct gb_cpu_work *work = stream->first;
        if (work->run != NULL) {
            pthread_mutex_unlock(&all.lock);
            work->run(work);
            pthread_mutex_lock(&all.lock);
        }
        stream->first = work->next;
        if (stream->first == NULL) {
            stream->end = &stream->first;
        }
        if (work->awaited != NULL) {
            gb_cpu_release(work->awaited);
        }
        gb_cpu_work_free(work);
        stream->completed++;
        if (stream->completed >= stream->wake_at) {
            wake_sleepers(stream);
        }
        unblock(stream);
    }
    if (stream->first != NULL) {
        set_ready(stream);
    } else {
        set_idle(stream);
    }
}

static void *run_streams(void *unused) {
    (void)unused;
    gb_cpu_unbind_thread();
    pthread_mutex_lock(&all.lock);
    for (;;) {
        while (all.first == NULL) {
            pthread_cond_wait(&all.work, &all.lock);
        }
        all.free--;
        serve(all.first, UINT64_MAX);
        all.free++;
    }
    return NULL;
}

/* Return when the stream has done `count` pieces of work. Whatever that depends on and nobody has begun is
 * done here: waking another thread for it would take longer. */
void gb_cpu_await(struct gb_cpu_stream *stream, uint64_t count) {
    stream->references++;
    while (stream->completed < count) {
        struct gb_cpu_stream *next = stream;
        uint64_t wanted = count;
        while (next->state == GB_BLOCKED) {
            wanted = next->first->count;
            next = next->first->awaited;
        }
        next->references++;
        if (next->state == GB_READY) {
            serve(next, wanted);
        } else {
            if (wanted < next->wake_at) {
                next->wake_at = wanted;
            }
            pthread_cond_wait(&next->moved, &all.lock);
        }
        gb_cpu_release(next);
    }
    gb_cpu_release(stream);
}

/* ---- fork ---- */

/* A child has none of the threads: what they had to do stays undone there, as with a GPU's. */
static void after_fork_in_child(void) {
    pthread_cond_init(&all.work, NULL);
    for (struct gb_cpu_stream *stream = all.busy; stream != NULL; stream = stream->older) {
        stream->state = GB_IDLE;
        stream->first = NULL;
        stream->end = &stream->first;
        stream->completed = stream->submitted;
        stream->wake_at = UINT64_MAX;
        stream->blocked = NULL;
        pthread_cond_init(&stream->moved, NULL);
    }
    all.busy = NULL;
    all.first = NULL;
    all.end = &all.first;
    all.ready = all.runners = all.free = 0;
}

/* Not with the first call: a fork that has begun by then does not call the handler. */
__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_STREAMS, &all.lock);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* ---- calls ---- */

void gb_cpu_lock(void) {
    pthread_mutex_lock(&all.lock);
}

void gb_cpu_unlock(void) {
    pthread_mutex_unlock(&all.lock);
}

void gb_cpu_wake(struct gb_cpu_stream *stream) {
    if (stream->state == GB_IDLE) {
        set_busy(stream);
        set_ready(stream);
    }
}

struct gb_cpu_stream *gb_cpu_newest_busy(void) {
    return all.busy;
}
