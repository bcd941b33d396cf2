/* cpu_stream.c: streams and events of the CPU device, and the threads that serve them.
 *
 * A stream with work is served by one thread at a time: a runner, or a host thread that waits for the
 * stream. There are as many runners as streams whose work can be done now, so a kernel may wait for a kernel
 * of another stream. A stream that waits for another occupies no thread.
 *
 * An event is a stream and a number of pieces of work; it is complete when the stream has done as many.
 *
 * One lock guards everything; it is never held while work is done.
 */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum stream_state {
    IDLE,    /* nothing to do */
    READY,   /* in the list of streams that wait for a runner */
    SERVED,  /* a thread does its work */
    BLOCKED, /* its first piece of work awaits another stream, which lists it in `blocked` */
};

struct gb_cpu_stream {
    enum stream_state state;
    unsigned references; /* by the program's handle, events, work that awaits it, and each waiting thread */
    struct gb_cpu_work *first;
    struct gb_cpu_work **end;
    uint64_t submitted;
    uint64_t completed;
    uint64_t wake_at; /* the least value of `completed` for which a thread sleeps on `moved` */
    pthread_cond_t moved;
    struct gb_cpu_stream *blocked; /* streams that await this one */
    struct gb_cpu_stream *next;    /* in the list of READY streams, or in another's `blocked` */
    struct gb_cpu_stream *newer;   /* in the list of busy streams: all but IDLE ones */
    struct gb_cpu_stream *older;
    pthread_t server; /* the thread that serves it while it is SERVED */
};

enum { MAX_RUNNERS = 128 }; /* as many kernels run at once on GPUs; more streams wait */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct gb_cpu_stream *first; /* READY ones */
    struct gb_cpu_stream **end;
    unsigned ready;
    unsigned runners;
    unsigned free; /* runners that are about to read the list */
    struct gb_cpu_stream *busy;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .end = &all.first};

/* ---- memory for streams, events and their work is reused: a launch allocates nothing ----
 *
 * Free blocks of three sizes are kept in lists. A list has at most MAX_KEPT blocks, so that the memory of a burst of a
 * million launches goes back to the system. The lock is held. */

enum { SIZES = 3 };

#if defined(__SANITIZE_ADDRESS__)
enum { MAX_KEPT = 0 }; /* let it see uses of freed memory */
#else
enum { MAX_KEPT = 2048 };
#endif

struct block {
    struct block *next;
};

static struct {
    size_t bytes;
    struct block *first;
    unsigned count;
} kept[SIZES] = {{.bytes = 256}, {.bytes = 1024}, {.bytes = 8192}}; /* GPUs take 4 KiB of parameters */

/* SIZES for larger blocks, which are not kept. */
static unsigned size_of(size_t bytes) {
    unsigned size = 0;
    while (size < SIZES && kept[size].bytes < bytes) {
        size++;
    }
    return size;
}

static void *take_block(size_t bytes) {
    unsigned size = size_of(bytes);
    void *block = NULL;
    if (size < SIZES && kept[size].first != NULL) {
        block = kept[size].first;
        kept[size].first = kept[size].first->next;
        kept[size].count--;
    } else if (posix_memalign(&block, GB_CPU_WORK_ALIGNMENT, size < SIZES ? kept[size].bytes : bytes) != 0) {
        gb_fatal(NULL, "out of host memory: %zu bytes for a stream, an event or a piece of work", bytes);
    }
    return memset(block, 0, bytes);
}

static void give_block(void *memory, size_t bytes) {
    unsigned size = size_of(bytes);
    if (size == SIZES || kept[size].count + 1 > MAX_KEPT) {
        free(memory);
        return;
    }
    struct block *block = memory;
    block->next = kept[size].first;
    kept[size].first = block;
    kept[size].count++;
}

/* ---- life of a stream ---- */

static void release(struct gb_cpu_stream *stream) {
    if (--stream->references == 0) {
        pthread_cond_destroy(&stream->moved);
        give_block(stream, sizeof *stream);
    }
}

