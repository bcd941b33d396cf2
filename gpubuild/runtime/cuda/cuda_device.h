/* cuda_device.h: what the two halves of the CUDA back end share. */
#ifndef GPUBUILD_RT_DEVICE_CUDA_H
#define GPUBUILD_RT_DEVICE_CUDA_H

#include "cuda/cuda_api.h"
#include "core/device.h"

#include <pthread.h>

struct gb_cuda_device {
    struct gb_device base;
    gb_cu_device handle;
    int major, minor;     /* compute capability */
    pthread_mutex_t lock; /* guards the context and what the driver was told to allow kernels */
    void *context;        /* retained at the first operation, kept until the process ends */
};

extern struct gb_cuda_api gb_cuda; /* complete once gb_cuda_open has succeeded */
extern const struct gb_device_calls gb_cuda_calls;

const char *gb_cuda_error_name(gb_cu_result result);
const char *gb_cuda_error_text(gb_cu_result result);

#endif
