/* scaling.c: the same work in every copy of this program: arithmetic in registers, or a pass through memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LANES = 128, STEPS = 8000000, ELEMENTS = 1 << 25, PASSES = 8 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    float sum = 0;
    double start = 0;
    if (argc > 1 && strcmp(argv[1], "arithmetic") == 0) {
        float x[LANES];
        for (int i = 0; i < LANES; i++) {
            x[i] = (float)i;
        }
        start = now();
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < LANES; i++) {
                x[i] = x[i] * 0.999f + 0.5f;
            }
        }
        for (int i = 0; i < LANES; i++) {
            sum += x[i];
        }
    } else {
        float *a = calloc(ELEMENTS, sizeof *a), *b = calloc(ELEMENTS, sizeof *b);
        if (a == NULL || b == NULL) {
            return 1;
        }
        memset(a, 1, ELEMENTS * sizeof *a);
        memset(b, 1, ELEMENTS * sizeof *b);
        start = now();
        for (int pass = 0; pass < PASSES; pass++) {
            for (int i = 0; i < ELEMENTS; i++) {
                b[i] = a[i] + b[i];
            }
        }
        sum = b[ELEMENTS / 2];
    }
    printf("%.6f\n", now() - start);
    return sum == 12345.678f;
}
