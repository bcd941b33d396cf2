/* cpu_resources.h: how many threads the CPU device may keep busy, and on which CPUs. */
#ifndef GPUBUILD_CPU_COUNT_H
#define GPUBUILD_CPU_COUNT_H

#include "core/runtime.h"

/* GPUBUILD_CPU_THREADS; when that is not set, the CPUs that the process may run on, or fewer where its control group's
 * quota is less. At least 1. Told once: what changes later is not noticed. */
unsigned gb_cpu_thread_count(void);

/* Have the calling thread run on any CPU that the process may run on: it has been made by one that may be bound. */
void gb_cpu_unbind_thread(void);

/* CPUs' worth of time that control groups leave the process, rounded up; 0: no limit. `membership` is the text of
 * /proc/self/cgroup, `mount` where control groups are mounted. */
unsigned gb_cpu_quota(const char *membership, const char *mount);

#endif
