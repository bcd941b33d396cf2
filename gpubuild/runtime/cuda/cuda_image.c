/* cuda_image.c: cubins, fat binaries and PTX: their chips, and how well they suit a device. */
#define _GNU_SOURCE /* memmem */
#include "core/clang_registration.h"
#include "cuda/cuda_api.h"

#include <stdio.h>
#include <string.h>

#define PTX "ptx"
#define FATBIN "fatbin"

enum { EM_CUDA = 190, REGISTRATION_MAGIC = 0x466243b1 };

static const unsigned char fatbin_magic[4] = {0x50, 0xed, 0x55, 0xba};

/* ---- formats ---- */

/* The chip is in e_flags; its offset depends on the ABI version. In ptxas 12.9's output, sm_50 to sm_90a have version 7,
 * sm_100 and later version 8. */
static void set_cubin_chip(struct gb_image *image) {
    const unsigned char *elf = image->data;
    unsigned abi = elf[8];
    uint64_t flags = gb_read_little_endian(elf + 48, 4);
    unsigned chip = abi >= 8 ? flags >> 8 & 0xff : flags & 0xff;
    bool specific = (abi >= 8 ? flags & 0x8 : flags & 0x800) != 0;
    char text[16];
    int length = snprintf(text, sizeof text, "sm_%u%s", chip, specific ? "a" : "");
    if (chip != 0) {
        gb_image_set_chip(image, text, (size_t)length);
    }
}

/* Text that may be closed by a NUL. */
static bool is_ptx(const char *text, size_t size) {
    return memchr(text, '\0', size > 0 ? size - 1 : 0) == NULL && memmem(text, size, ".version", 8) != NULL &&
           memmem(text, size, ".target sm_", 11) != NULL;
}

bool gb_cuda_recognize(struct gb_image *image) {
    if (gb_image_elf_machine(image) == EM_CUDA) {
        image->format = "cubin";
        set_cubin_chip(image);
    } else if (gb_image_starts_with(image, fatbin_magic, sizeof fatbin_magic)) {
        image->format = FATBIN;
    } else if (is_ptx(image->data, image->size)) {
        image->format = PTX;
        gb_image_find_chip(image, ".target sm_", strlen(".target "));
    } else {
        return false;
    }
    return true;
}

/* A header of 16 bytes, then entries: kind (2 bytes), version (2), bytes of its own header (4), bytes of its code (8). */
static bool fatbin_has_ptx(const struct gb_image *image) {
    enum { HEADER_BYTES = 16, ENTRY_BYTES = 16, PTX_ENTRY = 1 };
    const unsigned char *bytes = image->data;
    size_t at = HEADER_BYTES;
    while (image->size >= ENTRY_BYTES && at <= image->size - ENTRY_BYTES) {
        if (gb_read_little_endian(bytes + at, 2) == PTX_ENTRY) {
            return true;
        }
        uint64_t length = gb_read_little_endian(bytes + at + 4, 4) + gb_read_little_endian(bytes + at + 8, 8);
        if (length == 0 || length > image->size - at) {
            return false;
        }
        at += (size_t)length;
    }
    return false;
}

bool gb_cuda_is_ptx(const struct gb_image *image) {
    return strcmp(image->format, PTX) == 0;
}

/* ---- choice ---- */

/* Ranks, best first: machine code for exactly this chip, machine code for the nearest minor version, a container that only
 * the driver can read, PTX, which the driver compiles. */
enum { CUDA_EXACT = 4000, CUDA_COMPATIBLE = 3000, CUDA_OPAQUE = 2000, CUDA_PTX = 1000 };

/* "sm_90a" → 9, 0, 'a'; "sm_103" → 10, 3, 0. */
static bool parse_sm(const char *chip, int *major, int *minor, char *suffix) {
    if (strncmp(chip, "sm_", 3) != 0) {
        return false;
    }
    const char *digits = chip + 3;
    size_t n = strspn(digits, "0123456789");
    if (n < 2 || n > 3) {
        return false;
    }
    int number = 0;
    for (size_t i = 0; i < n; i++) {
        number = number * 10 + (digits[i] - '0');
    }
    *major = number / 10;
    *minor = number % 10;
    *suffix = digits[n];
    return digits[n] == '\0' || ((digits[n] == 'a' || digits[n] == 'f') && digits[n + 1] == '\0');
}

struct gb_fit gb_cuda_fit(const struct gb_image *image, int major, int minor) {
    if (image->vendor != GB_VENDOR_CUDA) {
        return gb_unfit("not an NVIDIA image");
    }
    if (image->chip[0] == '\0') { /* a fat binary has a chip where its content is known */
        return gb_fit(gb_cuda_is_ptx(image) ? CUDA_PTX : CUDA_OPAQUE);
    }
    int image_major = 0;
    int image_minor = 0;
    char suffix = 0;
    if (!parse_sm(image->chip, &image_major, &image_minor, &suffix)) {
        return gb_unfit("its chip is not an NVIDIA chip");
    }
    bool exact = image_major == major && image_minor == minor;
    bool family = image_major == major && image_minor <= minor;
    if (suffix == 'a' && !exact) {
        return gb_unfit("code for a chip with suffix 'a' runs on exactly that chip");
    }
    if (suffix == 'f' && !family) {
        return gb_unfit("code for a chip with suffix 'f' runs on its family only");
    }
    bool fatbin = strcmp(image->format, FATBIN) == 0;
    if (gb_cuda_is_ptx(image) || (fatbin && !family && fatbin_has_ptx(image))) {
        if (image_major > major || (image_major == major && image_minor > minor)) {
            return gb_unfit("PTX for a newer chip");
        }
        return gb_fit(CUDA_PTX + 2u * (unsigned)(image_major * 10 + image_minor) + (suffix != 0));
    }
    if (!family) {
        return gb_unfit(image_major == major ? "machine code for a newer chip" : "machine code of another major version");
    }
    /* Of two images for one chip, the one with a suffix may use more of the chip. */
    unsigned bonus = suffix == 'a' ? 2 : suffix == 'f' ? 1 : 0;
    return exact ? gb_fit(CUDA_EXACT + bonus) : gb_fit(CUDA_COMPATIBLE + 4u * (unsigned)image_minor + bonus);
}

/* ---- registration by clang-linker-wrapper ---- */

static bool find_code(struct gb_image *image, const void *data, const char **why) {
    if (strncmp(image->chip, "sm_", 3) != 0) {
        return false;
    }
    const unsigned char *fatbin = data;
    if (memcmp(fatbin, fatbin_magic, sizeof fatbin_magic) != 0) {
        *why = "its CUDA code is in a fat binary of unknown form";
        return false;
    }
    image->data = fatbin;
    image->size = (size_t)(gb_read_little_endian(fatbin + 6, 2) + gb_read_little_endian(fatbin + 8, 8));
    image->vendor = GB_VENDOR_CUDA;
    image->format = FATBIN; /* the driver chooses inside */
    return true;
}

GB_REGISTRATION_CALLS(__cuda, REGISTRATION_MAGIC, find_code)

void __cudaRegisterFatBinaryEnd(void **handle);
GB_HIDDEN void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}
