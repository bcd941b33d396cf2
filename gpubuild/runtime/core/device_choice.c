/* device_choice.c: the device that a program uses, and the image of a module for a device. All modules of a program use
 * one kind of device, since they share memory. */
#include "core/module.h"

#include <stdlib.h>
#include <string.h>

static void append(char **text, char *more) {
    char *joined = gb_text("%s%s", *text, more);
    free(*text);
    free(more);
    *text = joined;
}

const struct gb_image *gb_best_image(struct gb_device *device, const struct gb_module_images *module) {
    const struct gb_image *best = NULL;
    unsigned best_rank = 0;
    for (size_t i = 0; i < module->count; i++) {
        unsigned rank = device->calls->fit(device, &module->images[i]).rank;
        if (rank > best_rank) {
            best_rank = rank;
            best = &module->images[i];
        }
    }
    return best;
}

char *gb_list_images(struct gb_device *device, const struct gb_module_images *module) {
    char *text = gb_text("%s", "");
    for (size_t i = 0; i < module->count; i++) {
        const struct gb_image *image = &module->images[i];
        const char *chip = image->chip[0] != '\0' ? image->chip : "unknown chip";
        const char *why = device != NULL ? device->calls->fit(device, image).why : NULL;
        bool named = image->target[0] != '\0' && strcmp(image->target, chip) != 0;
        append(&text, gb_text("%s%s%s%s (%s, %zu bytes)%s%s", i > 0 ? "; " : "", chip, named ? " of target " : "",
                              named ? image->target : "", image->format, image->size,
                              why != NULL ? ": " : "", why != NULL ? why : ""));
    }
    return text;
}

/* Whether a module has an image for the vendor: if not, its driver is not opened. */
static bool any_of_vendor(const struct gb_module_images *module, enum gb_vendor vendor) {
    for (size_t i = 0; i < module->count; i++) {
        if (module->images[i].vendor == vendor) {
            return true;
        }
    }
    return false;
}

/* A device of the vendor on which every module runs, or NULL and the reason. */
static struct gb_device *try_vendor(enum gb_vendor vendor, int ordinal, bool look_first,
                                    const struct gb_module_images *modules, size_t count, char **why) {
    for (size_t i = 0; look_first && i < count; i++) {
        if (!any_of_vendor(&modules[i], vendor)) {
            *why = gb_text("module %s has no image for it", modules[i].name);
            return NULL;
        }
    }
    /* A program that asks for GPU 1 runs on the CPU if there are no GPUs. */
    struct gb_device *device = gb_vendor_calls(vendor)->open(gb_vendor_is_numbered(vendor) ? ordinal : 0, why);
    for (size_t i = 0; device != NULL && i < count; i++) {
        if (gb_best_image(device, &modules[i]) == NULL) {
            char *images = gb_list_images(device, &modules[i]);
            *why = gb_text("no image of module %s runs on %s: %s", modules[i].name, device->name, images);
            free(images);
            return NULL; /* the device stays open: its vendor returns the same one again */
        }
    }
    return device;
}

static char *list_all(const struct gb_module_images *modules, size_t count) {
    char *text = gb_text("%s", "");
    for (size_t i = 0; i < count; i++) {
        char *images = gb_list_images(NULL, &modules[i]);
        append(&text, gb_text("\n  images of module %s: %s", modules[i].name, images));
        free(images);
    }
    return text;
}

struct gb_device *gb_choose_device(int ordinal, bool program_chose, const struct gb_module_images *modules, size_t count,
                            const struct gb_where *where) {
    const struct gb_settings *settings = gb_settings();
    if (settings->vendor != GB_VENDOR_UNKNOWN) {
        enum gb_vendor vendor = settings->vendor;
        char *why = NULL;
        int wanted = program_chose ? ordinal : settings->ordinal;
        struct gb_device *device = try_vendor(vendor, wanted, false, modules, count, &why);
        if (device == NULL) {
            gb_fatal(where,
                     "this program cannot run on the device that GPUBUILD_DEVICE asks for (%s): %s%s\n"
                     "  what to do: install the device's driver, add a target for the device to targets.yaml and rebuild, "
                     "or unset GPUBUILD_DEVICE",
                     gb_vendor_name(vendor), why, list_all(modules, count));
        }
        gb_trace("device %s, as GPUBUILD_DEVICE says", device->name);
        return device;
    }
    char *reasons = gb_text("%s", "");
    for (enum gb_vendor vendor = 0; vendor != GB_VENDOR_UNKNOWN; vendor++) {
        char *why = NULL;
        struct gb_device *device = try_vendor(vendor, ordinal, true, modules, count, &why);
        if (device != NULL) {
            gb_trace("device %s", device->name);
            free(reasons);
            return device;
        }
        gb_trace("not %s: %s", gb_vendor_name(vendor), why);
        append(&reasons, gb_text("\n  not %s: %s", gb_vendor_name(vendor), why));
        free(why);
    }
    gb_fatal(where,
             "no device here can run this program%s%s\n"
             "  what to do: add a target for this machine (a GPU's chip, or cpu) to targets.yaml and rebuild;\n"
             "  a build with -t has the named targets only",
             reasons, list_all(modules, count));
}
