/* Launches as hard as programs make them: launches WHAT IMAGE, for test_launches.py. Exit code 0 when all is right. */
#define _GNU_SOURCE
#include "launch_calls.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void *module, *count, *add, *wait_, *hold;

static _Noreturn void fail(const char *what, long found, long expected) {
    fprintf(stderr, "%s: %ld, not %ld\n", what, found, expected);
    _exit(1);
}

static void expect(const char *what, long found, long expected) {
    if (found != expected) {
        fail(what, found, expected);
    }
}

static void at_most(const char *what, long found, long limit) {
    if (found > limit) {
        fail(what, found, limit);
    }
}

/* ---- allocations ---- */

static atomic_long allocations;

#ifdef COUNT_ALLOCATIONS /* in place of the C library's, for all of the program and for the library itself */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    allocations++;
    return __libc_malloc(bytes);
}
void *calloc(size_t number, size_t bytes) {
    allocations++;
    return __libc_calloc(number, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    allocations++;
    return __libc_memalign(alignment, bytes);
}
int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = aligned_alloc(alignment, bytes);
    return *block == NULL ? ENOMEM : 0;
}
#endif

/* What host code does that MLIR makes, and what asynchronous programs do. */
static void rounds(int number, int64_t *x) {
    void *a = mgpuStreamCreate(), *b = mgpuStreamCreate(), *event = mgpuEventCreate();
    for (int i = 0; i < number; i++) {
        void *stream = mgpuStreamCreate();
        launch(add, stream, 100, 32, 1, x);
        mgpuStreamSynchronize(stream);
        mgpuStreamDestroy(stream);
        for (int k = 0; k < 10; k++) {
            launch(add, a, 100, 32, 1, x);
        }
        void *passing = mgpuEventCreate();
        mgpuEventRecord(passing, a);
        mgpuStreamWaitEvent(b, passing);
        mgpuEventDestroy(passing);
        launch(wait_, b, 4, 32, 1, x);
        mgpuEventRecord(event, b);
        mgpuStreamWaitEvent(a, event);
        launch(add, a, 1, 1, 1, x);
        mgpuStreamSynchronize(a);
    }
    mgpuEventDestroy(event);
    mgpuStreamDestroy(a);
    mgpuStreamDestroy(b);
}

/* A thread that takes part for the first time gets its own memory. So not every count is 0, but one soon is. */
static void allocate_nothing(void) {
    static int64_t x[4096];
    long number = 0;
    do {
        allocations = 0;
        rounds(100, x);
        number += 100;
    } while (allocations != 0 && number < 3000);
    expect("allocations", allocations, 0);
    for (int i = 0; i < 100; i++) {
        expect("sum", x[i], number * (i == 0 ? 13 : i < 4 ? 12 : 11));
    }
#ifdef COUNT_ALLOCATIONS
    void *volatile block = malloc(1);
    free(block);
    expect("the count counts", allocations, 1);
#endif
}

/* ---- memory and grids ---- */

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* A byte for each of a large grid's workgroups would be 16 MiB; what threads that join late need is less. */
static void use_no_memory_for_grids(void) {
    static int64_t x[4096];
    launch(add, NULL, 1 << 12, 32, 1, x);
    launch(wait_, NULL, 1 << 8, 64, 1, x);
    mgpuStreamSynchronize(NULL);
    long before = peak_kib();
    launch(add, NULL, 1 << 24, 32, 1, x);
    launch(wait_, NULL, 1 << 13, 64, 1, x);
    mgpuStreamSynchronize(NULL);
    at_most("KiB for larger grids", peak_kib() - before, 4096);
}

/* ---- threads ---- */

enum { HOSTS = 6, STREAMS = 3, LAUNCHES = 20, GROUPS = 40 };

static int64_t counts[3];

static void launch_count(void *stream) {
    int64_t *pointer = counts;
    void *params[] = {&pointer};
    mgpuLaunchKernel(count, GROUPS, 1, 1, 1, 1, 1, 0, stream, params, NULL, 1);
}

static void *host(void *unused) {
    void *streams[STREAMS];
    int64_t x[STREAMS][8] = {{0}};
    static char from[STREAMS][40000], to[STREAMS][40000];
    for (int s = 0; s < STREAMS; s++) {
        streams[s] = mgpuStreamCreate();
    }
    for (int i = 0; i < LAUNCHES; i++) {
        for (int s = 0; s < STREAMS; s++) {
            launch_count(streams[s]);
            launch(add, streams[s], 8, 1, s, x[s]);
            if (unused != NULL) { /* one of them only: it copies to places of its own */
                mgpuMemcpy(to[s], from[s], sizeof to[s], streams[s]);
            }
        }
        if (i % 5 == 0) {
            mgpuStreamSynchronize(streams[i % STREAMS]);
        }
    }
    for (int s = 0; s < STREAMS; s++) {
        mgpuStreamSynchronize(streams[s]);
        mgpuStreamDestroy(streams[s]);
        for (int i = 0; i < 8; i++) {
            expect("x", x[s][i], (long)s * LAUNCHES);
        }
    }
    return NULL;
}

static int threads(void) {
    int number = -2;
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks) != NULL) {
        number++;
    }
    closedir(tasks);
    return number;
}

