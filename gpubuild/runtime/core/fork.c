/* fork.c: locks that a child of fork finds free: another thread, which the child has not, may hold them. */
#define _POSIX_C_SOURCE 200809L
#include "core/fork.h"

#include <stdbool.h>
#include <stddef.h>

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
