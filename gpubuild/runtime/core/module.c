/* module.c: registered modules, their copies on devices, and the thread's current device.
 *
 * One mutex guards everything here; it is never held while a kernel runs or memory is copied.
 * Modules register in global constructors (priority 123) and unregister in destructors, so the
 * state below must be usable before main and after it: it is all zero-initialised data.
 */
#include "core/module.h"

#include "core/clang_registration.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A module or kernel on one device. The list has an element for each device in use: usually one. */
struct copy {
    struct gb_device *device;
    void *handle;
    char *target; /* of the image, for messages; shared by a module and its kernels */
    const struct gb_image *image;
    int parameters; /* of a kernel; -1: not known */
    struct copy *next;
};

struct gb_kernel {
    struct gb_module *module;
    char *name;
    struct copy *copies;
    struct gb_kernel *next;
};

struct gb_module {
    struct gb_module_images content;
    int opt_level;
    struct copy *copies;
    struct gb_kernel *kernels;
    struct gb_device *judged; /* the device for which `is_checked` says whether its image is */
    bool is_checked;
    struct gb_module *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gb_module *modules;              /* newest first */
static struct gb_device *devices[GB_MAX_DEVICES]; /* by ordinal, all of one vendor */
static struct gb_device *decided;              /* the process's first device: fixes the vendor */

static _Thread_local struct gb_device *thread_device;
static _Thread_local int thread_ordinal = -1; /* what gb_device_select asked for; -1: never */

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_MODULES, &lock);
}

static struct copy *find_copy(struct copy *copies, const struct gb_device *device) {
    while (copies != NULL && copies->device != device) {
        copies = copies->next;
    }
    return copies;
}

static struct copy *add_copy(struct copy **copies, struct copy copy) {
    struct copy *kept = gb_allocate(sizeof *kept);
    *kept = copy;
    kept->next = *copies;
    *copies = kept;
    return kept;
}

static void free_copies(struct copy *copies) {
    while (copies != NULL) {
        struct copy *next = copies->next;
        free(copies);
        copies = next;
    }
}

struct gb_module *gb_module_register(const void *data, size_t size, int opt_level, const char *call) {
    struct gb_image *images = NULL;
    char *why = NULL;
    size_t count = gb_images_parse(data, size, &images, &why);
    if (count == 0) {
        const struct gb_where where = {.call = call};
        gb_fatal(&where, "cannot load a module: %s", why);
    }
    struct gb_module *module = gb_allocate(sizeof *module);
    const char *name = images[0].module[0] != '\0' ? images[0].module : "(unnamed)";
    count = gb_registered_fill(data, size, images, count, &why);
    if (count == 0) {
        const struct gb_where where = {.module = name, .call = call};
        gb_fatal(&where, "cannot load a module: %s", why);
    }
    module->content = (struct gb_module_images){.name = name, .images = images, .count = count};
    module->opt_level = opt_level;
    gb_trace("register module %s, %zu image%s, %zu bytes", name, count, count == 1 ? "" : "s", size);
    gb_lock(&lock);
    module->next = modules;
    modules = module;
    gb_unlock(&lock);
    return module;
}

void gb_module_unregister(struct gb_module *module) {
    if (module == NULL) {
        return;
    }
    gb_lock(&lock);
    struct gb_module **link = &modules;
    while (*link != NULL && *link != module) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        const struct gb_where where = {.call = "mgpuModuleUnload"};
        gb_fatal(&where, "this module is not loaded (unloaded twice?)");
    }
    *link = module->next;
    gb_unlock(&lock);

    gb_trace("unload module %s", module->content.name);
    for (struct copy *copy = module->copies; copy != NULL; copy = copy->next) {
        const struct gb_where where = {.module = module->content.name,
                                       .target = copy->target,
                                       .device = copy->device->name,
                                       .call = "mgpuModuleUnload"};
        copy->device->calls->module_unload(copy->device, copy->handle, &where);
        free(copy->target);
    }
    while (module->kernels != NULL) {
        struct gb_kernel *next = module->kernels->next;
        free_copies(module->kernels->copies);
        free(module->kernels->name);
        free(module->kernels);
        module->kernels = next;
    }
    free_copies(module->copies);
    free((void *)module->content.images);
    free(module);
}

/* ---- Devices; the lock is held ---- */

