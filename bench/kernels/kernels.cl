// The kernels of kernels.mlir in OpenCL C, statement for statement.
kernel void vecadd(global const float *a, global const float *b, global float *c) {
    size_t i = get_global_id(0);
    c[i] = a[i] + b[i];
}

kernel void exp_(global const float *a, global float *b) {
    size_t i = get_global_id(0);
    b[i] = exp(a[i]);
}

kernel void matmul_naive(global const float *a, global const float *b, global float *c, ulong n) {
    size_t col = get_global_id(0), row = get_global_id(1);
    float sum = 0;
    for (size_t k = 0; k < n; k++) {
        sum += a[row * n + k] * b[k * n + col];
    }
    c[row * n + col] = sum;
}

kernel void matmul_tiled(global const float *a, global const float *b, global float *c, ulong n) {
    local float sa[16][16], sb[16][16];
    size_t tx = get_local_id(0), ty = get_local_id(1), col = get_global_id(0), row = get_global_id(1);
    float sum = 0;
    for (size_t k = 0; k < n; k += 16) {
        sa[ty][tx] = a[row * n + k + tx];
        sb[ty][tx] = b[(k + ty) * n + col];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (size_t j = 0; j < 16; j++) {
            sum += sa[ty][j] * sb[j][tx];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + col] = sum;
}

kernel void reduce(global const float *a, global float *out) {
    local float s[256];
    size_t t = get_local_id(0);
    s[t] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t n = 128; n > 0; n >>= 1) {
        if (t < n) {
            s[t] += s[t + n];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0) {
        out[get_group_id(0)] = s[0];
    }
}

// OpenCL C 1.2 has no reduction over a workgroup: the tree stands in for it.
float best(local float *s, float v) {
    size_t t = get_local_id(0);
    s[t] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t n = 128; n > 0; n >>= 1) {
        if (t < n) {
            s[t] = fmax(s[t], s[t + n]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float result = s[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

float total(local float *s, float v) {
    size_t t = get_local_id(0);
    s[t] = v;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t n = 128; n > 0; n >>= 1) {
        if (t < n) {
            s[t] += s[t + n];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float result = s[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return result;
}

kernel void softmax(global const float *a, global float *out, ulong n) {
    local float s[256];
    size_t row = get_group_id(0), t = get_local_id(0);
    float m = -INFINITY;
    for (size_t i = t; i < n; i += 256) {
        m = fmax(m, a[row * n + i]);
    }
    m = best(s, m);
    float sum = 0;
    for (size_t i = t; i < n; i += 256) {
        float e = exp(a[row * n + i] - m);
        out[row * n + i] = e;
        sum += e;
    }
    sum = total(s, sum);
    for (size_t i = t; i < n; i += 256) {
        out[row * n + i] /= sum;
    }
}

kernel void stencil(global const float *a, global float *out, ulong n) {
    size_t x = get_global_id(0) + 1, y = get_global_id(1) + 1, z = get_global_id(2) + 1;
    if (x < n - 1 && y < n - 1 && z < n - 1) {
        size_t i = (z * n + y) * n + x;
        out[i] = 0.4f * a[i] +
                 0.1f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - n * n] + a[i + n * n]);
    }
}

kernel void histogram(global const int *a, global int *bins, ulong n) {
    local int s[256];
    size_t t = get_local_id(0);
    s[t] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t i = get_global_id(0); i < n; i += get_global_size(0)) {
        atomic_add(&s[a[i]], 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&bins[t], s[t]);
}

kernel void transpose(global const float *a, global float *out, ulong n) {
    local float s[32][33];
    size_t tx = get_local_id(0), ty = get_local_id(1), x0 = get_group_id(0) * 32, y0 = get_group_id(1) * 32;
    for (size_t j = 0; j < 32; j += 8) {
        s[ty + j][tx] = a[(y0 + ty + j) * n + x0 + tx];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (size_t j = 0; j < 32; j += 8) {
        out[(x0 + ty + j) * n + y0 + tx] = s[tx][ty + j];
    }
}
