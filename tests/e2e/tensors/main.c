// Calls the functions of mix.mlir and prints what is wrong.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  void *allocated, *aligned;
  intptr_t offset, sizes_and_strides[8];
} Memref;

void _mlir_ciface_sum_of_squares(Memref *, Memref *);
void _mlir_ciface_iterate(Memref *, intptr_t, Memref *);
void _mlir_ciface_parts(Memref *, Memref *);
void _mlir_ciface_two(Memref *, Memref *, Memref *);
void _mlir_ciface_batch(Memref *, Memref *);

void _mlir_ciface_power(Memref *, intptr_t, Memref *);
float _mlir_ciface_double_state(intptr_t);
void _mlir_ciface_one_of(Memref *, Memref *, _Bool, _Bool);
void _mlir_ciface_increment(Memref *);

static int wrong;

static void check(const char *what, double got, double expected) {
  if (!(fabs(got - expected) <= 1e-4 * fmax(1, fabs(expected)))) {
    printf("%s: %g instead of %g\n", what, got, expected);
    ++wrong;
  }
}

static Memref memref(void *data, int rank, const intptr_t *sizes) {
  Memref m = {data, data, 0, {0}};
  intptr_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    m.sizes_and_strides[i] = sizes[i];
    m.sizes_and_strides[rank + i] = stride;
    stride *= sizes[i];
  }
  return m;
}
#define MEMREF(data, rank, ...) memref(data, rank, (const intptr_t[]){__VA_ARGS__})

static void sum_of_squares(intptr_t n) {
  float x[1000], sum = -1;
  double expected = 0;
  for (int i = 0; i < n; ++i) expected += (x[i] = (float)(i % 7)) * x[i];
  Memref in = MEMREF(x, 1, n), out = {&sum, &sum, 0, {0}};
  _mlir_ciface_sum_of_squares(&in, &out);
  check("sum of squares", sum, expected);
}

static void iterate(intptr_t n, float start) {
  float x[300], y[300], t[300], before[300];
  for (int i = 0; i < n; ++i) before[i] = x[i] = t[i] = start + (float)i / 100;
  Memref in = MEMREF(x, 1, n), out = MEMREF(y, 1, n);
  _mlir_ciface_iterate(&in, 5, &out);
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < n; ++i) t[i] = t[i] * 0.5f + x[i];
    float first = t[0];
    if (first > 0.5f)
      for (int i = 0; i < n; ++i) t[i] = t[i] * first + x[i];
    else
      t[0] = 0.5f;
  }
  for (int i = 0; i < n; ++i) check("iterate", y[i], t[i]);
  check("iterate keeps its argument", memcmp(x, before, sizeof(float) * (size_t)n), 0);
}

static void parts(void) {
  int x[6][8], w[6][8], before[6][8], y[8][10];
  for (int i = 0; i < 48; ++i) before[i / 8][i % 8] = w[i / 8][i % 8] = x[i / 8][i % 8] = i * i % 31;
  Memref in = MEMREF(x, 2, 6, 8), out = MEMREF(y, 2, 8, 10);
  _mlir_ciface_parts(&in, &out);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 8; ++j) w[2 + i][j] = x[i][j] + x[1 + 2 * i][j];
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 10; ++j) check("parts", y[i][j], j >= 1 && j < 7 ? w[j - 1][i] : 7);
  check("parts keeps its argument", memcmp(x, before, sizeof x), 0);
}

static void two(void) {
  float x[24], y[24], z[24];
  for (int i = 0; i < 24; ++i) x[i] = (float)i / 8;
  Memref in = MEMREF(x, 2, 4, 6), first = MEMREF(y, 1, 24), second = MEMREF(z, 2, 4, 6);
  _mlir_ciface_two(&in, &first, &second);
  for (int i = 0; i < 24; ++i) check("exp", y[i], exp(x[i])), check("the argument", z[i], x[i]);
}

static void batch(void) {
  float x[210], y[30];
  for (int i = 0; i < 210; ++i) x[i] = (float)(i % 13);
  Memref in = MEMREF(x, 4, 2, 3, 5, 7), out = MEMREF(y, 3, 2, 3, 5);
  _mlir_ciface_batch(&in, &out);
  for (int i = 0; i < 30; ++i) {
    double sum = 0;
    for (int j = 0; j < 7; ++j) sum += x[7 * i + j];
    check("batch", y[i], sum);
  }
}

static void power(void) {
  float x[16] = {1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1}, y[16];
  const double expected[4] = {1, 5, 10, 10};  // binomial coefficients
  Memref in = MEMREF(x, 2, 4, 4), out = MEMREF(y, 2, 4, 4);
  _mlir_ciface_power(&in, 4, &out);
  for (int i = 0; i < 4; ++i) check("power", y[i], expected[i]);
  _mlir_ciface_power(&in, 0, &out);
  for (int i = 0; i < 16; ++i) check("power of one", y[i], x[i]);
}

static void unknown_memory(void) {
  check("variable", _mlir_ciface_double_state(3), 8);
  check("variable", _mlir_ciface_double_state(1), 16);
  for (int first = 0; first < 2; ++first) {
    float a[40], b[40];
    for (int i = 0; i < 40; ++i) a[i] = (float)i, b[i] = (float)(100 + i);
    Memref x = {a, a, 1, {13, 3}}, y = {b, b, 2, {13, 2}};
    _mlir_ciface_one_of(&x, &y, first, 1);
    _mlir_ciface_one_of(&x, &y, first, 0);
    for (int i = 0; i < 13; ++i) {
      float u = (float)(1 + 3 * i), v = (float)(102 + 2 * i);
      if (first) u *= 2; else v *= 2;
      check("one of two", a[1 + 3 * i], u), check("one of two", b[2 + 2 * i], u + v);
    }
    check("a gap", a[2], 2), check("a gap", b[3], 103);
  }
  float x[5] = {1, 2, 3, 4, 5};
  Memref whole = MEMREF(x, 1, 5);
  _mlir_ciface_increment(&whole);
  for (int i = 0; i < 5; ++i) check("increment", x[i], i + 2);
}

int main(void) {
  sum_of_squares(1000);
  sum_of_squares(0);
  iterate(300, 0.0f);
  iterate(300, 0.75f);
  iterate(1, 0.3f);
  parts();
  two();
  batch();
  power();
  unknown_memory();
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