static struct gb_device *decide_locked(const struct gb_where *where) {
    size_t count = 0;
    for (struct gb_module *m = modules; m != NULL; m = m->next) {
        count++;
    }
    struct gb_module_images *all = gb_allocate(count * sizeof *all);
    size_t i = count;
    for (struct gb_module *m = modules; m != NULL; m = m->next) {
        all[--i] = m->content; /* in the order of registration */
    }
    bool program_chose = thread_ordinal >= 0;
    struct gb_device *device = gb_choose_device(program_chose ? thread_ordinal : 0, program_chose, all, count, where);
    free(all);
    return device;
}

static struct gb_device *open_locked(int ordinal, const struct gb_where *where) {
    if (devices[ordinal] == NULL) {
        char *why = NULL;
        devices[ordinal] = gb_vendor_calls(decided->vendor)->open(ordinal, &why);
        if (devices[ordinal] == NULL) {
            gb_fatal(where, "device %d, which the program or GPUBUILD_DEVICE asks for, cannot be used: %s", ordinal, why);
        }
    }
    return devices[ordinal];
}

/* `where` is for messages. */
static struct gb_device *current_locked(const struct gb_where *where) {
    if (decided == NULL) {
        decided = decide_locked(where);
        devices[decided->ordinal] = decided;
    }
    if (thread_device == NULL) {
        int wanted = thread_ordinal >= 0 ? thread_ordinal : gb_settings()->ordinal;
        thread_device = gb_vendor_is_numbered(decided->vendor) ? open_locked(wanted, where) : decided;
    }
    return thread_device;
}

struct gb_device *gb_device_current(void) {
    if (thread_device == NULL) {
        gb_lock(&lock);
        (void)current_locked(NULL);
        gb_unlock(&lock);
    }
    return thread_device;
}

bool gb_has_checked_image(struct gb_device *device) {
    bool found = false;
    gb_lock(&lock);
    for (struct gb_module *module = modules; module != NULL && !found; module = module->next) {
        if (module->judged != device) {
            const struct gb_image *image = gb_best_image(device, &module->content);
            module->is_checked = image != NULL && image->checked;
            module->judged = device;
        }
        found = module->is_checked;
    }
    gb_unlock(&lock);
    return found;
}

void gb_device_select(int ordinal) {
    if (ordinal < 0 || ordinal >= GB_MAX_DEVICES) {
        const struct gb_where where = {.call = "mgpuSetDefaultDevice"};
        gb_fatal(&where, "the program asks for device %d; devices are numbered from 0 to %d", ordinal,
                 GB_MAX_DEVICES - 1);
    }
    gb_lock(&lock);
    thread_ordinal = ordinal;
    thread_device = NULL;
    const struct gb_where where = {.call = "mgpuSetDefaultDevice"};
    struct gb_device *device = current_locked(&where);
    gb_unlock(&lock);
    gb_trace("device %s, chosen by the program (device %d)", device->name, ordinal);
}

/* ---- Kernels ---- */

/* "hopper (sm_90a, cubin)", or "sm_90 (cubin)" for a target without a name or named after its chip. */
static char *target_text(const struct gb_image *image) {
    const char *chip = image->chip[0] != '\0' ? image->chip : "unknown chip";
    const char *format = image->format;
    if (image->target[0] == '\0' || strcmp(image->target, chip) == 0) {
        return gb_text("%s (%s)", chip, format);
    }
    return gb_text("%s (%s, %s)", image->target, chip, format);
}

static struct copy *load_locked(struct gb_module *module, struct gb_device *device, const struct gb_where *caller) {
    struct copy *copy = find_copy(module->copies, device);
    if (copy != NULL) {
        return copy;
    }
    struct gb_where where = {.module = module->content.name,
                             .kernel = caller->kernel,
                             .target = "none",
                             .device = device->name,
                             .call = "mgpuModuleLoad"};
    const struct gb_image *image = gb_best_image(device, &module->content);
    if (image == NULL) {
        char *images = gb_list_images(device, &module->content);
        gb_fatal(&where,
                 "no image of this module runs on the device that the program uses: %s\n"
                 "  what to do: add a target for the device to targets.yaml and rebuild, or choose with GPUBUILD_DEVICE",
                 images);
    }
    gb_trace("load module %s, image %s%s%s (%s, %zu bytes) on %s", module->content.name,
             image->chip[0] != '\0' ? image->chip : "of unknown chip", image->target[0] != '\0' ? " of target " : "",
             image->target, image->format, image->size, device->name);
    char *target = target_text(image);
    where.target = target;
    void *handle = device->calls->module_load(device, image, module->opt_level, &where);
    return add_copy(&module->copies,
                    (struct copy){.device = device, .handle = handle, .target = target, .image = image});
}

