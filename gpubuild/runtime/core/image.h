/* image.h: device images: their properties and containers, and how well one suits a device. */
#ifndef GPUBUILD_RT_IMAGE_H
#define GPUBUILD_RT_IMAGE_H

#include "core/runtime.h"

enum { GB_CHIP_BYTES = 64 };

/* One image. Its pointers are to memory of the program, which outlives the module. */
struct gb_image {
    const void *data;
    size_t size; /* bytes */
    enum gb_vendor vendor;
    const char *format;       /* "cubin", "ptx", "hsaco", "shared object", …; static text */
    char chip[GB_CHIP_BYTES]; /* "sm_90a", "gfx90a:sramecc+:xnack-", "x86-64-v3"; "" where unknown */
    bool checked;             /* a CPU image of a target with `sanitize:` */
    const char *features;     /* of a CPU image, such as "+avx2,-fma"; NULL: no more than the chip's */
    const char *module;       /* "" where unknown */
    const char *target;       /* the target's name in targets.yaml; "" where unknown */
    const char *kernels;      /* JSON list of its kernels; "" where unknown */
};

/* The images in `size` bytes at `data`: LLVM OffloadBinary containers, or one bare object of a vendor's format.
 * Returns their number and a new array in *images. Nothing in the data is trusted. On a malformed one returns 0 and puts
 * the reason into *why (free() it). */
size_t gb_images_parse(const void *data, size_t size, struct gb_image **images, char **why);

/* The number of parameters of a kernel; -1: unknown. */
int gb_image_parameters(const struct gb_image *image, const char *kernel);

/* rank 0: the image does not run on the device, for the reason `why` (static text). Of several images the one of highest
 * rank is best. */
struct gb_fit {
    unsigned rank;
    const char *why;
};

static inline struct gb_fit gb_unfit(const char *why) {
    return (struct gb_fit){.rank = 0, .why = why};
}

static inline struct gb_fit gb_fit(unsigned rank) {
    return (struct gb_fit){.rank = rank, .why = NULL};
}

/* ---- For the vendors, which recognise their formats ---- */

uint64_t gb_read_little_endian(const unsigned char *bytes, unsigned count);
bool gb_image_starts_with(const struct gb_image *image, const void *magic, size_t length);
/* The machine of a 64-bit little-endian ELF file; -1: the image is not such a file. */
int gb_image_elf_machine(const struct gb_image *image);
/* If the chip is unknown, set it to the start of `text` that can be the name of a chip. */
void gb_image_set_chip(struct gb_image *image, const char *text, size_t size);
/* The same from the first occurrence of `marker` in the image; the chip begins `skipped` bytes behind its start. */
void gb_image_find_chip(struct gb_image *image, const char *marker, size_t skipped);

#endif
