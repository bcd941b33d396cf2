/* vendors.h: the vendors whose devices can run a program.
 *
 * A new vendor is a folder that defines `const struct gb_vendor_facts gb_NAME_vendor`, and a line in this list. */
#ifndef GPUBUILD_RT_VENDORS_H
#define GPUBUILD_RT_VENDORS_H

#include <stdbool.h>

/* X(ID, name), in the order in which GPUBUILD_DEVICE=auto tries them. */
#define GB_VENDORS(X) \
    X(CUDA, cuda)     \
    X(HIP, hip)       \
    X(OPENCL, opencl) \
    X(CPU, cpu)

enum { GB_MAX_DEVICES = 64 }; /* of a vendor */

#define GB_VENDOR_ID(ID, name) GB_VENDOR_##ID,
enum gb_vendor { GB_VENDORS(GB_VENDOR_ID) GB_VENDOR_UNKNOWN };
#undef GB_VENDOR_ID

struct gb_device;
struct gb_image;

struct gb_vendor_facts {
    const char *name;
    /* Whether its devices are called name:N. A vendor without numbers has one device, which is used for every number. */
    bool numbered;

    /* Open a device, or return NULL and put the reason into *why (free() it). The same number gives the same device
     * again. The first call loads the driver; module.c's lock is held. */
    struct gb_device *(*open)(int ordinal, char **why);

    /* Whether the image is of a format of this vendor. Sets its format, and its chip if that is unknown and the bytes
     * name it. */
    bool (*recognize)(struct gb_image *image);

    /* How its devices do sparse operations (core/device.h); NULL: not at all. */
    const struct gb_sparse_vendor *sparse;
};

#define GB_VENDOR_FACTS(ID, name) extern const struct gb_vendor_facts gb_##name##_vendor;
GB_VENDORS(GB_VENDOR_FACTS)
#undef GB_VENDOR_FACTS

static inline const struct gb_vendor_facts *gb_vendor_facts(enum gb_vendor vendor) {
#define GB_VENDOR_TABLE(ID, name) &gb_##name##_vendor,
    static const struct gb_vendor_facts *const all[] = {GB_VENDORS(GB_VENDOR_TABLE)};
#undef GB_VENDOR_TABLE
    return all[vendor];
}

#endif
