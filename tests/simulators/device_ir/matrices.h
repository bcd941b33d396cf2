/* matrices.h: elements of matrices in fragments. */
#ifndef DEVICE_IR_MATRICES_H
#define DEVICE_IR_MATRICES_H

#include "core.h"

#include <string.h>

double nv_widen(uint32_t bits, uint32_t kind); /* nvidia_real.c, whose kind 0 is f16 */
uint32_t nv_narrow(double value, uint32_t kind, uint32_t mode, uint32_t flags);

enum kind { F16, F32, F64, S8, S32, U8 };

static inline size_t bytes_of(uint32_t kind) {
    static const size_t BYTES[] = {2, 4, 8, 1, 4, 1};
    return BYTES[kind];
}

static inline double element(const unsigned char *from, uint32_t kind) {
    union { uint16_t half; float single; double real; int32_t whole; } u;
    memcpy(&u, from, bytes_of(kind));
    switch (kind) {
    case F16: return nv_widen(u.half, 0);
    case F32: return u.single;
    case F64: return u.real;
    case S8: return (int8_t)*from;
    case U8: return *from;
    default: return u.whole;
    }
}

static inline void put(unsigned char *into, uint32_t kind, double value) {
    union { uint16_t half; float single; double real; int32_t whole; } u;
    switch (kind) {
    case F16: u.half = (uint16_t)nv_narrow(value, 0, 'n', 0); break;
    case F32: u.single = (float)value; break;
    case F64: u.real = value; break;
    default: u.whole = (int32_t)(uint32_t)(int64_t)value; break;
    }
    memcpy(into, &u, bytes_of(kind));
}

#endif
