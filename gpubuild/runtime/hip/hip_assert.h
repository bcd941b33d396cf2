/* hip_assert.h: which assertion failed on an AMD GPU, for a process that HIP ends over it. */
#ifndef GPUBUILD_RT_DEVICE_HIP_ASSERT_H
#define GPUBUILD_RT_DEVICE_HIP_ASSERT_H

#include <stdbool.h>
#include <stddef.h>

enum { GB_HIP_RECORD_BYTES = 64 };
/* The variable of modules with assertions that takes the address of a record. */
#define GB_HIP_RECORD_NAME "gpubuild_assertion_record"

/* Remember what the assertions of a code object say; false when it has none. */
bool gb_hip_keep_assertions(const void *image, size_t size);

/* Use `memory`, which host and devices see, as the record of the process. Once, before a kernel can fail. */
void gb_hip_watch(void *memory);

#endif
