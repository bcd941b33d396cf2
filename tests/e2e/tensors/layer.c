// Calls layer.mlir and compares with a plain loop.
#include <stdint.h>
#include <stdio.h>

typedef struct {
  float *allocated, *aligned;
  intptr_t offset, sizes[3], strides[3];
} Memref;

void _mlir_ciface_layer(Memref *, Memref *, Memref *);

int main(void) {
  const float w[3][2] = {{1, -1}, {2, 0.5f}, {0.25f, 3}}, b[2] = {0.5f, -2};
  float x[4][3], y[4][2], r[4];
  for (int i = 0; i < 12; ++i) x[i / 3][i % 3] = (float)(i * 5 % 7) - 3;
  Memref in = {x[0], x[0], 0, {1, 4, 3}, {12, 3, 1}}, out = {y[0], y[0], 0, {1, 4, 2}, {8, 2, 1}};
  Memref sums = {r, r, 0, {1, 4, 1}, {4, 1, 1}};
  _mlir_ciface_layer(&in, &out, &sums);
  int wrong = 0;
  for (int i = 0; i < 4; ++i) {
    float row = 0;
    for (int j = 0; j < 2; ++j) {
      float sum = b[j];
      for (int k = 0; k < 3; ++k) sum += x[i][k] * w[k][j];
      sum = sum > 0 ? sum : 0;
      wrong += y[i][j] != sum;
      row += sum;
    }
    wrong += r[i] != row;
  }
  puts(wrong ? "layer: WRONG" : "layer: OK");
  return wrong != 0;
}
