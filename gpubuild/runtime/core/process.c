/* process.c: loaded libraries, the clock, and forks. A library stays open until the process ends. */
#define _GNU_SOURCE /* dladdr1 */
#include "core/runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void *gb_library_open(const char *const *names, char **why) {
    char *reason = NULL;
    for (; *names != NULL; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            gb_trace("opened %s", *names);
            free(reason);
            return library;
        }
        if (reason == NULL) { /* the first name is the best known */
            const char *error = dlerror();
            reason = gb_text("%s", error != NULL ? error : *names);
        }
    }
    *why = reason;
    return NULL;
}

void gb_library_symbol(void *library, const char *symbol, void *function) {
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address); /* ISO C has no cast from an object to a function pointer */
}

const char *gb_library_path(void) {
#if defined(__GLIBC__) /* other C libraries unload nothing, and have other names for the program */
    static char here;
    Dl_info info;
    struct link_map *self = NULL;
    if (dladdr1(&here, &info, (void **)&self, RTLD_DL_LINKMAP) != 0 && self != NULL && self->l_name[0] != '\0') {
        return self->l_name;
    }
#endif
    return NULL;
}

/* The alternative is a destructor that joins the threads. It would wait under the loader's lock for threads that may need
 * that lock, and it could not join the thread of a task that calls exit. Threads of the host, which cannot be joined here,
 * run a destructor of the runtime (cpu/cpu_launch.c) when they end. */
static void stay_loaded(void) {
    const char *path = gb_library_path();
    if (path != NULL && dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == NULL) {
        gb_trace("%s may be unloaded: %s", path, dlerror());
    }
}

void gb_library_stay(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, stay_loaded);
}

uint64_t gb_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- fork ---- */

static pthread_mutex_t *guarded[GB_FORK_RANKS];

static void before_fork(void) {
    for (int i = 0; i < GB_FORK_RANKS; i++) {
        if (guarded[i] != NULL) {
            pthread_mutex_lock(guarded[i]);
        }
    }
}

static void after_fork(void) {
    for (int i = GB_FORK_RANKS - 1; i >= 0; i--) {
        if (guarded[i] != NULL) {
            pthread_mutex_unlock(guarded[i]);
        }
    }
}

void gb_guard_fork(enum gb_fork_rank rank, pthread_mutex_t *lock) {
    static bool registered;
    guarded[rank] = lock;
    if (!registered) {
        registered = true;
        pthread_atfork(before_fork, after_fork, after_fork);
    }
}
