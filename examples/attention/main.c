// Computes attention for a sequence on the device and compares it with NumPy's numbers.
#include <math.h>
#include <stdint.h>
#include <stdio.h>

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
void _mlir_ciface_attention(Matrix *x, Matrix *y);

int main(void) {
  static float x[LENGTH * INPUTS], y[LENGTH * HEAD];
  for (int i = 0; i < LENGTH * INPUTS; ++i) x[i] = (float)(i * 37 % 101) / 64.0f - 0.75f;

  Matrix input = {x, x, 0, {LENGTH, INPUTS}, {INPUTS, 1}};
  Matrix output = {y, y, 0, {LENGTH, HEAD}, {HEAD, 1}};
  _mlir_ciface_attention(&input, &output);

  int wrong = 0;
  for (int i = 0; i < LENGTH * HEAD; ++i)
    if (!(fabsf(y[i] - expected[i]) <= 1e-5f)) ++wrong;  // a NaN is wrong, too
  printf("attention: %s (%d positions, %d wrong numbers)\n", wrong ? "WRONG" : "OK", LENGTH, wrong);
  return wrong != 0;
}