static void free_work(struct gb_cpu_work *work) {
    if (work->bytes != 0) {
        give_block(work, work->bytes);
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
    stream->state = IDLE;
    *(stream->newer != NULL ? &stream->newer->older : &all.busy) = stream->older;
    if (stream->older != NULL) {
        stream->older->newer = stream->newer;
    }
    release(stream);
}

static void wake_sleepers(struct gb_cpu_stream *stream) {
    if (stream->wake_at != UINT64_MAX) {
        stream->wake_at = UINT64_MAX; /* a thread that must wait on sets it again */
        pthread_cond_broadcast(&stream->moved);
    }
}

/* ---- runners ---- */

static void *run_streams(void *unused);

static bool start_runner(void) {
    bool started = gb_cpu_start_thread(run_streams);
    if (started) {
        all.runners++;
        all.free++;
    }
    return started;
}

static void set_ready(struct gb_cpu_stream *stream) {
    stream->state = READY;
    stream->next = NULL;
    *all.end = stream;
    all.end = &stream->next;
    all.ready++;
    if (all.ready <= all.free) {
        pthread_cond_signal(&all.work);
    } else if (all.runners >= MAX_RUNNERS || !start_runner()) {
        wake_sleepers(stream); /* they do the work, or the next free runner */
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
    stream->state = BLOCKED;
    stream->next = awaited->blocked;
    awaited->blocked = stream;
    wake_sleepers(stream);
    return true;
}

/* Other threads may wait for what the work does, so that it cannot be left. */
static void run(struct gb_cpu_work *work) {
    struct gb_trap *trap = gb_try_suspend();
    work->run(work);
    gb_try_resume(trap);
}

/* Do a READY stream's work until it has done `count` pieces, has none left or must wait. */
static void serve(struct gb_cpu_stream *stream, uint64_t count) {
    leave_ready(stream);
    stream->state = SERVED;
    stream->server = pthread_self();
    while (stream->first != NULL && stream->completed < count) {
        if (must_wait(stream)) {
            return;
        }
        struct gb_cpu_work *work = stream->first;
        if (work->run != NULL) {
            gb_unlock(&all.lock);
            run(work);
            gb_lock(&all.lock);
        }
        stream->first = work->next;
        if (stream->first == NULL) {
            stream->end = &stream->first;
        }
        if (work->awaited != NULL) {
            release(work->awaited);
        }
        free_work(work);
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
    gb_lock(&all.lock);
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

/* Return when the stream has done `count` pieces of work. Work that this depends on and that no thread has started is done
 * here: waking another thread would take longer. */
static void await_count(struct gb_cpu_stream *stream, uint64_t count) {
    stream->references++;
    while (stream->completed < count) {
        struct gb_cpu_stream *next = stream;
        uint64_t wanted = count;
        while (next->state == BLOCKED) {
            wanted = next->first->count;
            next = next->first->awaited;
        }
        next->references++;
        if (next->state == READY) {
            serve(next, wanted);
        } else {
            if (wanted < next->wake_at) {
                next->wake_at = wanted;
            }
            pthread_cond_wait(&next->moved, &all.lock);
        }
        release(next);
    }
    release(stream);
}

/* ---- fork ---- */

/* A child has none of the threads: their work is not done there, as on a GPU. */
static void after_fork_in_child(void) {
    pthread_cond_init(&all.work, NULL);
    for (struct gb_cpu_stream *stream = all.busy; stream != NULL; stream = stream->older) {
        stream->state = IDLE;
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

/* Before the first call: a fork that is already in progress does not call the handler. */
__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_STREAMS, &all.lock);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

/* ---- calls ---- */

static void wake(struct gb_cpu_stream *stream) {
    if (stream->state == IDLE) {
        set_busy(stream);
        set_ready(stream);
    }
}

struct gb_cpu_event {
    struct gb_cpu_stream *stream; /* NULL: never recorded */
    uint64_t count;
};

static struct gb_cpu_stream default_stream = {
    .references = 1, .wake_at = UINT64_MAX, .end = &default_stream.first, .moved = PTHREAD_COND_INITIALIZER};

static struct gb_cpu_stream *locked(struct gb_cpu_stream *stream) {
    gb_lock(&all.lock);
    return stream != NULL ? stream : &default_stream;
}

/* The lock is held. */
static struct gb_cpu_stream *new_stream(void) {
    struct gb_cpu_stream *stream = take_block(sizeof *stream);
    stream->references = 1;
    stream->end = &stream->first;
    stream->wake_at = UINT64_MAX;
    pthread_cond_init(&stream->moved, NULL);
    return stream;
}

struct gb_cpu_stream *gb_cpu_stream_create(void) {
    gb_lock(&all.lock);
    struct gb_cpu_stream *stream = new_stream();
    gb_unlock(&all.lock);
    return stream;
}

void *gb_cpu_work_make(size_t bytes, void (*run)(struct gb_cpu_work *work)) {
    gb_lock(&all.lock);
    struct gb_cpu_work *work = take_block(bytes);
    gb_unlock(&all.lock);
    work->bytes = bytes;
    work->run = run;
    return work;
}

void gb_cpu_stream_destroy(struct gb_cpu_stream *stream) {
    if (stream != NULL) {
        release(locked(stream));
        gb_unlock(&all.lock);
    }
}

static void submit(struct gb_cpu_stream *stream, struct gb_cpu_work *work) {
    work->next = NULL;
    *stream->end = work;
    stream->end = &work->next;
    stream->submitted++;
    wake(stream);
}

static void submit_wait(struct gb_cpu_stream *stream, struct gb_cpu_stream *awaited, uint64_t count) {
    if (awaited->completed < count) {
        struct gb_cpu_work *work = take_block(sizeof *work);
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
    gb_unlock(&all.lock);
}

/* All but the work of which the caller is part: a task may end the program. */
static void wait_for_all(struct gb_cpu_stream *last) {
    for (struct gb_cpu_stream *stream = all.busy; stream != NULL; stream = stream->older) {
        bool own = stream->state == SERVED && pthread_equal(stream->server, pthread_self()) != 0;
        if (stream != last && !own) {
            submit_wait(last, stream, stream->submitted);
        }
    }
}

void gb_cpu_submit_last(struct gb_cpu_work *work) {
    gb_lock(&all.lock);
    if (all.busy == NULL) {
        gb_unlock(&all.lock);
        run(work);
        gb_lock(&all.lock);
        free_work(work);
        gb_unlock(&all.lock);
        return;
    }
    struct gb_cpu_stream *last = new_stream();
    wait_for_all(last);
    submit(last, work);
    release(last);
    gb_unlock(&all.lock);
}

bool gb_cpu_stream_is_idle(struct gb_cpu_stream *stream) {
    bool idle = locked(stream)->state == IDLE;
    gb_unlock(&all.lock);
    return idle;
}

void gb_cpu_stream_synchronize(struct gb_cpu_stream *stream) {
    stream = locked(stream);
    await_count(stream, stream->submitted);
    gb_unlock(&all.lock);
}

void gb_cpu_streams_drain(void) {
    gb_lock(&all.lock);
    struct gb_cpu_stream *last = new_stream();
    wait_for_all(last);
    await_count(last, last->submitted);
    release(last);
    gb_unlock(&all.lock);
}

struct gb_cpu_event *gb_cpu_event_create(void) {
    gb_lock(&all.lock);
    struct gb_cpu_event *event = take_block(sizeof *event);
    gb_unlock(&all.lock);
    return event;
}

static void reset_event(struct gb_cpu_event *event) {
    if (event->stream != NULL) {
        release(event->stream);
        event->stream = NULL;
    }
}

void gb_cpu_event_destroy(struct gb_cpu_event *event) {
    if (event != NULL) {
        gb_lock(&all.lock);
        reset_event(event);
        give_block(event, sizeof *event);
        gb_unlock(&all.lock);
    }
}

void gb_cpu_event_record(struct gb_cpu_event *event, struct gb_cpu_stream *stream) {
    stream = locked(stream);
    stream->references++;
    reset_event(event);
    event->stream = stream;
    event->count = stream->submitted;
    gb_unlock(&all.lock);
}

void gb_cpu_event_synchronize(struct gb_cpu_event *event) {
    gb_lock(&all.lock);
    if (event->stream != NULL) {
        await_count(event->stream, event->count);
    }
    gb_unlock(&all.lock);
}

void gb_cpu_stream_wait(struct gb_cpu_stream *stream, struct gb_cpu_event *event) {
    stream = locked(stream);
    if (event->stream != NULL && event->stream != stream) {
        submit_wait(stream, event->stream, event->count);
    }
    gb_unlock(&all.lock);
}
