// Calls branches.mlir with small integers and compares with plain loops.
#include <stdint.h>
#include <stdio.h>

enum { ROWS = 9 };

typedef struct {
  float *allocated, *aligned;
  intptr_t offset, sizes[2], strides[2];
} Matrix;

void _mlir_ciface_product(Matrix *, Matrix *, Matrix *, Matrix *, Matrix *, Matrix *);

static Matrix matrix(float *data, int rows, int columns) {
  return (Matrix){data, data, 0, {rows, columns}, {columns, 1}};
}

static void multiply(const float *a, const float *b, float *c, int n, int k, int m) {
  for (int i = 0; i < n * m; ++i) {
    c[i] = 0;
    for (int j = 0; j < k; ++j) c[i] += a[i / m * k + j] * b[j * m + i % m];
  }
}

int main(void) {
  float a[ROWS * 5], b[5 * 6], c[6 * 7], d[7 * 3], all[ROWS * 3], right[6 * 3];
  float left[ROWS * 6], expected_right[6 * 3], expected[ROWS * 3];
  float *inputs[] = {a, b, c, d};
  const int counts[] = {ROWS * 5, 30, 42, 21};
  for (int n = 0; n < 4; ++n)
    for (int i = 0; i < counts[n]; ++i) inputs[n][i] = (float)((i * 7 + n) % 11) - 5;
  multiply(a, b, left, ROWS, 5, 6);
  multiply(c, d, expected_right, 6, 7, 3);
  multiply(left, expected_right, expected, ROWS, 6, 3);
  int wrong = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < ROWS * 3; ++i) all[i] = -1;
    for (int i = 0; i < 6 * 3; ++i) right[i] = -1;
    Matrix in[] = {matrix(a, ROWS, 5), matrix(b, 5, 6), matrix(c, 6, 7), matrix(d, 7, 3)};
    Matrix out[] = {matrix(all, ROWS, 3), matrix(right, 6, 3)};
    _mlir_ciface_product(&in[0], &in[1], &in[2], &in[3], &out[0], &out[1]);
    for (int i = 0; i < ROWS * 3; ++i) wrong += all[i] != expected[i];
    for (int i = 0; i < 6 * 3; ++i) wrong += right[i] != expected_right[i];
  }
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