static void many_streams(void) {
    long limit = atol(getenv("GPUBUILD_CPU_THREADS"));
    pthread_t hosts[HOSTS];
    for (int i = 0; i < HOSTS; i++) {
        pthread_create(&hosts[i], NULL, host, i == 0 ? hosts : NULL);
    }
    for (int i = 0; i < HOSTS; i++) {
        pthread_join(hosts[i], NULL);
    }
    expect("workgroups", counts[2], HOSTS * STREAMS * LAUNCHES * GROUPS);
    at_most("threads in kernels", counts[1], limit);
    at_most("threads", threads(), 1 + limit - 1 + HOSTS * STREAMS + 1); /* TSan has one */
}

/* A thread that is held up keeps few workgroups from the others, and none that were its share from the start. */
static void uneven_work(void) {
    long limit = atol(getenv("GPUBUILD_CPU_THREADS"));
    int64_t done[2], *pointer = done;
    void *params[] = {&pointer};
    alarm(30); /* rather than to hang */
    for (int grid = 2; grid <= 2000; grid *= 10) {
        done[0] = 0;
        mgpuLaunchKernel(mgpuModuleGetFunction(module, "last"), grid, 1, 1, 1, 1, 1, 0, NULL, params, NULL, 1);
        mgpuStreamSynchronize(NULL);
        expect("workgroups", done[0], grid);
        at_most("workgroups that are taken together", done[1], grid / limit / 4 + 1);
    }
}

/* ---- fork ---- */

static atomic_bool stop;

static void *keep_launching(void *unused) {
    (void)unused;
    int64_t x[64] = {0};
    long number = 0;
    for (; !stop; number++) {
        void *stream = mgpuStreamCreate();
        launch(add, stream, 64, 1, 1, x);
        mgpuStreamSynchronize(stream);
        mgpuStreamDestroy(stream);
    }
    expect("the parent's x", x[63], number);
    return NULL;
}

static void in_child(const char *path) {
#ifdef __SANITIZE_THREAD__
    _exit(path == NULL); /* its run time does not support threads in such a child; the parent is what it watches */
#endif
    alarm(10); /* rather than to hang */
    static int64_t x[64];
    void *stream = mgpuStreamCreate();
    launch(add, stream, 64, 1, 5, x);
    launch(wait_, stream, 64, 8, 5, x);
    mgpuStreamSynchronize(stream);
    launch(mgpuModuleGetFunction(load(path), "add"), NULL, 64, 1, 5, x);
    mgpuStreamSynchronize(NULL);
    for (int i = 0; i < 64; i++) {
        expect("the child's x", x[i], 15);
    }
    _exit(0);
}

static void fork_while_others_launch(const char *path) {
    enum { THREADS = 3 };
    pthread_t others[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&others[i], NULL, keep_launching, NULL);
    }
    for (int i = 0; i < 30; i++) {
        pid_t child = fork();
        if (child == 0) {
            in_child(path);
        }
        int status = 0;
        expect("waitpid", waitpid(child, &status, 0), child);
        expect("status of a child", status, 0);
    }
    stop = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(others[i], NULL);
    }
}

/* A handler of fork that runs before the library's: the very first launch is under way when the child comes to be. */
static int64_t held[2];

static void *launch_hold(void *unused) {
    int64_t *pointer = held;
    void *params[] = {&pointer};
    mgpuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL, 1);
    mgpuStreamSynchronize(NULL);
    return unused;
}

static pthread_t first;

static void start_first_launch(void) {
    pthread_create(&first, NULL, launch_hold, NULL);
    for (int i = 0; i < 1000 && __atomic_load_n(&held[0], __ATOMIC_SEQ_CST) == 0; i++) {
        usleep(1000); /* no longer than a second: a C library may hold up the thread until after the fork */
    }
}

static _Noreturn void fork_at_the_first_launch(const char *path) {
    pthread_atfork(start_first_launch, NULL, NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(10); /* rather than to hang */
        held[1] = 1;
        launch_hold(NULL);
        in_child(path);
    }
    int status = 0;
    expect("waitpid", waitpid(child, &status, 0), child);
    expect("status of the child", status, 0);
    __atomic_store_n(&held[1], 1, __ATOMIC_SEQ_CST);
    pthread_join(first, NULL);
    _exit(0); /* a program with checked kernels says at its end what was found */
}

/* ---- ends ---- */

static void end_program(void *stream) {
    launch_count(stream);
    exit(7);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        return 98;
    }
    module = load(argv[2]);
    count = mgpuModuleGetFunction(module, "count");
    add = mgpuModuleGetFunction(module, "add");
    wait_ = mgpuModuleGetFunction(module, "wait");
    const char *what = argv[1];
    if (strcmp(what, "allocations") == 0) {
        allocate_nothing();
    } else if (strcmp(what, "grids") == 0) {
        use_no_memory_for_grids();
    } else if (strcmp(what, "streams") == 0) {
        many_streams();
    } else if (strcmp(what, "uneven") == 0) {
        uneven_work();
    } else if (strcmp(what, "fork") == 0) {
        fork_while_others_launch(argv[2]);
    } else if (strcmp(what, "first-fork") == 0 || strcmp(what, "checked-fork") == 0) {
        hold = mgpuModuleGetFunction(module, strcmp(what, "first-fork") == 0 ? "hold" : "hold checked");
        fork_at_the_first_launch(argv[2]);
    } else if (strcmp(what, "exit") == 0) { /* with streams that have much to do, from a task of one of them */
        void *stream = mgpuStreamCreate();
        for (int i = 0; i < 1000; i++) {
            launch_count(stream);
        }
        mlirAsyncRuntimeExecute(mgpuStreamCreate(), end_program);
        for (;;) {
            pause();
        }
    } else {
        return 97;
    }
    return 0;
}
