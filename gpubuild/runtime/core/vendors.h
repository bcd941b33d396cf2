/* vendors.h: the vendors whose devices can run a program.
 *
 * A new vendor is a folder that defines `const struct gb_vendor_calls gb_NAME_vendor`, and a line in this list. */
#ifndef GPUBUILD_RT_VENDORS_H
#define GPUBUILD_RT_VENDORS_H

#include <stdbool.h>

/* X(ID, name, numbered), in the order in which GPUBUILD_DEVICE=auto tries them. `numbered`: its devices are called
 * name:N. A vendor without numbers has one device, which is used for every number. */
#define GB_VENDORS(X)   \
    X(CUDA, cuda, true) \
    X(HIP, hip, true)   \
    X(OPENCL, opencl, true) \
    X(CPU, cpu, false)

enum { GB_MAX_DEVICES = 64 }; /* of a vendor */

#define GB_VENDOR_ID(ID, name, numbered) GB_VENDOR_##ID,
enum gb_vendor { GB_VENDORS(GB_VENDOR_ID) GB_VENDOR_UNKNOWN };
#undef GB_VENDOR_ID

struct gb_device;
struct gb_image;

struct gb_vendor_calls {
    /* Open a device, or return NULL and put the reason into *why (free() it). The same number gives the same device
     * again. The first call loads the driver; module.c's lock is held. */
    struct gb_device *(*open)(int ordinal, char **why);

    /* Whether the image is of a format of this vendor. Sets its format, and its chip if that is unknown and the bytes
     * name it. */
    bool (*recognize)(struct gb_image *image);
};

#define GB_VENDOR_CALLS(ID, name, numbered) extern const struct gb_vendor_calls gb_##name##_vendor;
GB_VENDORS(GB_VENDOR_CALLS)
#undef GB_VENDOR_CALLS

static inline const char *gb_vendor_name(enum gb_vendor vendor) {
#define GB_VENDOR_NAME(ID, name, numbered) #name,
    static const char *const names[] = {GB_VENDORS(GB_VENDOR_NAME) "unknown"};
#undef GB_VENDOR_NAME
    return names[vendor];
}

static inline bool gb_vendor_is_numbered(enum gb_vendor vendor) {
#define GB_VENDOR_NUMBERED(ID, name, numbered) numbered,
    static const bool all[] = {GB_VENDORS(GB_VENDOR_NUMBERED) false};
#undef GB_VENDOR_NUMBERED
    return all[vendor];
}

static inline const struct gb_vendor_calls *gb_vendor_calls(enum gb_vendor vendor) {
#define GB_VENDOR_TABLE(ID, name, numbered) &gb_##name##_vendor,
    static const struct gb_vendor_calls *const all[] = {GB_VENDORS(GB_VENDOR_TABLE)};
#undef GB_VENDOR_TABLE
    return all[vendor];
}

#endif
