/* nvidia.c: what the PTX ISA says of instructions that lanes of a subgroup execute together, and of the driver's functions. */
#include "core.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Before sm_70 lanes that name each other must come to the same instruction together. */
static bool lockstep;

void nv_set_chip(uint32_t number) {
    lockstep = number < 70;
}

static void sync(struct emu_request *request, const char *kind, emu_action *action, uint32_t members, uint32_t site,
                 uint32_t depth) {
    if (members == 0) {
        emu_fail("%s of no lanes", kind);
    }
    request->kind = kind;
    request->action = action;
    request->members = members;
    request->converged = lockstep;
    emu_converge(request, site, depth);
}

/* ---- shuffles ---- */

enum { UP, DOWN, BUTTERFLY, INDEX };

static void shuffle(struct emu_request *const *requests, uint64_t set) {
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (!(set >> lane & 1)) {
            continue;
        }
        struct emu_request *request = requests[lane];
        uint32_t mode = (uint32_t)request->in[0];
        int b = request->in[2] & 31, c = request->in[3] & 31, segments = request->in[3] >> 8 & 31;
        int most = ((int)lane & segments) | (c & ~segments & 31), least = (int)lane & segments;
        int from = 0;
        bool inside = false;
        switch (mode) {
        case UP: from = (int)lane - b; inside = from >= most; break;
        case DOWN: from = (int)lane + b; inside = from <= most; break;
        case BUTTERFLY: from = (int)lane ^ b; inside = from <= most; break;
        default: from = least | (b & ~segments & 31); inside = from <= most; break;
        }
        if (!inside) {
            from = (int)lane;
        }
        /* A lane that takes no part has nothing to read. */
        request->out[0] = set >> from & 1 ? requests[from]->in[1] : EMU_POISON;
        request->out[1] = inside;
    }
}

uint32_t nv_shuffle(uint32_t mode, uint32_t members, uint32_t value, uint32_t b, uint32_t c, uint32_t *inside,
                    uint32_t site, uint32_t depth) {
    static const char *const KINDS[] = {"shfl.sync.up", "shfl.sync.down", "shfl.sync.bfly", "shfl.sync.idx"};
    struct emu_request request = {.in = {mode, value, b, c}};
    sync(&request, KINDS[mode], shuffle, members, site, depth);
    *inside = (uint32_t)request.out[1];
    return (uint32_t)request.out[0];
}

/* ---- votes, matches, reductions ---- */

enum { ALL, ANY, UNIFORM, BALLOT };

static void vote(struct emu_request *const *requests, uint64_t set) {
    uint64_t yes = 0;
    for (uint32_t lane = 0; lane < 32; lane++) {
        yes |= (uint64_t)((set >> lane & 1) && requests[lane]->in[1]) << lane;
    }
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (set >> lane & 1) {
            uint64_t answers[] = {yes == set, yes != 0, yes == set || yes == 0, yes};
            requests[lane]->out[0] = answers[requests[lane]->in[0]];
        }
    }
}

uint32_t nv_vote(uint32_t mode, uint32_t members, uint32_t predicate, uint32_t site, uint32_t depth) {
    static const char *const KINDS[] = {"vote.sync.all", "vote.sync.any", "vote.sync.uni", "vote.sync.ballot"};
    struct emu_request request = {.in = {mode, predicate}};
    sync(&request, KINDS[mode], vote, members, site, depth);
    return (uint32_t)request.out[0];
}

static void match(struct emu_request *const *requests, uint64_t set) {
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (!(set >> lane & 1)) {
            continue;
        }
        uint64_t same = 0;
        for (uint32_t other = 0; other < 32; other++) {
            same |= (uint64_t)((set >> other & 1) && requests[other]->in[1] == requests[lane]->in[1]) << other;
        }
        requests[lane]->out[1] = same == set;
        requests[lane]->out[0] = requests[lane]->in[0] && same != set ? 0 : same;
    }
}

uint32_t nv_match(uint32_t all, uint32_t members, uint64_t value, uint32_t *agreed, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {all, value}};
    sync(&request, all ? "match.all.sync" : "match.any.sync", match, members, site, depth);
    *agreed = (uint32_t)request.out[1];
    return (uint32_t)request.out[0];
}

