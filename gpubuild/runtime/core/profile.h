/* core/profile.h: GPUBUILD_PROFILE=FILE: what each kernel cost, written when the program ends. docs/runtime.md has the format. */
#ifndef GPUBUILD_RT_PROFILE_H
#define GPUBUILD_RT_PROFILE_H

#include "core/device.h"

struct gb_profile; /* one kernel on one device */

bool gb_profile_on(void);

/* The record that `where` names, made when first asked for. Only while gb_profile_on(). */
struct gb_profile *gb_profile_of(const struct gb_where *where);
/* A launch on the CPU has run for `ns`; its arguments point into memory of `bytes`. */
void gb_profile_add(struct gb_profile *profile, uint64_t ns, uint64_t bytes);
/* Launch on a device that has timers, and time it. */
void gb_profile_launch(struct gb_device *device, void *kernel, void *stream, const struct gb_launch *launch,
                       const struct gb_where *where);

/* Memory that arguments may point into: of the device, or the host's that was registered. */
void gb_profile_memory(const void *address, size_t bytes);
void gb_profile_memory_gone(const void *address);
/* Bytes of all such memory that the parameters point into, each counted once. */
uint64_t gb_profile_reached(void *const *params, const uint64_t *param_bytes, size_t count);

uint64_t gb_profile_now_ns(void);

#endif
