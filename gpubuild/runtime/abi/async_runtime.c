/* async_runtime.c: the functions that MLIR's async dialect is lowered to (mlir/ExecutionEngine/AsyncRuntime.h).
 *
 * A task is a coroutine. Each resumption is the work of a new stream (cpu/cpu_device.h), so a task that blocks does not
 * stop others.
 *
 * Tokens, values and groups are one kind of object. One lock guards them all; tasks run without it.
 */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* A task that continues when an object is ready, or a group that counts the object. */
struct awaiter {
    struct gb_cpu_work work;
    struct awaiter *next;
    struct object *group;
    void *handle;
    void (*resume)(void *handle);
};

struct object {
    int64_t references;
    int64_t pending; /* 1 until a token or value is set; members of a group that are not ready yet */
    int64_t rank;    /* members added to a group so far */
    int64_t errors;
    struct awaiter *awaiters;
    pthread_cond_t ready;
    _Alignas(64) char storage[]; /* of a value */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_TASKS, &lock);
}

typedef void resume_function(void *handle);

/* ---- tasks ---- */

static void run_task(struct gb_cpu_work *work) {
    struct awaiter *task = (struct awaiter *)work;
    task->resume(task->handle);
}

static void start(struct awaiter *task) {
    struct gb_cpu_stream *stream = gb_cpu_stream_create();
    gb_cpu_stream_submit(stream, &task->work);
    gb_cpu_stream_destroy(stream);
}

/* Not under `lock`, as it may take the loader's. */
static struct awaiter *new_task(void *handle, resume_function *resume) {
    gb_library_stay();
    struct awaiter *task = gb_allocate(sizeof *task);
    *task = (struct awaiter){.work = {.run = run_task}, .handle = handle, .resume = resume};
    return task;
}

/* A program may end while tasks run, which may use objects that its destructors destroy. */
__attribute__((destructor)) static void finish_tasks(void) {
    gb_cpu_streams_drain();
}

/* ---- objects; the lock is held ---- */

static void drop(struct object *object, int64_t count) {
    object->references -= count;
    if (object->references < 0) {
        gb_fatal(NULL, "an async token, value or group is released more often than acquired");
    }
    if (object->references == 0) {
        pthread_cond_destroy(&object->ready);
        free(object);
    }
}

static void count_down(struct object *object, bool error) {
    if (object->pending == 0) {
        gb_fatal(NULL, "an async token or value is set twice, or a group gets more tokens than it was made for");
    }
    object->errors += error;
    if (--object->pending > 0) {
        return;
    }
    pthread_cond_broadcast(&object->ready);
    while (object->awaiters != NULL) {
        struct awaiter *awaiter = object->awaiters;
        object->awaiters = awaiter->next;
        if (awaiter->group == NULL) {
            start(awaiter);
        } else {
            count_down(awaiter->group, object->errors > 0);
            drop(awaiter->group, 1);
            free(awaiter);
        }
    }
}

static void add_awaiter(struct object *object, struct awaiter *awaiter) {
    awaiter->next = object->awaiters;
    object->awaiters = awaiter;
}

/* ---- calls ---- */

static struct object *new_object(int64_t references, int64_t pending, size_t bytes) {
    void *memory = NULL;
    if (posix_memalign(&memory, _Alignof(struct object), sizeof(struct object) + bytes) != 0) {
        gb_fatal(NULL, "out of host memory: %zu bytes for an async value", bytes);
    }
    struct object *object = memory;
    *object = (struct object){.references = references, .pending = pending};
    pthread_cond_init(&object->ready, NULL);
    return object;
}

/* Tokens and values have two owners: the code that waits for them, and the task that sets them. */
void *mlirAsyncRuntimeCreateToken(void) {
    return new_object(2, 1, 0);
}

void *mlirAsyncRuntimeCreateValue(int64_t bytes) {
    return new_object(2, 1, (size_t)bytes);
}

void *mlirAsyncRuntimeCreateGroup(int64_t members) {
    return new_object(1, members, 0);
}

void mlirAsyncRuntimeAddRef(void *object, int64_t count) {
    gb_lock(&lock);
    ((struct object *)object)->references += count;
    gb_unlock(&lock);
}

void mlirAsyncRuntimeDropRef(void *object, int64_t count) {
    gb_lock(&lock);
    drop(object, count);
    gb_unlock(&lock);
}

/* Returns the index of the token in the group. */
int64_t mlirAsyncRuntimeAddTokenToGroup(void *token, void *group) {
    struct object *member = token;
    struct object *whole = group;
    gb_lock(&lock);
    int64_t rank = whole->rank++;
    if (member->pending == 0) {
        count_down(whole, member->errors > 0);
    } else {
        struct awaiter *awaiter = gb_allocate(sizeof *awaiter);
        awaiter->group = whole;
        whole->references++;
        add_awaiter(member, awaiter);
    }
    gb_unlock(&lock);
    return rank;
}

static void set(struct object *object, bool error) {
    gb_lock(&lock);
    count_down(object, error);
    drop(object, 1);
    gb_unlock(&lock);
}

void mlirAsyncRuntimeEmplaceToken(void *token) {
    set(token, false);
}

void mlirAsyncRuntimeEmplaceValue(void *value) {
    set(value, false);
}

void mlirAsyncRuntimeSetTokenError(void *token) {
    set(token, true);
}

void mlirAsyncRuntimeSetValueError(void *value) {
    set(value, true);
}

static bool has_error(const struct object *object) {
    gb_lock(&lock);
    bool error = object->errors > 0;
    gb_unlock(&lock);
    return error;
}

static void await(struct object *object) {
    gb_lock(&lock);
    while (object->pending > 0) {
        pthread_cond_wait(&object->ready, &lock);
    }
    gb_unlock(&lock);
}

void *mlirAsyncRuntimeGetValueStorage(void *value) {
    return ((struct object *)value)->storage;
}

void mlirAsyncRuntimeExecute(void *handle, resume_function *resume) {
    start(new_task(handle, resume));
}

/* The task continues in another thread even if the object is ready: a loop over ready objects must not nest calls. */
static void await_and_execute(struct object *object, void *handle, resume_function *resume) {
    struct awaiter *task = new_task(handle, resume);
    gb_lock(&lock);
    bool ready = object->pending == 0;
    if (!ready) {
        add_awaiter(object, task);
    }
    gb_unlock(&lock);
    if (ready) {
        start(task);
    }
}

#define AWAIT_CALLS(Kind, Awaited)                                                                                     \
    bool mlirAsyncRuntimeIs##Kind##Error(void *object) {                                                               \
        return has_error(object);                                                                                      \
    }                                                                                                                  \
    void mlirAsyncRuntimeAwait##Awaited(void *object) {                                                                \
        await(object);                                                                                                 \
    }                                                                                                                  \
    void mlirAsyncRuntimeAwait##Awaited##AndExecute(void *object, void *handle, resume_function *resume) {             \
        await_and_execute(object, handle, resume);                                                                     \
    }

AWAIT_CALLS(Token, Token)
AWAIT_CALLS(Value, Value)
AWAIT_CALLS(Group, AllInGroup)

/* MLIR's spelling. */
int64_t mlirAsyncRuntimGetNumWorkerThreads(void) {
    return gb_cpu_thread_count();
}

void mlirAsyncRuntimePrintCurrentThreadId(void) {
    static _Thread_local char mark; /* its address identifies the thread */
    printf("Current thread id: %p\n", (void *)&mark);
}
