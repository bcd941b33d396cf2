// The kernels of kernels.mlir in CUDA C++, statement for statement; sizes are 64 bits wide, as index is.
// Reductions over a block are by shuffles, as people write them and as gpu.all_reduce is lowered.
typedef unsigned long long size;

__device__ size global_id() { return (size)blockIdx.x * blockDim.x + threadIdx.x; }

extern "C" __global__ void vecadd(const float *a, const float *b, float *c) {
    size i = global_id();
    c[i] = a[i] + b[i];
}

extern "C" __global__ void exp_(const float *a, float *b) {
    size i = global_id();
    b[i] = expf(a[i]);
}

extern "C" __global__ void matmul_naive(const float *a, const float *b, float *c, size n) {
    size col = global_id(), row = (size)blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0;
    for (size k = 0; k < n; k++) {
        sum += a[row * n + k] * b[k * n + col];
    }
    c[row * n + col] = sum;
}

extern "C" __global__ void matmul_tiled(const float *a, const float *b, float *c, size n) {
    __shared__ float sa[16][16], sb[16][16];
    size tx = threadIdx.x, ty = threadIdx.y, col = global_id(), row = (size)blockIdx.y * blockDim.y + ty;
    float sum = 0;
    for (size k = 0; k < n; k += 16) {
        sa[ty][tx] = a[row * n + k + tx];
        sb[ty][tx] = b[(k + ty) * n + col];
        __syncthreads();
        for (size j = 0; j < 16; j++) {
            sum += sa[ty][j] * sb[j][tx];
        }
        __syncthreads();
    }
    c[row * n + col] = sum;
}

extern "C" __global__ void reduce(const float *a, float *out) {
    __shared__ float s[256];
    size t = threadIdx.x;
    s[t] = a[global_id()];
    __syncthreads();
    for (size n = 128; n > 0; n >>= 1) {
        if (t < n) {
            s[t] += s[t + n];
        }
        __syncthreads();
    }
    if (t == 0) {
        out[blockIdx.x] = s[0];
    }
}

struct sum_of { __device__ float operator()(float x, float y) const { return x + y; } };
struct most_of { __device__ float operator()(float x, float y) const { return fmaxf(x, y); } };

template <typename Combine> __device__ float over_block(float value, float neutral, Combine combine) {
    __shared__ float parts[32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
    }
    if (lane == 0) {
        parts[warp] = value;
    }
    __syncthreads();
    value = lane < blockDim.x / 32 ? parts[lane] : neutral;
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
    }
    __syncthreads();
    return value;
}

extern "C" __global__ void all_reduce(const float *a, float *out) {
    float sum = over_block(a[global_id()], 0.0f, sum_of());
    if (threadIdx.x == 0) {
        out[blockIdx.x] = sum;
    }
}

extern "C" __global__ void softmax(const float *a, float *out, size n) {
    size row = blockIdx.x;
    float most = -INFINITY;
    for (size i = threadIdx.x; i < n; i += blockDim.x) {
        most = fmaxf(most, a[row * n + i]);
    }
    most = over_block(most, -INFINITY, most_of());
    float sum = 0;
    for (size i = threadIdx.x; i < n; i += blockDim.x) {
        float e = expf(a[row * n + i] - most);
        out[row * n + i] = e;
        sum += e;
    }
    sum = over_block(sum, 0.0f, sum_of());
    for (size i = threadIdx.x; i < n; i += blockDim.x) {
        out[row * n + i] /= sum;
    }
}

extern "C" __global__ void stencil(const float *a, float *out, size n) {
    size x = global_id() + 1, y = (size)blockIdx.y * blockDim.y + threadIdx.y + 1;
    size z = (size)blockIdx.z * blockDim.z + threadIdx.z + 1;
    if (x < n - 1 && y < n - 1 && z < n - 1) {
        size i = (z * n + y) * n + x;
        out[i] = 0.4f * a[i] +
                 0.1f * (a[i - 1] + a[i + 1] + a[i - n] + a[i + n] + a[i - n * n] + a[i + n * n]);
    }
}

extern "C" __global__ void histogram(const int *a, int *bins, size n) {
    __shared__ int s[256];
    size t = threadIdx.x;
    s[t] = 0;
    __syncthreads();
    for (size i = global_id(); i < n; i += (size)gridDim.x * blockDim.x) {
        atomicAdd(&s[a[i]], 1);
    }
    __syncthreads();
    atomicAdd(&bins[t], s[t]);
}

extern "C" __global__ void transpose(const float *a, float *out, size n) {
    __shared__ float s[32][33];
    size tx = threadIdx.x, ty = threadIdx.y, x0 = (size)blockIdx.x * 32, y0 = (size)blockIdx.y * 32;
    for (size j = 0; j < 32; j += 8) {
        s[ty + j][tx] = a[(y0 + ty + j) * n + x0 + tx];
    }
    __syncthreads();
    for (size j = 0; j < 32; j += 8) {
        out[(x0 + ty + j) * n + y0 + tx] = s[tx][ty + j];
    }
}
