/* cpu/cpu_chip.c: whether this machine can run code that was compiled for a chip. */
#include "cpu/cpu_image.h"

#include <string.h>

#if defined(__x86_64__)

#include <cpuid.h>

enum level { BASE = 1, V2, V3, V4 };

/* LLVM's names of chips: the level of the x86-64 ABI they reach, and what they have beyond it that
 * compiled code may use. */
static const struct {
    const char *chip;
    enum level level;
    const char *more;
} chips[] = {
    {"x86-64", BASE, ""},
    {"generic", BASE, ""},
    {"k8", BASE, ""},
    {"opteron", BASE, ""},
    {"nocona", BASE, "+sse3,+cx16"},
    {"x86-64-v2", V2, ""},
    {"nehalem", V2, ""},
    {"corei7", V2, ""},
    {"westmere", V2, "+pclmul"},
    {"x86-64-v3", V3, ""},
    {"haswell", V3, "+pclmul,+fsgsbase,+rdrnd,+invpcid"},
    {"core-avx2", V3, "+pclmul,+fsgsbase,+rdrnd,+invpcid"},
    {"broadwell", V3, "+pclmul,+fsgsbase,+rdrnd,+adx,+rdseed,+prfchw"},
    {"skylake", V3, "+pclmul,+aes,+fsgsbase,+rdrnd,+adx,+rdseed,+prfchw,+clflushopt"},
    {"alderlake", V3, "+pclmul,+aes,+adx,+rdseed,+sha,+gfni,+vaes,+vpclmulqdq,+avxvnni"},
    {"znver1", V3, "+pclmul,+aes,+adx,+rdseed,+sha,+sse4a,+clflushopt,+clzero"},
    {"znver2", V3, "+pclmul,+aes,+adx,+rdseed,+sha,+sse4a,+clwb,+rdpid,+wbnoinvd"},
    {"znver3", V3, "+aes,+adx,+rdseed,+sha,+sse4a,+clwb,+rdpid,+vaes,+vpclmulqdq,+pku"},
    {"x86-64-v4", V4, ""},
    {"skylake-avx512", V4, "+pclmul,+aes,+adx,+rdseed,+clflushopt,+clwb"},
    {"skx", V4, "+pclmul,+aes,+adx,+rdseed,+clflushopt,+clwb"},
    {"cascadelake", V4, "+pclmul,+aes,+adx,+rdseed,+clwb,+avx512vnni"},
    {"icelake-server", V4, "+avx512vbmi2,+avx512vnni,+avx512bitalg,+avx512vpopcntdq,+gfni,+vaes,+sha"},
    {"znver4", V4, "+avx512vbmi2,+avx512vnni,+avx512bf16,+avx512vpopcntdq,+gfni,+vaes,+sha,+sse4a"},
};

struct registers {
    unsigned a, b, c, d;
};

static struct registers cpuid(unsigned leaf, unsigned subleaf) {
    struct registers r = {0, 0, 0, 0};
    if (!__get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d)) {
        return (struct registers){0, 0, 0, 0};
    }
    return r;
}

/* Register state that the operating system saves: bits of XCR0. */
static unsigned saved_state(void) {
    if ((cpuid(1, 0).c >> 27 & 1u) == 0) {
        return 0;
    }
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

enum where { L1C, L1D, L7B, L7C, L7D, L71A, L71D, L14B, L19B, L1E1A, L24B, X1C, X1D, X8B, XSAVE1A };
enum state { ANY = 0, YMM = 0x6, ZMM = 0xe6, TILES = 0x60000, APX = 0x80000 };

/* All that LLVM names when it is asked what a machine has: `chip: native` lists those. */
static const struct {
    const char *name;
    enum where where;
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

static unsigned word(enum where where) {
    switch (where) {
    case L1C:
        return cpuid(1, 0).c;
    case L1D:
        return cpuid(1, 0).d;
    case L7B:
        return cpuid(7, 0).b;
    case L7C:
        return cpuid(7, 0).c;
    case L7D:
        return cpuid(7, 0).d;
    case L71A:
        return cpuid(7, 1).a;
    case L71D:
        return cpuid(7, 1).d;
    case L14B:
        return cpuid(0x14, 0).b;
    case L19B:
        return cpuid(0x19, 0).b;
    case L1E1A:
        return cpuid(0x1e, 1).a;
    case L24B:
        return cpuid(0x24, 0).b;
    case X1C:
        return cpuid(0x80000001u, 0).c;
    case X1D:
        return cpuid(0x80000001u, 0).d;
    case X8B:
        return cpuid(0x80000008u, 0).b;
    case XSAVE1A:
        return cpuid(0xd, 1).a;
    }
    return 0;
}

static bool has_feature(const char *name, size_t length) {
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        if (strlen(features[i].name) == length && memcmp(features[i].name, name, length) == 0) {
            unsigned state = features[i].state;
            return (word(features[i].where) >> features[i].bit & 1u) != 0 && (saved_state() & state) == state;
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

static bool has_level(enum level level) {
    static const char *const needs[] = {
        [BASE] = "+sse2,+cmov,+fxsr",
        [V2] = "+cx16,+sahf,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2",
        [V3] = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave",
        [V4] = "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl",
    };
    for (enum level i = BASE; i <= level && i <= V4; i++) {
        if (!has_all(needs[i])) {
            return false;
        }
    }
    return true;
}

int gb_cpu_supports(const char *chip, const char *wanted) {
    bool known = false;
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        if (strcmp(chips[i].chip, chip) == 0) {
            if (!has_level(chips[i].level) || !has_all(chips[i].more)) {
                return 0;
            }
            known = true;
        }
    }
    /* A chip without an entry is taken by its features; with none, nothing tells what it needs. */
    bool told = wanted != NULL && wanted[0] != '\0';
    return (known || told) && (!told || has_all(wanted));
}

#elif !defined(__aarch64__) /* cpu/cpu_chip_aarch64.c */

int gb_cpu_supports(const char *chip, const char *features) {
    return strcmp(chip, "generic") == 0 && (features == NULL || features[0] == '\0');
}

#endif
