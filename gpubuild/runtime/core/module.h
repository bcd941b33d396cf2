/* module.h: the modules of a program, and the device that they use. All devices of a program are of one vendor. */
#ifndef GPUBUILD_RT_MODULE_H
#define GPUBUILD_RT_MODULE_H

#include "core/device.h"

struct gb_module;
struct gb_kernel;

/* Register a module. It is loaded, and a device is opened, at the first operation that needs one. Then all modules of the
 * program are known, since they register before main. `opt_level` as in gb_device_calls.module_load. */
struct gb_module *gb_module_register(const void *data, size_t size, int opt_level, const char *call);
void gb_module_unregister(struct gb_module *module);

/* The kernel of that name. Loads the module on the calling thread's device, if necessary. */
struct gb_kernel *gb_module_kernel(struct gb_module *module, const char *name);
void gb_kernel_launch(struct gb_kernel *kernel, void *stream, const struct gb_launch *launch, const char *call);
/* For messages about a launch that is rejected before it starts. */
struct gb_where gb_kernel_where(struct gb_kernel *kernel, const char *call);

/* The calling thread's device; the first call in a process decides which kind of device it uses. */
struct gb_device *gb_device_current(void);

/* Whether the device runs an image with `sanitize:` of a registered module. */
bool gb_has_checked_image(struct gb_device *device);
/* Make the device of this number the calling thread's. */
void gb_device_select(int ordinal);

/* ---- device_choice.c ---- */

struct gb_module_images {
    const char *name; /* for messages */
    const struct gb_image *images;
    size_t count;
};
/* The image of highest rank for the device, or NULL. */
const struct gb_image *gb_best_image(struct gb_device *device, const struct gb_module_images *module);
/* "sm_90 (cubin, 4096 bytes): machine code of another major version; …", for messages; free() it.
 * `device` may be NULL: without the reasons. */
char *gb_list_images(struct gb_device *device, const struct gb_module_images *module);
/* Choose by GPUBUILD_DEVICE, the installed drivers and the images of all modules. Fatal if no device fits;
 * `where` (may be NULL) is the call that needs a device. */
struct gb_device *gb_choose_device(int ordinal, bool program_chose, const struct gb_module_images *modules, size_t count,
                            const struct gb_where *where);

/* ---- profile.c: GPUBUILD_PROFILE=FILE: times of each kernel; docs/reference/runtime.md has the format ---- */

struct gb_profile; /* one kernel on one device */

bool gb_profile_on(void);

/* The record of the kernel and device in `where`, created at the first call. Only while gb_profile_on(). */
struct gb_profile *gb_profile_of(const struct gb_where *where);
/* A launch on the CPU has run for `ns`; its arguments point into memory of `bytes`. */
void gb_profile_add(struct gb_profile *profile, uint64_t ns, uint64_t bytes);
/* Launch on a device that has timers, and time it. */
void gb_profile_launch(struct gb_device *device, void *kernel, void *stream, const struct gb_launch *launch,
                       const struct gb_where *where);

#endif
