/* image.h: device images: what they are, where they come from, and which device takes them. */
#ifndef GPUBUILD_RT_IMAGE_H
#define GPUBUILD_RT_IMAGE_H

#include "gpubuild_rt.h"

enum gb_vendor { GB_VENDOR_CUDA, GB_VENDOR_HIP, GB_VENDOR_CPU, GB_VENDOR_UNKNOWN };

enum gb_format {
    GB_FORMAT_CUBIN,  /* ELF, EM_CUDA */
    GB_FORMAT_FATBIN, /* NVIDIA's container; the driver chooses inside */
    GB_FORMAT_PTX,    /* text, closed by a NUL or by the image's end */
    GB_FORMAT_HSACO,  /* ELF, EM_AMDGPU */
    GB_FORMAT_SHARED, /* ELF of the host: a CPU image */
    GB_FORMAT_UNKNOWN
};

/* One image. It points into memory of the program's that outlives the module. */
struct gb_image {
    const void *data;
    size_t size; /* bytes */
    enum gb_vendor vendor;
    enum gb_format format;
    const char *chip;   /* "sm_90a", "gfx90a:sramecc+:xnack-", "x86-64-v3"; "" where unknown */
    const char *module; /* "" where unknown */
    const char *target; /* the target's name in targets.yaml; "" where unknown */
};

/* rank 0: the image does not run on the device, for the reason `why` (static text);
 * of several images the highest rank is best. */
struct gb_fit {
    unsigned rank;
    const char *why;
};

/* What mgpuTensorMapEncodeTiledMemref was asked for (nvgpu.tma.create.descriptor). */
struct gb_tensor_map {
    int64_t rank;           /* 1 to 5 */
    void *address;          /* aligned pointer + offset */
    int64_t sizes[5];       /* outermost first, elements */
    int64_t strides[5];     /* outermost first, elements */
    int64_t box[5];         /* outermost first, elements */
    int64_t element_type;   /* CUtensorMapDataType */
    int64_t interleave;     /* CUtensorMapInterleave */
    int64_t swizzle;        /* CUtensorMapSwizzle */
    int64_t l2_promotion;   /* CUtensorMapL2promotion */
    int64_t out_of_bounds;  /* CUtensorMapFloatOOBfill */
};

#endif
