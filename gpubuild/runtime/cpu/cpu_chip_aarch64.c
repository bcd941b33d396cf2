/* cpu/cpu_chip_aarch64.c: whether this AArch64 machine can run code that was compiled for a chip. */
#include "cpu/cpu_image.h"

#if defined(__aarch64__)

#include <string.h>
#include <sys/auxv.h>

/* LLVM's names of features, and the bits of AT_HWCAP and AT_HWCAP2 by which Linux says that they are there
 * (Documentation/arch/arm64/elf_hwcaps.rst). The numbers are part of its ABI; headers may be older. */
static const struct {
    const char *name;
    unsigned word; /* 1 or 2 */
    unsigned bit;
} features[] = {
    {"fp-armv8", 1, 0}, {"neon", 1, 1},   {"aes", 1, 3},      {"sha2", 1, 6},    {"crc", 1, 7},
    {"lse", 1, 8},      {"fullfp16", 1, 10}, {"rdm", 1, 12},  {"jsconv", 1, 13}, {"complxnum", 1, 14},
    {"rcpc", 1, 15},    {"ccpp", 1, 16},  {"sha3", 1, 17},    {"sm4", 1, 19},    {"dotprod", 1, 20},
    {"sve", 1, 22},     {"fp16fml", 1, 23}, {"dit", 1, 24},   {"rcpc-immo", 1, 26}, {"flagm", 1, 27},
    {"ssbs", 1, 28},    {"sb", 1, 29},    {"pauth", 1, 30},   {"ccdp", 2, 0},    {"sve2", 2, 1},
    {"sve-aes", 2, 2},  {"sve-bitperm", 2, 4}, {"sve-sha3", 2, 5}, {"sve-sm4", 2, 6}, {"altnzcv", 2, 7},
    {"fptoint", 2, 8},  {"i8mm", 2, 13},  {"bf16", 2, 14},    {"rand", 2, 16},   {"bti", 2, 17},
    {"mte", 2, 18},
};

/* What LLVM's compiled code may use of a chip beyond Armv8.0 with NEON. Cryptography is not part of it: it is used only
 * where it is asked for by name, and some makers leave it out. */
static const struct {
    const char *chip;
    const char *needs;
} chips[] = {
    {"generic", ""},
    {"cortex-a53", "+crc"},
    {"cortex-a57", "+crc"},
    {"cortex-a72", "+crc"},
    {"cortex-a73", "+crc"},
    {"cortex-a76", "+crc,+lse,+rdm,+fullfp16,+dotprod,+rcpc"},
    {"neoverse-n1", "+crc,+lse,+rdm,+fullfp16,+dotprod,+rcpc"},
    {"neoverse-v1", "+crc,+lse,+rdm,+fullfp16,+fp16fml,+dotprod,+rcpc-immo,+complxnum,+sve,+i8mm,+bf16"},
    {"neoverse-n2", "+crc,+lse,+rdm,+fullfp16,+fp16fml,+dotprod,+rcpc-immo,+complxnum,+sve2,+sve-bitperm,+i8mm,+bf16"},
    {"neoverse-v2", "+crc,+lse,+rdm,+fullfp16,+fp16fml,+dotprod,+rcpc-immo,+complxnum,+sve2,+sve-bitperm,+i8mm,+bf16"},
};

static bool has_feature(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (strlen(features[i].name) == length && memcmp(features[i].name, name, length) == 0) {
            return (getauxval(features[i].word == 1 ? AT_HWCAP : AT_HWCAP2) >> features[i].bit & 1u) != 0;
        }
    }
    return false;
}

static bool has_all(const char *list) {
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (list[0] == '+' && !has_feature(list + 1, length - 1)) {
            return false;
        }
        list += length + (list[length] == ',');
    }
    return true;
}

int gb_cpu_supports(const char *chip, const char *wanted) {
    bool told = wanted != NULL && wanted[0] != '\0';
    bool known = false;
    for (size_t i = 0; i < sizeof chips / sizeof chips[0] && !known; i++) {
        known = strcmp(chips[i].chip, chip) == 0;
        if (known && !has_all(chips[i].needs)) {
            return 0;
        }
    }
    /* As on x86-64: a chip without an entry is taken by its features; with none, nothing tells what it needs. */
    return (known || told) && (!told || has_all(wanted));
}

#endif
