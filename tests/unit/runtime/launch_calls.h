/* What programs of these tests call, and how they load launch_kernels.c. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void *mgpuModuleLoad(const void *data, size_t size);
void mgpuModuleUnload(void *module);
void *mgpuModuleGetFunction(void *module, const char *name);
void mgpuLaunchKernel(void *kernel, intptr_t gx, intptr_t gy, intptr_t gz, intptr_t bx, intptr_t by, intptr_t bz,
                      int32_t shared_bytes, void *stream, void **params, void **extra, size_t count);
void *mgpuStreamCreate(void);
void mgpuStreamDestroy(void *stream);
void mgpuStreamSynchronize(void *stream);
void mgpuStreamWaitEvent(void *stream, void *event);
void *mgpuEventCreate(void);
void mgpuEventDestroy(void *event);
void mgpuEventSynchronize(void *event);
void mgpuEventRecord(void *event, void *stream);
void mgpuMemcpy(void *to, void *from, size_t bytes, void *stream);
void mlirAsyncRuntimeExecute(void *handle, void (*resume)(void *handle));

static void *load(const char *path) {
    static char image[1 << 20];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        exit(99);
    }
    size_t size = fread(image, 1, sizeof image, file);
    fclose(file);
    return mgpuModuleLoad(image, size);
}

/* One of the kernels (i64, ptr). */
static void launch(void *kernel, void *stream, intptr_t grid, intptr_t block, int64_t a, void *x) {
    void *params[] = {&a, &x};
    mgpuLaunchKernel(kernel, grid, 1, 1, block, 1, 1, 0, stream, params, NULL, 2);
    a = 0;
    x = NULL;
}
