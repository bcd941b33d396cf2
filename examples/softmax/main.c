// Takes the softmax of each row on the device and compares it with the C library's exp.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// How MLIR passes a memref<?x?xf32>.
typedef struct {
  float *allocated;
  float *aligned;
  intptr_t offset;
  intptr_t sizes[2];
  intptr_t strides[2];
} Matrix;

void _mlir_ciface_softmax(Matrix *input, Matrix *output);

static Matrix make_matrix(intptr_t rows, intptr_t columns) {
  float *data = malloc((size_t)(rows * columns) * sizeof(float));
  if (!data) {
    perror("softmax");
    exit(1);
  }
  return (Matrix){data, data, 0, {rows, columns}, {columns, 1}};
}

int main(void) {
  const intptr_t rows = 64, columns = 1000;
  const double tolerance = 1e-5;  // relative; exp differs in its last bits between devices
  Matrix input = make_matrix(rows, columns), output = make_matrix(rows, columns);
  for (intptr_t i = 0; i < rows * columns; ++i)
    input.aligned[i] = (float)((i * 37) % 1009) / 64.0f - 8.0f;

  _mlir_ciface_softmax(&input, &output);

  long wrong = 0;
  for (intptr_t i = 0; i < rows; ++i) {
    const float *x = input.aligned + i * columns, *p = output.aligned + i * columns;
    double max = x[0], sum = 0;
    for (intptr_t j = 0; j < columns; ++j) max = fmax(max, x[j]);
    for (intptr_t j = 0; j < columns; ++j) sum += exp(x[j] - max);
    for (intptr_t j = 0; j < columns; ++j) {
      double expected = exp(x[j] - max) / sum;
      if (!(fabs(p[j] - expected) <= tolerance * expected)) ++wrong;  // a NaN is wrong, too
    }
  }
  printf("softmax: %s (%ld rows of %ld, %ld elements off by more than %g)\n",
         wrong ? "WRONG" : "OK", (long)rows, (long)columns, wrong, tolerance);
  free(input.allocated);
  free(output.allocated);
  return wrong ? 1 : 0;
}
