/* cpu/cpu_memory.h: what the program has allocated on the CPU device, so that mistakes with it can be named. */
#ifndef GPUBUILD_CPU_MEMORY_H
#define GPUBUILD_CPU_MEMORY_H

#include "core/runtime.h"

/* `bytes` at `address` were allocated. */
void gb_cpu_memory_add(void *address, size_t bytes);

/* The memory at `address` is freed. Fatal if no allocation that is not freed yet begins there. */
void gb_cpu_memory_remove(void *address, const struct gb_where *where);

/* Fatal if `bytes` at `address` begin in memory of the program's and do not end in it. Memory that was not allocated
 * here may be the host's, of which nothing is known. `doing` is what is done, such as "copies to". */
void gb_cpu_memory_check(const void *address, size_t bytes, const char *doing, const struct gb_where *where);

#endif
