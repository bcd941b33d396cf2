/* Times launches of an empty kernel through the mgpu* ABI: launch IMAGE KERNEL COUNT.
 * Prints nanoseconds per launch: with a wait after each, submitted one after the other, and the same
 * from two host threads with a stream each. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void *mgpuModuleLoad(const void *data, size_t size);
void *mgpuModuleGetFunction(void *module, const char *name);
void mgpuLaunchKernel(void *kernel, intptr_t gx, intptr_t gy, intptr_t gz, intptr_t bx, intptr_t by, intptr_t bz,
                      int32_t shared_bytes, void *stream, void **params, void **extra, size_t count);
void *mgpuStreamCreate(void);
void mgpuStreamSynchronize(void *stream);

static void *kernel;
static long count;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void launch(void *stream, int blocks) {
    mgpuLaunchKernel(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, NULL, NULL, 0);
}

static double waited(void *stream, int blocks) {
    double start = now();
    for (long i = 0; i < count; i++) {
        launch(stream, blocks);
        mgpuStreamSynchronize(stream);
    }
    return (now() - start) / (double)count;
}

static void *host_thread(void *unused) {
    (void)unused;
    (void)waited(mgpuStreamCreate(), 1);
    return NULL;
}

int main(int argc, char **argv) {
    FILE *file = argc == 4 ? fopen(argv[1], "rb") : NULL;
    if (file == NULL) {
        return 2;
    }
    static char image[1 << 22];
    size_t size = fread(image, 1, sizeof image, file);
    kernel = mgpuModuleGetFunction(mgpuModuleLoad(image, size), argv[2]);
    count = atol(argv[3]);
    void *stream = mgpuStreamCreate();
    (void)waited(stream, 64);
    double one = waited(stream, 1), many = waited(stream, 64);
    double start = now();
    for (long i = 0; i < count; i++) {
        launch(stream, 1);
    }
    mgpuStreamSynchronize(stream);
    double queued = (now() - start) / (double)count;
    pthread_t threads[2];
    start = now();
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, host_thread, NULL);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    double both = (now() - start) / (2 * (double)count);
    printf("%.0f %.0f %.0f %.0f\n", one, many, queued, both);
    return 0;
}
