/* cpu/cpu_recycle.h: memory for streams, events and their work, used over and over: a launch allocates nothing. */
#ifndef GPUBUILD_CPU_RECYCLE_H
#define GPUBUILD_CPU_RECYCLE_H

#include "core/runtime.h"

#define GB_RECYCLE_ALIGNMENT 64u /* of the blocks; the largest vectors' */

/* Both with the lock of cpu/cpu_runner.h held. A block is zeroed; it is fatal when memory runs out. */
void *gb_recycle_take(size_t bytes);
/* `bytes` as taken. */
void gb_recycle_give(void *block, size_t bytes);

#endif
