/* mlir_utils/print.c: the scalar print functions and clocks of MLIR's c_runner_utils, float16_utils and runner_utils.
 *
 * Output matches those libraries of LLVM 22 byte for byte. All of it goes through C's stdout, so it
 * keeps its order among printf of host code and of CPU kernels.
 */
#define _POSIX_C_SOURCE 200809L
#include "mlir_utils/element.h"
#include "core/runtime.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

GB_WEAK void printI64(int64_t value);
GB_WEAK void printU64(uint64_t value);
GB_WEAK void printF32(float value);
GB_WEAK void printF64(double value);
GB_WEAK void printF16(uint32_t bits);
GB_WEAK void printBF16(uint32_t bits);
GB_WEAK void printString(const char *text);
GB_WEAK void printOpen(void);
GB_WEAK void printClose(void);
GB_WEAK void printComma(void);
GB_WEAK void printNewline(void);
GB_WEAK void printFlops(double flops);
GB_WEAK double rtclock(void);
GB_WEAK int64_t nanoTime(void);
GB_WEAK int64_t _mlir_ciface_nanoTime(void);

/* A program whose output is lost must not end with success. */
static void checked(int result, const char *call) {
    if (result < 0) {
        const struct gb_where where = {.call = call};
        gb_fatal(&where, "cannot write to standard output: %s", strerror(errno));
    }
}

void printI64(int64_t value) {
    checked(printf("%" PRId64, value), "printI64");
}

void printU64(uint64_t value) {
    checked(printf("%" PRIu64, value), "printU64");
}

void printF32(float value) {
    checked(printf("%g", (double)value), "printF32");
}

void printF64(double value) {
    checked(printf("%g", value), "printF64");
}

/* Passed as i16 without zeroext: the upper half may hold anything. */
void printF16(uint32_t bits) {
    checked(printf("%g", (double)gb_float_of_f16((uint16_t)(bits & 0xffffu))), "printF16");
}

void printBF16(uint32_t bits) {
    checked(printf("%g", (double)gb_float_of_bf16((uint16_t)(bits & 0xffffu))), "printBF16");
}

void printString(const char *text) {
    checked(fputs(text, stdout), "printString");
}

void printOpen(void) {
    checked(fputs("( ", stdout), "printOpen");
}

void printClose(void) {
    checked(fputs(" )", stdout), "printClose");
}

void printComma(void) {
    checked(fputs(", ", stdout), "printComma");
}

void printNewline(void) {
    checked(fputc('\n', stdout), "printNewline");
}

void printFlops(double flops) {
    checked(fprintf(stderr, "%f GFLOPS\n", flops / 1.0e9), "printFlops");
}

/* Seconds since the epoch. */
double rtclock(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now); /* fails only for a clock that does not exist */
    return (double)now.tv_sec + (double)now.tv_nsec * 1.0e-9;
}

/* Nanoseconds of a clock that never goes back; only differences mean anything. */
int64_t nanoTime(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t _mlir_ciface_nanoTime(void) {
    return nanoTime();
}
