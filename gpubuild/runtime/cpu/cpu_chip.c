/* cpu_chip.c: the processor that a CPU image needs, and whether this machine has its features. */
#include "cpu/cpu_device.h"

#include <string.h>

enum { X86_64 = 62, AARCH64 = 183 }; /* machines of ELF files; elf.h calls them EM_… */

#if defined(__x86_64__)

#include <cpuid.h>

enum { THIS_MACHINE = X86_64 };

/* The levels of the x86-64 ABI, by what each needs of a processor. */
#define V1 "+sse2,+cmov,+fxsr"
#define V2 V1 ",+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2"
#define V3 V2 ",+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
#define V4 V3 ",+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"

static const char *const levels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* LLVM's names of chips, and what compiled code may use of them: a level and more. */
static const struct {
    const char *chip;
    const char *needs;
} chips[] = {
    {"x86-64", V1},
    {"generic", V1},
    {"k8", V1},
    {"opteron", V1},
    {"nocona", V1 ",+sse3,+cx16"},
    {"x86-64-v2", V2},
    {"nehalem", V2},
    {"corei7", V2},
    {"westmere", V2 ",+pclmul"},
    {"x86-64-v3", V3},
    {"haswell", V3 ",+pclmul,+fsgsbase,+rdrnd,+invpcid"},
    {"core-avx2", V3 ",+pclmul,+fsgsbase,+rdrnd,+invpcid"},
    {"broadwell", V3 ",+pclmul,+fsgsbase,+rdrnd,+adx,+rdseed,+prfchw"},
    {"skylake", V3 ",+pclmul,+aes,+fsgsbase,+rdrnd,+adx,+rdseed,+prfchw,+clflushopt"},
    {"alderlake", V3 ",+pclmul,+aes,+adx,+rdseed,+sha,+gfni,+vaes,+vpclmulqdq,+avxvnni"},
    {"znver1", V3 ",+pclmul,+aes,+adx,+rdseed,+sha,+sse4a,+clflushopt,+clzero"},
    {"znver2", V3 ",+pclmul,+aes,+adx,+rdseed,+sha,+sse4a,+clwb,+rdpid,+wbnoinvd"},
    {"znver3", V3 ",+aes,+adx,+rdseed,+sha,+sse4a,+clwb,+rdpid,+vaes,+vpclmulqdq,+pku"},
    {"x86-64-v4", V4},
    {"skylake-avx512", V4 ",+pclmul,+aes,+adx,+rdseed,+clflushopt,+clwb"},
    {"skx", V4 ",+pclmul,+aes,+adx,+rdseed,+clflushopt,+clwb"},
    {"cascadelake", V4 ",+pclmul,+aes,+adx,+rdseed,+clwb,+avx512vnni"},
    {"icelake-server", V4 ",+avx512vbmi2,+avx512vnni,+avx512bitalg,+avx512vpopcntdq,+gfni,+vaes,+sha"},
    {"znver4", V4 ",+avx512vbmi2,+avx512vnni,+avx512bf16,+avx512vpopcntdq,+gfni,+vaes,+sha,+sse4a"},
};

enum { A, B, C, D };

static unsigned cpuid(unsigned leaf, unsigned subleaf, unsigned index) {
    unsigned r[4] = {0, 0, 0, 0};
    return __get_cpuid_count(leaf, subleaf, &r[A], &r[B], &r[C], &r[D]) ? r[index] : 0;
}

