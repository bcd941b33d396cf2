/* made_up_device.c: a vendor with memory and nothing else, for test_made_up_vendor.py. */
#include "core/device.h"

#include <stdlib.h>

static struct gb_fit fit(struct gb_device *device, const struct gb_image *image) {
    (void)device;
    return image->vendor == GB_VENDOR_MADE_UP ? gb_fit(1) : gb_unfit("not a made-up image");
}

static void *allocate(struct gb_device *device, size_t bytes, void *stream, bool shared, const struct gb_where *where) {
    (void)device, (void)stream, (void)shared, (void)where;
    return malloc(bytes);
}

static void release(struct gb_device *device, void *address, void *stream, const struct gb_where *where) {
    (void)device, (void)stream, (void)where;
    free(address);
}

static const struct gb_device_calls calls = {.fit = fit, .memory_allocate = allocate, .memory_free = release};

static struct gb_device *open_device(int ordinal, char **why) {
    static struct gb_device devices[2];
    if (ordinal >= 2) {
        *why = gb_text("there is no made_up:%d", ordinal);
        return NULL;
    }
    devices[ordinal] = (struct gb_device){.vendor = GB_VENDOR_MADE_UP, .ordinal = ordinal, .calls = &calls};
    devices[ordinal].name = gb_text("made_up:%d", ordinal);
    return &devices[ordinal];
}

static bool recognize(struct gb_image *image) {
    if (!gb_image_starts_with(image, "MADE UP", 7)) {
        return false;
    }
    image->format = "made-up format";
    return true;
}

const struct gb_vendor_calls gb_made_up_vendor = {.open = open_device, .recognize = recognize};
const struct gb_sparse_vendor gb_made_up_sparse = {.prefix = "madeupsparse"};
