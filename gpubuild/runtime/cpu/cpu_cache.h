/* cpu/cpu_cache.h: how large caches are. */
#ifndef GPUBUILD_CPU_CACHE_H
#define GPUBUILD_CPU_CACHE_H

#include <stdint.h>

/* GPUBUILD_CPU_CACHE_BYTES; when that is not set, the size of the largest cache that a CPU reaches. Thread-safe. */
int64_t gb_cpu_cache_bytes(void);

/* The size of the cache that sysfs describes in `folder`, or 0. For tests. */
int64_t gb_cpu_cache_size(const char *folder);

#endif
