/* process.h: libraries of drivers, unloading, and locks over fork. */
#ifndef GPUBUILD_RT_PROCESS_H
#define GPUBUILD_RT_PROCESS_H

#include <pthread.h>

/* The first of the NULL-closed names that can be opened, or NULL with the loader's reason (free() it). */
void *gb_library_open(const char *const *names, char **why);

/* Store the address of `symbol` at `function`, which points at a function pointer. NULL where missing. */
void gb_library_symbol(void *library, const char *symbol, void *function);

/* Keep the library that this code is part of loaded until the process ends: threads run it. Takes
 * the loader's lock. */
void gb_library_stay(void);

/* ---- locks that a child of fork finds free: a thread that the child lacks may hold them ---- */

/* In the order in which they may be taken while others are held. */
enum gb_fork_rank {
    GB_FORK_MODULES,
    GB_FORK_FINDINGS,
    GB_FORK_IMAGES,
    GB_FORK_TASKS,
    GB_FORK_STREAMS,
    GB_FORK_PROFILE,
    GB_FORK_REGISTERED,
    GB_FORK_MEMORY,
    GB_FORK_RANKS
};

/* Take the lock around every fork from now on. Called once for each lock, from a constructor: before threads start. */
void gb_guard_fork(enum gb_fork_rank rank, pthread_mutex_t *lock);

#endif
