// Computes two batches with the network on the device and compares them with NumPy's numbers.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "expected.h"

// How MLIR passes a memref<?xNxf32>.
typedef struct {
  float *allocated;
  float *aligned;
  intptr_t offset;
  intptr_t sizes[2];
  intptr_t strides[2];
} Matrix;

// The function's result is an argument behind the others, which the caller allocates.
void _mlir_ciface_mlp(Matrix *x, Matrix *y);

int main(void) {
  static float x[ROWS * INPUTS], y[ROWS * OUTPUTS];
  for (int i = 0; i < ROWS * INPUTS; ++i) x[i] = (float)(i * 37 % 101) / 64.0f - 0.75f;

  const int batches[] = {ROWS - 13, 13};  // rows of each batch: any number
  int first = 0;
  for (int batch = 0; batch < 2; ++batch) {
    const int rows = batches[batch];
    float *in = x + first * INPUTS, *out = y + first * OUTPUTS;
    Matrix input = {in, in, 0, {rows, INPUTS}, {INPUTS, 1}};
    Matrix output = {out, out, 0, {rows, OUTPUTS}, {OUTPUTS, 1}};
    _mlir_ciface_mlp(&input, &output);
    first += rows;
  }

  int wrong = 0;
  for (int i = 0; i < ROWS * OUTPUTS; ++i)
    if (!(fabsf(y[i] - expected[i]) <= 1e-5f)) ++wrong;  // a NaN is wrong, too
  printf("mlp: %s (%d rows, %d wrong numbers)\n", wrong ? "WRONG" : "OK", ROWS, wrong);
  return wrong != 0;
}