static struct copy *resolve_locked(struct gb_kernel *kernel, struct gb_device *device) {
    struct copy *copy = find_copy(kernel->copies, device);
    if (copy == NULL) {
        struct gb_where where = {.module = kernel->module->content.name,
                                 .kernel = kernel->name,
                                 .device = device->name,
                                 .call = "mgpuModuleGetFunction"};
        const struct copy *module = load_locked(kernel->module, device, &where);
        where.target = module->target;
        void *handle = device->calls->kernel(device, module->handle, kernel->name, &where);
        copy = add_copy(&kernel->copies, (struct copy){.device = device,
                                                       .handle = handle,
                                                       .target = module->target,
                                                       .image = module->image,
                                                       .parameters = gb_image_parameters(module->image, kernel->name)});
    }
    return copy;
}

struct gb_where gb_kernel_where(struct gb_kernel *kernel, const char *call) {
    struct gb_where where = {.module = kernel->module->content.name, .kernel = kernel->name, .call = call};
    gb_lock(&lock);
    const struct gb_device *device = current_locked(&where);
    const struct copy *copy = find_copy(kernel->copies, device);
    gb_unlock(&lock);
    where.device = device->name;
    where.target = copy != NULL ? copy->target : NULL;
    return where;
}

struct gb_kernel *gb_module_kernel(struct gb_module *module, const char *name) {
    gb_lock(&lock);
    struct gb_kernel *kernel = module->kernels;
    while (kernel != NULL && strcmp(kernel->name, name) != 0) {
        kernel = kernel->next;
    }
    if (kernel == NULL) {
        kernel = gb_allocate(sizeof *kernel);
        kernel->module = module;
        kernel->name = gb_text("%s", name);
        kernel->next = module->kernels;
        module->kernels = kernel;
    }
    const struct gb_where where = {
        .module = module->content.name, .kernel = kernel->name, .call = "mgpuModuleGetFunction"};
    (void)resolve_locked(kernel, current_locked(&where));
    gb_unlock(&lock);
    return kernel;
}

char *gb_launch_text(const struct gb_launch *launch) {
    const struct gb_dim3 grid = launch->grid, block = launch->block, cluster = launch->cluster;
    return gb_text("grid %ux%ux%u, block %ux%ux%u, cluster %ux%ux%u, %u bytes of dynamic workgroup memory", grid.x, grid.y,
                   grid.z, block.x, block.y, block.z, cluster.x, cluster.y, cluster.z, launch->shared_bytes);
}

void gb_kernel_launch(struct gb_kernel *kernel, void *stream, const struct gb_launch *launch, const char *call) {
    struct gb_where where = {
        .module = kernel->module->content.name, .kernel = kernel->name, .location = gb_host_location(), .call = call};
    gb_lock(&lock);
    struct gb_device *device = current_locked(&where);
    const struct copy *copy = resolve_locked(kernel, device);
    gb_unlock(&lock);
    where.device = device->name;
    where.target = copy->target;
    gb_trace("launch %s::%s grid %ux%ux%u block %ux%ux%u cluster %ux%ux%u shared %u stream %p", where.module,
             kernel->name, launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x, launch->block.y,
             launch->block.z, launch->cluster.x, launch->cluster.y, launch->cluster.z, launch->shared_bytes, stream);
    if (copy->parameters >= 0 && launch->param_count != 0 && launch->param_count != (size_t)copy->parameters) {
        gb_fatal(&where, "the launch passes %zu parameters, and the kernel has %d", launch->param_count, copy->parameters);
    }
    struct gb_launch known = *launch;
    if (launch->param_count == 0 && launch->extra == NULL && copy->parameters > 0) {
        known.param_count = (size_t)copy->parameters;
    }
    const struct gb_where *before = gb_enter(&where);
    if (gb_profile_on() && device->calls->timer_create != NULL) {
        gb_profile_launch(device, copy->handle, stream, &known, &where);
    } else {
        device->calls->launch(device, copy->handle, stream, &known, &where);
    }
    gb_enter(before);
}
