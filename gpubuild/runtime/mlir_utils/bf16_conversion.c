/* bf16_conversion.c: the conversions to bf16 that LLVM calls for host code and that libgcc before version 13 lacks.
 *
 * A bf16 result travels in the low 16 bits of the first floating-point register, on x86-64 as on AArch64;
 * a float whose low bits are the result has the same effect and needs no compiler that knows __bf16.
 */
#include "core/runtime.h"

#include <string.h>

GB_WEAK float __truncsfbf2(float value);
GB_WEAK float __truncdfbf2(double value);

static uint32_t bits_of(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* To nearest, ties to even. */
float __truncsfbf2(float value) {
    uint32_t bits = bits_of(value);
    if (value != value) {
        bits |= 0x00400000u; /* stays a NaN when its lower half goes */
    } else {
        bits += 0x7fffu + (bits >> 16 & 1u);
    }
    bits >>= 16;
    float carrier = 0;
    memcpy(&carrier, &bits, sizeof carrier);
    return carrier;
}

/* Through a float rounded to odd, which the second rounding cannot mistake for a tie. */
float __truncdfbf2(double value) {
    float narrow = (float)value;
    double back = (double)narrow;
    if (value == value && back != value) {
        uint32_t bits = bits_of(narrow);
        bool away_from_zero = value > 0 ? back > value : back < value;
        bits = (away_from_zero ? bits - 1 : bits) | 1u;
        memcpy(&narrow, &bits, sizeof narrow);
    }
    return __truncsfbf2(narrow);
}