static uint32_t reduced(const char *op, uint32_t a, uint32_t b) {
    switch (op[0] == 'u' ? op[2] : op[1]) {
    case 'd': return a + b;                                                        /* add */
    case 'n': return a & b;                                                        /* and */
    case 'r': return a | b;                                                        /* or */
    case 'o': return a ^ b;                                                        /* xor */
    case 'i': return (op[0] == 'u' ? a < b : (int32_t)a < (int32_t)b) ? a : b;     /* min, umin */
    default: return (op[0] == 'u' ? a > b : (int32_t)a > (int32_t)b) ? a : b;      /* max, umax */
    }
}

static void reduce(struct emu_request *const *requests, uint64_t set) {
    bool begun = false;
    uint32_t total = 0;
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (set >> lane & 1) {
            uint32_t value = (uint32_t)requests[lane]->in[0];
            total = begun ? reduced(requests[lane]->kind, total, value) : value;
            begun = true;
        }
    }
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (set >> lane & 1) {
            requests[lane]->out[0] = total;
        }
    }
}

uint32_t nv_redux(const char *op, uint32_t value, uint32_t members, uint32_t site, uint32_t depth) {
    struct emu_request request = {.in = {value}};
    sync(&request, op, reduce, members, site, depth);
    return (uint32_t)request.out[0];
}

static void take_set(struct emu_request *const *requests, uint64_t set) {
    for (uint32_t lane = 0; lane < 32; lane++) {
        if (set >> lane & 1) {
            requests[lane]->out[0] = set;
        }
    }
}

uint32_t nv_activemask(uint32_t site, uint32_t depth) {
    struct emu_request request = {.kind = "activemask", .action = take_set};
    emu_converge(&request, site, depth);
    return (uint32_t)request.out[0];
}

/* Which lane is elected is not said: the last one here, since programs may come to rely on the first. */
uint32_t nv_elect(uint32_t members, uint32_t *elected, uint32_t site, uint32_t depth) {
    struct emu_request request = {0};
    sync(&request, "elect.sync", take_set, members, site, depth);
    uint32_t last = 31u - (uint32_t)__builtin_clz((uint32_t)request.out[0]);
    *elected = emu_lane() == last;
    return last;
}

void nv_warp_sync(uint32_t members, uint32_t site, uint32_t depth) {
    struct emu_request request = {0};
    sync(&request, "bar.warp.sync", take_set, members, site, depth);
}

/* ---- the driver's functions ---- */

void nv_assertfail(const char *text, const char *file, uint32_t line, const char *function) {
    emu_fail("assertion failed: %s (%s:%u, %s)", text, file, line, function);
}

/* The arguments lie one after the other, each aligned to its size: none is smaller than an int. */
static uint64_t next_argument(const char *arguments, size_t *at, size_t bytes) {
    uint64_t value = 0;
    *at = (*at + bytes - 1) / bytes * bytes;
    memcpy(&value, arguments + *at, bytes);
    *at += bytes;
    return value;
}

uint32_t nv_vprintf(const char *format, const char *arguments) {
    size_t at = 0;
    uint32_t count = 0;
    char piece[64], text[1024];
    while (*format != 0) {
        if (*format != '%' || format[1] == '%') {
            emu_print(format, 1);
            format += *format == '%' ? 2 : 1;
            continue;
        }
        size_t length = strcspn(format + 1, "diouxXcspfeEgGaA") + 2;
        if (length >= sizeof piece || format[length - 1] == 0) {
            emu_fail("vprintf cannot read %s", format);
        }
        memcpy(piece, format, length);
        piece[length] = 0;
        format += length;
        char kind = piece[length - 1];
        int written;
        if (strchr("feEgGaA", kind) != NULL) {
            uint64_t bits = next_argument(arguments, &at, 8);
            double value;
            memcpy(&value, &bits, 8);
            written = snprintf(text, sizeof text, piece, value);
        } else if (kind == 's' || kind == 'p') {
            written = snprintf(text, sizeof text, piece, (void *)(uintptr_t)next_argument(arguments, &at, 8));
        } else if (strchr(piece, 'l') != NULL) {
            written = snprintf(text, sizeof text, piece, (long long)next_argument(arguments, &at, 8));
        } else {
            written = snprintf(text, sizeof text, piece, (int)next_argument(arguments, &at, 4));
        }
        emu_print(text, (size_t)written);
        count++;
    }
    return count;
}

