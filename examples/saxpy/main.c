// Calls the MLIR function @saxpy on a million elements and checks every one of them.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// How MLIR passes a memref<?xf32>: see "C-compatible wrapper emission" in MLIR's documentation.
typedef struct {
  float *allocated;
  float *aligned;
  intptr_t offset;
  intptr_t size;
  intptr_t stride;
} Vector;

void _mlir_ciface_saxpy(float a, Vector *x, Vector *y);

static Vector make_vector(intptr_t size) {
  float *data = malloc((size_t)size * sizeof(float));
  if (!data) {
    perror("saxpy");
    exit(1);
  }
  return (Vector){data, data, 0, size, 1};
}

int main(void) {
  const intptr_t n = 1 << 20;
  const float a = 2.0f;
  Vector x = make_vector(n), y = make_vector(n);
  // Small whole numbers: the right result is exact on every device.
  for (intptr_t i = 0; i < n; ++i) {
    x.aligned[i] = (float)(i % 1000);
    y.aligned[i] = (float)(i % 7);
  }

  _mlir_ciface_saxpy(a, &x, &y);

  float max_error = 0;
  for (intptr_t i = 0; i < n; ++i) {
    float expected = a * (float)(i % 1000) + (float)(i % 7);
    float error = fabsf(y.aligned[i] - expected);
    if (isnan(error) || error > max_error) max_error = error;
  }
  printf("saxpy: %s (n = %ld, max error %g)\n", max_error == 0 ? "OK" : "WRONG", (long)n,
         (double)max_error);
  free(x.allocated);
  free(y.allocated);
  return max_error == 0 ? 0 : 1;
}
