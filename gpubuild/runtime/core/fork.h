/* fork.h: locks that a child of fork finds free. (GPUs' drivers do not survive a fork, the CPU device does.) */
#ifndef GPUBUILD_CPU_FORK_H
#define GPUBUILD_CPU_FORK_H

#include <pthread.h>

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

/* Have the lock taken around every fork from now on. Once for each, before threads are there: from a constructor. */
void gb_guard_fork(enum gb_fork_rank rank, pthread_mutex_t *lock);

#endif