void *nv_malloc(uint64_t bytes) {
    void *memory = malloc(bytes);
    if (memory != NULL) {
        memset(memory, EMU_POISON_BYTE, bytes);
    }
    return memory;
}

/* ---- arithmetic with a rounding of its own ---- */

enum { FLUSH = 256 }; /* beside the letter of a mode: subnormals are 0 */

static float flushed(float value, uint32_t flush) {
    return flush && fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static int mode_of(uint32_t mode) {
    uint32_t letter = mode & 255;
    return letter == 'z' ? FE_TOWARDZERO : letter == 'm' ? FE_DOWNWARD : letter == 'p' ? FE_UPWARD : FE_TONEAREST;
}

#define ROUNDED(expression)                                                                                            \
    int before = fegetround();                                                                                         \
    fesetround(mode_of(mode));                                                                                         \
    result = (expression);                                                                                             \
    fesetround(before)

float nv_arith_f(uint32_t op, uint32_t mode, float given_a, float given_b, float given_c) {
    uint32_t flush = mode & FLUSH;
    volatile float a = flushed(given_a, flush), b = flushed(given_b, flush), c = flushed(given_c, flush), result;
    ROUNDED(op == 'a' ? a + b : op == 'm' ? a * b : op == 'd' ? a / b : op == 's' ? sqrtf(a) : fmaf(a, b, c));
    return flushed(result, flush);
}

double nv_arith_d(uint32_t op, uint32_t mode, double given_a, double given_b, double given_c) {
    volatile double a = given_a, b = given_b, c = given_c, result;
    ROUNDED(op == 'a' ? a + b : op == 'm' ? a * b : op == 'd' ? a / b : op == 's' ? sqrt(a) : op == 'q' ? 1 / sqrt(a) : fma(a, b, c));
    return result;
}

/* To an integer of `bits`, saturated; no number gives 0. */
int64_t nv_to_integer(double value, uint32_t mode, uint32_t bits, uint32_t is_signed) {
    if (isnan(value)) {
        return 0;
    }
    double whole = mode == 'z' ? trunc(value) : mode == 'm' ? floor(value) : mode == 'p' ? ceil(value)
                                                                                          : nearbyint(value);
    double most = is_signed ? ldexp(1, (int)bits - 1) : ldexp(1, (int)bits);
    if (whole >= most) {
        return is_signed ? (int64_t)((1ull << (bits - 1)) - 1) : (int64_t)(bits == 64 ? ~0ull : (1ull << bits) - 1);
    }
    if (whole <= (is_signed ? -most : 0)) {
        return is_signed ? (int64_t)(-(1ull << (bits - 1))) : 0;
    }
    return is_signed ? (int64_t)whole : (int64_t)(uint64_t)whole;
}

/* ---- approximations: as exact as a float holds them, which is within what the ISA allows ---- */

float nv_approximate(uint32_t op, uint32_t flush, float given) {
    double x = flushed(given, flush);
    double y = 0;
    switch (op) {
    case 'e': y = exp2(x); break;
    case 'l': y = log2(x); break;
    case 'r': y = 1 / x; break;
    case 'q': y = 1 / sqrt(x); break;
    case 's': y = sqrt(x); break;
    case 'i': y = sin(x); break;
    case 'c': y = cos(x); break;
    case 't': y = tanh(x); break;
    default: emu_fail("no approximation %c", (char)op);
    }
    return flushed((float)y, flush);
}

/* Of doubles the ISA gives the upper half only, the lower is 0. */
double nv_approximate_d(uint32_t op, double x) {
    if (fpclassify(x) == FP_SUBNORMAL) {
        x = copysign(0, x);
    }
    double y = op == 'r' ? 1 / x : 1 / sqrt(x);
    if (fpclassify(y) == FP_SUBNORMAL) {
        y = copysign(0, y);
    }
    uint64_t bits;
    memcpy(&bits, &y, 8);
    if (isfinite(y)) {
        bits &= ~0ull << 32;
    }
    memcpy(&y, &bits, 8);
    return y;
}
