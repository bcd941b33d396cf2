/* The problems of bench/cpu_kernels.py in C: as one writes it without a GPU in mind (plain_), and with the
 * work-items of kernels.mlir as inner loops (items_), which is what fission aims at. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TILE = 16, BLOCK = 256, BINS = 256, SQUARE = 32, LANES = 64 };

void plain_vecadd(const float *restrict a, const float *restrict b, float *restrict c, size_t n) {
    for (size_t i = 0; i < n; i++) {
        c[i] = a[i] + b[i];
    }
}

void plain_exp(const float *restrict a, float *restrict b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        b[i] = expf(a[i]);
    }
}

void plain_matmul_naive(const float *restrict a, const float *restrict b, float *restrict c, size_t n) {
    memset(c, 0, n * n * sizeof *c);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n; k++) {
            for (size_t j = 0; j < n; j++) {
                c[i * n + j] += a[i * n + k] * b[k * n + j];
            }
        }
    }
}

void plain_matmul_tiled(const float *restrict a, const float *restrict b, float *restrict c, size_t n) {
    plain_matmul_naive(a, b, c, n);
}

void items_matmul_tiled(const float *restrict a, const float *restrict b, float *restrict c, size_t n) {
    float sa[TILE][TILE], sb[TILE][TILE], sum[TILE][TILE];
    for (size_t by = 0; by < n; by += TILE) {
        for (size_t bx = 0; bx < n; bx += TILE) {
            memset(sum, 0, sizeof sum);
            for (size_t k = 0; k < n; k += TILE) {
                for (size_t y = 0; y < TILE; y++) {
                    for (size_t x = 0; x < TILE; x++) {
                        sa[y][x] = a[(by + y) * n + k + x];
                        sb[y][x] = b[(k + y) * n + bx + x];
                    }
                }
                for (size_t y = 0; y < TILE; y++) {
                    for (size_t j = 0; j < TILE; j++) {
                        for (size_t x = 0; x < TILE; x++) {
                            sum[y][x] += sa[y][j] * sb[j][x];
                        }
                    }
                }
            }
            for (size_t y = 0; y < TILE; y++) {
                for (size_t x = 0; x < TILE; x++) {
                    c[(by + y) * n + bx + x] = sum[y][x];
                }
            }
        }
    }
}

/* Sums need an order that vectorises: plain C without -ffast-math adds up one after the other. */
void plain_reduce(const float *restrict a, float *restrict out, size_t n) {
    for (size_t b = 0; b < n / BLOCK; b++) {
        float lanes[LANES] = {0};
        for (size_t i = 0; i < BLOCK; i += LANES) {
            for (size_t l = 0; l < LANES; l++) {
                lanes[l] += a[b * BLOCK + i + l];
            }
        }
        float sum = 0;
        for (size_t l = 0; l < LANES; l++) {
            sum += lanes[l];
        }
        out[b] = sum;
    }
}

static float tree(float *s) {
    for (size_t h = BLOCK / 2; h > 0; h /= 2) {
        for (size_t t = 0; t < h; t++) {
            s[t] += s[t + h];
        }
    }
    return s[0];
}

void items_reduce(const float *restrict a, float *restrict out, size_t n) {
    float s[BLOCK];
    for (size_t b = 0; b < n / BLOCK; b++) {
        for (size_t t = 0; t < BLOCK; t++) {
            s[t] = a[b * BLOCK + t];
        }
        out[b] = tree(s);
    }
}

void plain_softmax(const float *restrict a, float *restrict out, size_t n) {
    for (size_t r = 0; r < n; r++) {
        float max = -FLT_MAX, sum = 0;
        for (size_t i = 0; i < n; i++) {
            max = a[r * n + i] > max ? a[r * n + i] : max;
        }
        for (size_t i = 0; i < n; i++) {
            out[r * n + i] = expf(a[r * n + i] - max);
            sum += out[r * n + i];
        }
        for (size_t i = 0; i < n; i++) {
            out[r * n + i] /= sum;
        }
    }
}

void items_softmax(const float *restrict a, float *restrict out, size_t n) {
    float s[BLOCK];
    for (size_t r = 0; r < n; r++) {
        for (size_t t = 0; t < BLOCK; t++) {
            s[t] = -FLT_MAX;
        }
        for (size_t i = 0; i < n; i += BLOCK) {
            for (size_t t = 0; t < BLOCK; t++) {
                float v = a[r * n + i + t];
                s[t] = v > s[t] ? v : s[t];
            }
        }
        for (size_t h = BLOCK / 2; h > 0; h /= 2) {
            for (size_t t = 0; t < h; t++) {
                s[t] = s[t + h] > s[t] ? s[t + h] : s[t];
            }
        }
        float max = s[0];
        memset(s, 0, sizeof s);
        for (size_t i = 0; i < n; i += BLOCK) {
            for (size_t t = 0; t < BLOCK; t++) {
                float e = expf(a[r * n + i + t] - max);
                out[r * n + i + t] = e;
                s[t] += e;
            }
        }
        float sum = tree(s);
        for (size_t i = 0; i < n; i++) {
            out[r * n + i] /= sum;
        }
    }
}

void plain_stencil(const float *restrict a, float *restrict out, size_t n) {
    for (size_t z = 1; z < n - 1; z++) {
        for (size_t y = 1; y < n - 1; y++) {
            for (size_t x = 1; x < n - 1; x++) {
                size_t i = (z * n + y) * n + x;
                out[i] = 0.4f * a[i] +
                         0.1f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - n * n] + a[i + n * n]);
            }
        }
    }
}

void plain_histogram(const int32_t *restrict a, int32_t *restrict bins, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bins[a[i]]++;
    }
}

void items_histogram(const int32_t *restrict a, int32_t *restrict bins, size_t n) {
    enum { GROUPS = 1024 };
    int32_t s[BINS];
    for (size_t b = 0; b < GROUPS; b++) {
        memset(s, 0, sizeof s);
        for (size_t i = b * BLOCK; i < n; i += GROUPS * BLOCK) {
            for (size_t t = 0; t < BLOCK; t++) {
                s[a[i + t]]++;
            }
        }
        for (size_t t = 0; t < BLOCK; t++) {
            bins[t] += s[t];
        }
    }
}

void plain_transpose(const float *restrict a, float *restrict out, size_t n) {
    for (size_t by = 0; by < n; by += SQUARE) {
        for (size_t bx = 0; bx < n; bx += SQUARE) {
            for (size_t y = by; y < by + SQUARE; y++) {
                for (size_t x = bx; x < bx + SQUARE; x++) {
                    out[x * n + y] = a[y * n + x];
                }
            }
        }
    }
}

void items_transpose(const float *restrict a, float *restrict out, size_t n) {
    float s[SQUARE][SQUARE + 1];
    for (size_t by = 0; by < n; by += SQUARE) {
        for (size_t bx = 0; bx < n; bx += SQUARE) {
            for (size_t y = 0; y < SQUARE; y++) {
                for (size_t x = 0; x < SQUARE; x++) {
                    s[y][x] = a[(by + y) * n + bx + x];
                }
            }
            for (size_t y = 0; y < SQUARE; y++) {
                for (size_t x = 0; x < SQUARE; x++) {
                    out[(bx + y) * n + by + x] = s[x][y];
                }
            }
        }
    }
}
