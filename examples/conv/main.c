// Computes a layer for some images on the device and compares it with NumPy's numbers.
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "expected.h"

enum { SIDE = 14, COLOURS = 3, RESULT_SIDE = 6, CHANNELS = 8 };

// How MLIR passes a memref of four dimensions.
typedef struct {
  float *allocated;
  float *aligned;
  intptr_t offset;
  intptr_t sizes[4];
  intptr_t strides[4];
} Images;

// The function's result is an argument behind the others, which the caller allocates.
void _mlir_ciface_conv(Images *x, Images *y);

static Images images(float *data, intptr_t side, intptr_t channels) {
  return (Images){data, data, 0, {IMAGES, side, side, channels},
                  {side * side * channels, side * channels, channels, 1}};
}

int main(void) {
  static float x[IMAGES * SIDE * SIDE * COLOURS], y[IMAGES * RESULT_SIDE * RESULT_SIDE * CHANNELS];
  const int inputs = sizeof x / sizeof *x, outputs = sizeof y / sizeof *y;
  for (int i = 0; i < inputs; ++i) x[i] = (float)(i * 37 % 101) / 64.0f - 0.75f;

  Images input = images(x, SIDE, COLOURS), output = images(y, RESULT_SIDE, CHANNELS);
  _mlir_ciface_conv(&input, &output);

  int wrong = 0;
  for (int i = 0; i < outputs; ++i)
    if (!(fabsf(y[i] - expected[i]) <= 1e-5f)) ++wrong;  // a NaN is wrong, too
  printf("conv: %s (%d images, %d wrong numbers)\n", wrong ? "WRONG" : "OK", IMAGES, wrong);
  return wrong != 0;
}