/* Register state that the operating system saves: bits of XCR0. */
static unsigned saved_state(void) {
    if ((cpuid(1, 0, C) >> 27 & 1u) == 0) {
        return 0;
    }
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

enum word { L1C, L1D, L7B, L7C, L7D, L71A, L71D, L14B, L19B, L1E1A, L24B, X1C, X1D, X8B, XSAVE1A };
enum state { ANY = 0, YMM = 0x6, ZMM = 0xe6, TILES = 0x60000, APX = 0x80000 };

static const struct {
    unsigned leaf, subleaf, index;
} words[] = {
    [L1C] = {1, 0, C},           [L1D] = {1, 0, D},           [L7B] = {7, 0, B},           [L7C] = {7, 0, C},
    [L7D] = {7, 0, D},           [L71A] = {7, 1, A},          [L71D] = {7, 1, D},          [L14B] = {0x14, 0, B},
    [L19B] = {0x19, 0, B},       [L1E1A] = {0x1e, 1, A},      [L24B] = {0x24, 0, B},       [X1C] = {0x80000001u, 0, C},
    [X1D] = {0x80000001u, 0, D}, [X8B] = {0x80000008u, 0, B}, [XSAVE1A] = {0xd, 1, A},
};

/* All features that LLVM lists for a machine; `chip: native` needs those. */
static const struct {
    const char *name;
    enum word word;
    unsigned bit;
    enum state state;
} features[] = {
    {"sse3", L1C, 0, ANY}, {"pclmul", L1C, 1, ANY}, {"ssse3", L1C, 9, ANY}, {"fma", L1C, 12, YMM},
    {"cx16", L1C, 13, ANY}, {"sse4.1", L1C, 19, ANY}, {"sse4.2", L1C, 20, ANY}, {"movbe", L1C, 22, ANY},
    {"popcnt", L1C, 23, ANY}, {"aes", L1C, 25, ANY}, {"xsave", L1C, 26, ANY}, {"avx", L1C, 28, YMM},
    {"f16c", L1C, 29, YMM}, {"rdrnd", L1C, 30, ANY}, {"cx8", L1D, 8, ANY}, {"cmov", L1D, 15, ANY},
    {"mmx", L1D, 23, ANY}, {"fxsr", L1D, 24, ANY}, {"sse", L1D, 25, ANY}, {"sse2", L1D, 26, ANY},
    {"fsgsbase", L7B, 0, ANY}, {"bmi", L7B, 3, ANY}, {"avx2", L7B, 5, YMM}, {"bmi2", L7B, 8, ANY},
    {"invpcid", L7B, 10, ANY}, {"avx512f", L7B, 16, ZMM}, {"avx512dq", L7B, 17, ZMM},
    {"rdseed", L7B, 18, ANY}, {"adx", L7B, 19, ANY}, {"avx512ifma", L7B, 21, ZMM},
    {"clflushopt", L7B, 23, ANY}, {"clwb", L7B, 24, ANY}, {"avx512cd", L7B, 28, ZMM}, {"sha", L7B, 29, ANY},
    {"avx512bw", L7B, 30, ZMM}, {"avx512vl", L7B, 31, ZMM}, {"avx512vbmi", L7C, 1, ZMM},
    {"pku", L7C, 4, ANY}, {"avx512vbmi2", L7C, 6, ZMM}, {"shstk", L7C, 7, ANY}, {"gfni", L7C, 8, ANY},
    {"vaes", L7C, 9, YMM}, {"vpclmulqdq", L7C, 10, YMM}, {"avx512vnni", L7C, 11, ZMM},
    {"avx512bitalg", L7C, 12, ZMM}, {"avx512vpopcntdq", L7C, 14, ZMM}, {"rdpid", L7C, 22, ANY},
    {"avx512vp2intersect", L7D, 8, ZMM}, {"avx512fp16", L7D, 23, ZMM}, {"avxvnni", L71A, 4, YMM},
    {"avx512bf16", L71A, 5, ZMM}, {"sahf", X1C, 0, ANY}, {"lzcnt", X1C, 5, ANY}, {"sse4a", X1C, 6, ANY},
    {"prfchw", X1C, 8, ANY}, {"xop", X1C, 11, YMM}, {"fma4", X1C, 16, YMM}, {"tbm", X1C, 21, ANY},
    {"mwaitx", X1C, 29, ANY}, {"64bit", X1D, 29, ANY}, {"clzero", X8B, 0, ANY}, {"wbnoinvd", X8B, 9, ANY},
    {"crc32", L1C, 20, ANY}, {"sgx", L7B, 2, ANY}, {"rtm", L7B, 11, ANY}, {"waitpkg", L7C, 5, ANY},
    {"kl", L7C, 23, ANY}, {"cldemote", L7C, 25, ANY}, {"movdiri", L7C, 27, ANY}, {"movdir64b", L7C, 28, ANY},
    {"enqcmd", L7C, 29, ANY}, {"uintr", L7D, 5, ANY}, {"serialize", L7D, 14, ANY}, {"tsxldtrk", L7D, 16, ANY},
    {"pconfig", L7D, 18, ANY}, {"amx-bf16", L7D, 22, TILES}, {"amx-tile", L7D, 24, TILES},
    {"amx-int8", L7D, 25, TILES}, {"sha512", L71A, 0, YMM}, {"sm3", L71A, 1, YMM}, {"sm4", L71A, 2, YMM},
    {"raoint", L71A, 3, ANY}, {"cmpccxadd", L71A, 7, ANY}, {"amx-fp16", L71A, 21, TILES}, {"hreset", L71A, 22, ANY},
    {"avxifma", L71A, 23, YMM}, {"movrs", L71A, 31, ANY}, {"avxvnniint8", L71D, 4, YMM},
    {"avxneconvert", L71D, 5, YMM}, {"amx-complex", L71D, 8, TILES}, {"avxvnniint16", L71D, 10, YMM},
    {"prefetchi", L71D, 14, ANY}, {"usermsr", L71D, 15, ANY}, {"ptwrite", L14B, 4, ANY}, {"widekl", L19B, 2, ANY},
    {"amx-fp8", L1E1A, 4, TILES}, {"amx-tf32", L1E1A, 6, TILES}, {"amx-avx512", L1E1A, 7, TILES},
    {"amx-movrs", L1E1A, 8, TILES}, {"avx10.1", L71D, 19, ZMM}, {"avx10.2", L24B, 1, ZMM}, /* of a version number */
    {"egpr", L71D, 21, APX}, {"ndd", L71D, 21, APX}, {"ccmp", L71D, 21, APX}, {"cf", L71D, 21, APX},
    {"nf", L71D, 21, APX}, {"ppx", L71D, 21, APX}, {"push2pop2", L71D, 21, APX}, {"zu", L71D, 21, APX},
    {"lwp", X1C, 15, ANY}, {"rdpru", X8B, 4, ANY}, {"xsaveopt", XSAVE1A, 0, ANY}, {"xsavec", XSAVE1A, 1, ANY}, {"xsaves", XSAVE1A, 3, ANY},
};

static bool has_feature(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (strlen(features[i].name) == length && memcmp(features[i].name, name, length) == 0) {
            enum word word = features[i].word;
            unsigned bits = cpuid(words[word].leaf, words[word].subleaf, words[word].index);
            unsigned state = features[i].state;
            return (bits >> features[i].bit & 1u) != 0 && (saved_state() & state) == state;
        }
    }
    return false;
}

