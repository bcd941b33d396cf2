/* hip_image.c: AMD's code objects and bundles of them: their chips, and how well they suit a device. */
#include "core/clang_registration.h"
#include "hip/hip_api.h"

#include <string.h>

#define CODE_OBJECT "hsaco"
#define BUNDLE "fatbin"

enum { EM_AMDGPU = 224, REGISTRATION_MAGIC = 0x48495046 };

static const char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__"; /* of a fat binary, in HIP's words */

/* ---- formats ---- */

bool gb_hip_recognize(struct gb_image *image) {
    if (gb_image_elf_machine(image) == EM_AMDGPU) {
        image->format = CODE_OBJECT; /* its metadata note has the target id */
        gb_image_find_chip(image, "amdgcn-amd-amdhsa--gfx", strlen("amdgcn-amd-amdhsa--"));
    } else if (gb_image_starts_with(image, bundle_magic, sizeof bundle_magic - 1)) {
        image->format = BUNDLE;
    } else {
        return false;
    }
    return true;
}

/* ---- choice ---- */

enum { HIP_EXACT = 3000, HIP_GENERIC = 2000, HIP_OPAQUE = 1000 };

/* The setting of a feature in a target id: '+', '-', or 0 when it has none. */
static char feature_of(const char *target_id, const char *feature) {
    size_t length = strlen(feature);
    for (const char *part = strchr(target_id, ':'); part != NULL; part = strchr(part + 1, ':')) {
        if (strncmp(part + 1, feature, length) == 0 && (part[1 + length] == '+' || part[1 + length] == '-')) {
            return part[1 + length];
        }
    }
    return 0;
}

/* The generic targets of LLVM's AMDGPU guide and the processors they run on. */
static bool generic_covers(const char *generic, size_t generic_length, const char *chip, size_t chip_length) {
    static const struct {
        const char *generic;
        const char *chips; /* each closed by a space */
    } table[] = {
        {"gfx9-generic", "gfx900 gfx902 gfx904 gfx906 gfx909 gfx90c "},
        {"gfx9-4-generic", "gfx940 gfx941 gfx942 gfx950 "},
        {"gfx10-1-generic", "gfx1010 gfx1011 gfx1012 gfx1013 "},
        {"gfx10-3-generic", "gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035 gfx1036 "},
        {"gfx11-generic", "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 "},
        {"gfx12-generic", "gfx1200 gfx1201 "},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].generic) != generic_length || strncmp(table[i].generic, generic, generic_length) != 0) {
            continue;
        }
        for (const char *at = table[i].chips; *at != '\0'; at = strchr(at, ' ') + 1) {
            if ((size_t)(strchr(at, ' ') - at) == chip_length && strncmp(at, chip, chip_length) == 0) {
                return true;
            }
        }
    }
    return false;
}

struct gb_fit gb_hip_fit(const struct gb_image *image, const char *target_id) {
    if (image->vendor != GB_VENDOR_HIP) {
        return gb_unfit("not an AMD image");
    }
    if (strcmp(image->format, BUNDLE) == 0 || image->chip[0] == '\0') {
        return gb_fit(HIP_OPAQUE);
    }
    size_t image_length = strcspn(image->chip, ":");
    size_t device_length = strcspn(target_id, ":");
    bool exact = image_length == device_length && strncmp(image->chip, target_id, device_length) == 0;
    if (!exact && !generic_covers(image->chip, image_length, target_id, device_length)) {
        return gb_unfit("code for another chip");
    }
    unsigned rank = exact ? HIP_EXACT : HIP_GENERIC;
    static const char *const features[] = {"sramecc", "xnack"};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        char wanted = feature_of(image->chip, features[i]);
        if (wanted == 0) {
            continue; /* runs with the feature on or off */
        }
        if (wanted != feature_of(target_id, features[i])) {
            return gb_unfit(i == 0 ? "needs another setting of sramecc" : "needs another setting of xnack");
        }
        rank++; /* code for one setting may use more */
    }
    return gb_fit(rank);
}

/* ---- registration by clang-linker-wrapper ---- */

/* Find the code object for the image's chip in a bundle of clang-offload-bundler. */
static bool find_code(struct gb_image *image, const void *data, const char **why) {
    const unsigned char *bundle = data;
    if (strncmp(image->chip, "gfx", 3) != 0) {
        return false;
    }
    if (memcmp(bundle, bundle_magic, sizeof bundle_magic - 1) != 0) {
        *why = "its HIP code is in a bundle of unknown form (compressed? link without --compress)";
        return false;
    }
    const unsigned char *at = bundle + sizeof bundle_magic - 1;
    uint64_t count = gb_read_little_endian(at, 8);
    at += 8;
    size_t chip_length = strlen(image->chip);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = gb_read_little_endian(at, 8);
        uint64_t size = gb_read_little_endian(at + 8, 8);
        uint64_t length = gb_read_little_endian(at + 16, 8);
        const char *id = (const char *)at + 24; /* "hip-amdgcn-amd-amdhsa--gfx90a:xnack+" */
        at += 24 + length;
        if (length > chip_length && memcmp(id, "hip", 3) == 0 && id[length - chip_length - 1] == '-' &&
            memcmp(id + length - chip_length, image->chip, chip_length) == 0) {
            image->data = bundle + offset;
            image->size = (size_t)size;
            image->vendor = GB_VENDOR_HIP;
            image->format = CODE_OBJECT;
            return true;
        }
    }
    return false;
}

GB_REGISTRATION_CALLS(__hip, REGISTRATION_MAGIC, find_code)
