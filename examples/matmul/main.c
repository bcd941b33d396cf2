// Multiplies two matrices on the device and checks the product against a plain triple loop.
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

void _mlir_ciface_matmul(Matrix *a, Matrix *b, Matrix *c);

static Matrix make_matrix(intptr_t rows, intptr_t columns) {
  float *data = malloc((size_t)(rows * columns) * sizeof(float));
  if (!data) {
    perror("matmul");
    exit(1);
  }
  return (Matrix){data, data, 0, {rows, columns}, {columns, 1}};
}

int main(void) {
  const intptr_t m = 200, k = 150, n = 170;  // no multiples of the tile
  Matrix a = make_matrix(m, k), b = make_matrix(k, n), c = make_matrix(m, n);
  // Small whole numbers: every partial sum is exact, in whatever order it is taken.
  for (intptr_t i = 0; i < m * k; ++i) a.aligned[i] = (float)(i % 11 - 5);
  for (intptr_t i = 0; i < k * n; ++i) b.aligned[i] = (float)(i % 13 - 6);

  _mlir_ciface_matmul(&a, &b, &c);

  long wrong = 0;
  for (intptr_t i = 0; i < m; ++i)
    for (intptr_t j = 0; j < n; ++j) {
      float expected = 0;
      for (intptr_t l = 0; l < k; ++l) expected += a.aligned[i * k + l] * b.aligned[l * n + j];
      if (c.aligned[i * n + j] != expected) ++wrong;
    }
  printf("matmul: %s (%ld x %ld x %ld, %ld wrong elements)\n", wrong ? "WRONG" : "OK", (long)m,
         (long)k, (long)n, wrong);
  free(a.allocated);
  free(b.allocated);
  free(c.allocated);
  return wrong ? 1 : 0;
}
