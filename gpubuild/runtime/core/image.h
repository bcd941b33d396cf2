/* core/image.h: device images: what they are, where they come from, and which device takes them. */
#ifndef GPUBUILD_RT_IMAGE_H
#define GPUBUILD_RT_IMAGE_H

#include "core/runtime.h"

enum gb_vendor { GB_VENDOR_CUDA, GB_VENDOR_HIP, GB_VENDOR_CPU, GB_VENDOR_UNKNOWN };

enum gb_format {
    GB_FORMAT_CUBIN,  /* ELF, EM_CUDA */
    GB_FORMAT_FATBIN, /* NVIDIA's container; the driver chooses inside */
    GB_FORMAT_PTX,    /* text, closed by a NUL or by the image's end */
    GB_FORMAT_HSACO,  /* ELF, EM_AMDGPU */
    GB_FORMAT_SHARED, /* ELF of the host: a CPU image */
    GB_FORMAT_UNKNOWN
};

enum { GB_CHIP_BYTES = 64 };

/* One image. It points into memory of the program's that outlives the module. */
struct gb_image {
    const void *data;
    size_t size; /* bytes */
    enum gb_vendor vendor;
    enum gb_format format;
    char chip[GB_CHIP_BYTES]; /* "sm_90a", "gfx90a:sramecc+:xnack-", "x86-64-v3"; "" where unknown */
    bool checked;             /* a CPU image of a target with `sanitize:` */
    const char *features;     /* of a CPU image, such as "+avx2,-fma"; NULL: no more than the chip's */
    const char *module;       /* "" where unknown */
    const char *target;       /* the target's name in targets.yaml; "" where unknown */
    const char *kernels;      /* JSON: what is known of its kernels; "" where unknown */
};

/* How many parameters a kernel of the image has; -1 where that is not told. */
int gb_image_parameters(const struct gb_image *image, const char *kernel);

/* The images in `size` bytes at `data`: LLVM OffloadBinary containers, or one bare object (cubin,
 * hsaco, CPU shared object, PTX text, fatbin). Returns their number and a new array in *images.
 * Nothing in the data is trusted. On a malformed one returns 0 and puts the reason into *why (free() it). */
size_t gb_images_parse(const void *data, size_t size, struct gb_image **images, char **why);

const char *gb_vendor_name(enum gb_vendor vendor); /* "cuda", "hip", "cpu", "unknown" */
const char *gb_format_name(enum gb_format format); /* "cubin", "ptx", … */

/* rank 0: the image does not run on the device, for the reason `why` (static text);
 * of several images the highest rank is best. */
struct gb_fit {
    unsigned rank;
    const char *why;
};

/* core/image_choice.c: the rules of the vendors; `major`.`minor` is the compute capability, `target_id` what
 * HIP calls gcnArchName, such as "gfx90a:sramecc+:xnack-". */
struct gb_fit gb_fit_cuda(const struct gb_image *image, int major, int minor);
struct gb_fit gb_fit_hip(const struct gb_image *image, const char *target_id);
struct gb_fit gb_fit_cpu(const struct gb_image *image);

/* A tensor map as cuTensorMapEncodeTiled takes it: innermost dimension first. */
struct gb_tensor_map {
    uint32_t data_type; /* CUtensorMapDataType */
    uint32_t rank;      /* 1 to 5 */
    void *address;      /* in device memory */
    const uint64_t *dims;            /* rank of them, elements */
    const uint64_t *strides;         /* rank - 1 of them, bytes */
    const uint32_t *box;             /* rank of them, elements */
    const uint32_t *element_strides; /* rank of them */
    uint32_t interleave, swizzle, l2_promotion, out_of_bounds;
};

enum { GB_TENSOR_MAP_BYTES = 128, GB_TENSOR_MAP_ALIGNMENT = 64 };

#endif
