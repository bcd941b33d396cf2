/* image_choice.c: which image a device takes. Pure functions; the back ends bring the facts. */
#include "cpu/cpu_image.h"
#include "core/image.h"

#include <string.h>

static struct gb_fit unfit(const char *why) {
    return (struct gb_fit){.rank = 0, .why = why};
}

static struct gb_fit fit(unsigned rank) {
    return (struct gb_fit){.rank = rank, .why = NULL};
}

/* ---- NVIDIA ---- */

/* Ranks, best first: the exact chip's own code, native code by how near its minor version is, a
 * container of which only the driver knows the inside, text that the driver compiles. */
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

struct gb_fit gb_fit_cuda(const struct gb_image *image, int major, int minor) {
    if (image->vendor != GB_VENDOR_CUDA) {
        return unfit("not an NVIDIA image");
    }
    if (image->chip[0] == '\0') { /* a fat binary has one where it is known what is in it */
        return fit(image->format == GB_FORMAT_PTX ? CUDA_PTX : CUDA_OPAQUE);
    }
    int image_major = 0;
    int image_minor = 0;
    char suffix = 0;
    if (!parse_sm(image->chip, &image_major, &image_minor, &suffix)) {
        return unfit("its chip is not an NVIDIA chip");
    }
    bool exact = image_major == major && image_minor == minor;
    bool family = image_major == major && image_minor <= minor;
    if (suffix == 'a' && !exact) {
        return unfit("code for a chip with suffix 'a' runs on exactly that chip");
    }
    if (suffix == 'f' && !family) {
        return unfit("code for a chip with suffix 'f' runs on its family only");
    }
    if (image->format == GB_FORMAT_PTX) {
        if (image_major > major || (image_major == major && image_minor > minor)) {
            return unfit("PTX for a newer chip");
        }
        return fit(CUDA_PTX + 2u * (unsigned)(image_major * 10 + image_minor) + (suffix != 0));
    }
    if (!family) {
        return unfit(image_major == major ? "machine code for a newer chip" : "machine code of another major version");
    }
    /* Of two images for the same chip the one with a suffix may use more of it. */
    unsigned bonus = suffix == 'a' ? 2 : suffix == 'f' ? 1 : 0;
    return exact ? fit(CUDA_EXACT + bonus) : fit(CUDA_COMPATIBLE + 4u * (unsigned)image_minor + bonus);
}

/* ---- AMD ---- */

enum { HIP_EXACT = 3000, HIP_GENERIC = 2000, HIP_OPAQUE = 1000 };

/* The setting of a feature in a target id: '+', '-', or 0 when it says nothing. */
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

struct gb_fit gb_fit_hip(const struct gb_image *image, const char *target_id) {
    if (image->vendor != GB_VENDOR_HIP) {
        return unfit("not an AMD image");
    }
    if (image->format == GB_FORMAT_FATBIN || image->chip[0] == '\0') {
        return fit(HIP_OPAQUE);
    }
    size_t image_length = strcspn(image->chip, ":");
    size_t device_length = strcspn(target_id, ":");
    bool exact = image_length == device_length && strncmp(image->chip, target_id, device_length) == 0;
    if (!exact && !generic_covers(image->chip, image_length, target_id, device_length)) {
        return unfit("code for another chip");
    }
    unsigned rank = exact ? HIP_EXACT : HIP_GENERIC;
    static const char *const features[] = {"sramecc", "xnack"};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        char wanted = feature_of(image->chip, features[i]);
        if (wanted == 0) {
            continue; /* runs with the feature on or off */
        }
        if (wanted != feature_of(target_id, features[i])) {
            return unfit(i == 0 ? "needs another setting of sramecc" : "needs another setting of xnack");
        }
        rank++; /* code made for the setting knows more */
    }
    return fit(rank);
}

/* ---- CPU ---- */

struct gb_fit gb_fit_cpu(const struct gb_image *image) {
#if defined(__x86_64__)
    enum { MACHINE = 62 };
    static const char *const levels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
#elif defined(__aarch64__)
    enum { MACHINE = 183 };
    static const char *const levels[] = {"generic", "armv8-a", "armv8.2-a", "armv9-a"};
#else
#error "gpubuild's runtime knows x86-64 and AArch64"
#endif
    enum { LEVELS = sizeof levels / sizeof levels[0] };
    if (image->vendor != GB_VENDOR_CPU) {
        return unfit("not a CPU image");
    }
    if (((const unsigned char *)image->data)[18] != MACHINE) {
        return unfit("code for another processor architecture");
    }
    if (image->chip[0] == '\0') {
        return fit(1); /* a bare object says nothing; its author promised */
    }
    int wanted = gb_settings()->check;
    if (wanted == 1 && !image->checked) {
        return unfit("not checked, and GPUBUILD_CHECK=1 wants a target with `sanitize:`");
    }
    if (wanted == 0 && image->checked) {
        return unfit("checked, and GPUBUILD_CHECK=0 wants none of that");
    }
    unsigned bonus = image->checked ? 0 : 10; /* of both kinds, the fast one */
    if (!gb_cpu_supports(image->chip, image->features)) {
        return unfit("needs instructions that this processor lacks");
    }
    for (unsigned i = 0; i < LEVELS; i++) {
        if (strcmp(image->chip, levels[i]) == 0) {
            return fit(2 + i + bonus);
        }
    }
    return fit(2 + LEVELS + bonus); /* a named processor, and this one has all of it */
}
