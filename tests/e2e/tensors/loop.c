// Calls `loop` of loop.mlir and compares with what it computes: 2 added in each of 4 iterations.
#include <stdint.h>
#include <stdio.h>

typedef struct {
    float *allocated, *aligned;
    intptr_t offset, size, stride;
} Memref;

void _mlir_ciface_loop(Memref *x, intptr_t iterations, Memref *result);

int main(void) {
    float x[64], y[64];
    for (int i = 0; i < 64; i++) {
        x[i] = (float)i;
    }
    Memref from = {x, x, 0, 64, 1}, to = {y, y, 0, 64, 1};
    _mlir_ciface_loop(&from, 4, &to);
    int wrong = 0;
    for (int i = 0; i < 64; i++) {
        wrong += y[i] != (float)(i + 8);
    }
    printf("%d wrong\n", wrong);
    return wrong != 0;
}
