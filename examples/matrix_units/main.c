// Multiplies two matrices with matrix units and checks the product against a plain triple loop.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { M = 256, K = 128, N = 192 };  // as in matrix_units.mlir

// How MLIR passes a two-dimensional memref of f32.
typedef struct {
  float *allocated;
  float *aligned;
  intptr_t offset;
  intptr_t sizes[2];
  intptr_t strides[2];
} Matrix;

void _mlir_ciface_multiply(Matrix *a, Matrix *b, Matrix *c);

static float a[M * K], b[K * N], c[M * N];

static Matrix matrix(float *data, intptr_t rows, intptr_t columns) {
  return (Matrix){data, data, 0, {rows, columns}, {columns, 1}};
}

int main(void) {
  // Small whole numbers: f16 holds them, and every partial sum is exact, in whatever order it is taken.
  for (int i = 0; i < M * K; ++i) a[i] = (float)(i % 11 - 5);
  for (int i = 0; i < K * N; ++i) b[i] = (float)(i % 13 - 6);
  Matrix left = matrix(a, M, K), right = matrix(b, K, N), product = matrix(c, M, N);

  _mlir_ciface_multiply(&left, &right, &product);

  long wrong = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float expected = 0;
      for (int l = 0; l < K; ++l) expected += a[i * K + l] * b[l * N + j];
      if (c[i * N + j] != expected) ++wrong;
    }
  printf("matrix_units: %s (%d x %d x %d, %ld wrong elements)\n", wrong ? "WRONG" : "OK", M, K, N, wrong);
  return wrong ? 1 : 0;
}