#elif defined(__aarch64__)

#include <sys/auxv.h>

enum { THIS_MACHINE = AARCH64 };

static const char *const levels[] = {"generic", "armv8-a", "armv8.2-a", "armv9-a"};

/* LLVM's names of features, and the bits of AT_HWCAP and AT_HWCAP2 by which Linux lists them
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

/* Features of a chip that LLVM's code may use beyond Armv8.0 with NEON. Cryptography is not among them: it is used only
 * if requested by name, and some vendors omit it. */
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

#else
#error "gpubuild's runtime knows x86-64 and AArch64"
#endif

/* Whether `list` has the feature behind a '-'. */
static bool excludes(const char *list, const char *name, size_t length) {
    while (list != NULL && *list != '\0') {
        size_t item = strcspn(list, ",");
        if (list[0] == '-' && item == length + 1 && memcmp(list + 1, name, length) == 0) {
            return true;
        }
        list += item + (list[item] == ',');
    }
    return false;
}

/* Whether this processor has all features of `list` but those that `excluding` has behind a '-'. */
static bool has_all(const char *list, const char *excluding) {
    while (*list != '\0') {
        size_t length = strcspn(list, ",");
        if (list[0] == '+' && !has_feature(list + 1, length - 1) && !excludes(excluding, list + 1, length - 1)) {
            return false;
        }
        list += length + (list[length] == ',');
    }
    return true;
}

int gb_cpu_supports(const char *chip, const char *features_wanted) {
    bool known = false;
    for (size_t i = 0; i < sizeof chips / sizeof chips[0] && !known; i++) {
        known = strcmp(chips[i].chip, chip) == 0;
        /* Code for a chip without some of its features, as virtual machines often are, needs the others only. */
        if (known && !has_all(chips[i].needs, features_wanted)) {
            return 0;
        }
    }
    /* A chip without an entry needs the listed features; without any, its needs are unknown. */
    bool listed = features_wanted != NULL && features_wanted[0] != '\0';
    return (known || listed) && (!listed || has_all(features_wanted, NULL));
}

/* ---- images ---- */

static const char chip_mark[] = "gpubuild.chip="; /* gpubuild/engine/backends/cpu/image_layout.py has it too */

bool gb_cpu_recognize(struct gb_image *image) {
    int machine = gb_image_elf_machine(image);
    if (machine != X86_64 && machine != AARCH64) {
        return false;
    }
    image->format = "shared object";
    gb_image_find_chip(image, chip_mark, sizeof chip_mark - 1);
    return true;
}

struct gb_fit gb_cpu_fit(const struct gb_image *image) {
    enum { LEVELS = sizeof levels / sizeof levels[0] };
    if (image->vendor != GB_VENDOR_CPU) {
        return gb_unfit("not a CPU image");
    }
    if (gb_image_elf_machine(image) != THIS_MACHINE) {
        return gb_unfit("code for another processor architecture");
    }
    if (image->chip[0] == '\0') {
        return gb_fit(1); /* an object without a mark may be for any chip */
    }
    int wanted = gb_settings()->check;
    if (wanted == 1 && !image->checked) {
        return gb_unfit("not checked, and GPUBUILD_CHECK=1 requires a target with `sanitize:`");
    }
    if (wanted == 0 && image->checked) {
        return gb_unfit("checked, and GPUBUILD_CHECK=0 excludes checked images");
    }
    unsigned bonus = image->checked ? 0 : 10; /* prefer the fast image */
    if (!gb_cpu_supports(image->chip, image->features)) {
        return gb_unfit("needs instructions that this processor lacks");
    }
    for (unsigned i = 0; i < LEVELS; i++) {
        if (strcmp(image->chip, levels[i]) == 0) {
            return gb_fit(2 + i + bonus);
        }
    }
    return gb_fit(2 + LEVELS + bonus); /* a named processor, all of whose features this one has */
}
