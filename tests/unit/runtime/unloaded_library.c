/* A library as MLIR's host code makes one: constructors load its module, destructors unload it. */
#include "launch_calls.h"

enum { WORKGROUPS = 64 };

static void *module;
static int64_t counts[3];

__attribute__((constructor(123))) static void begin(void) {
    module = load(getenv("IMAGE"));
}

__attribute__((destructor(123))) static void end(void) {
    mgpuModuleUnload(module);
}

/* Whether a launch did what it should. */
int call(void);
int call(void) {
    void *stream = mgpuStreamCreate();
    void *kernel = mgpuModuleGetFunction(module, "add");
    int64_t sums[WORKGROUPS] = {0};
    launch(kernel, stream, WORKGROUPS, 1, 3, sums);
    mgpuStreamSynchronize(stream);
    mgpuStreamDestroy(stream);
    return sums[WORKGROUPS - 1] == 3;
}

/* A launch that nobody waits for. */
int start(void);
int start(void) {
    void *stream = mgpuStreamCreate();
    void *params[] = {&(void *){counts}};
    mgpuLaunchKernel(mgpuModuleGetFunction(module, "count"), 4096, 1, 1, 1, 1, 1, 0, stream, params, NULL, 1);
    return 1;
}

static void resume(void *handle) {
    __atomic_store_n((int *)handle, 1, __ATOMIC_SEQ_CST);
}

/* A task of the async dialect, which needs no device. */
int task(void);
int task(void) {
    static int done;
    mlirAsyncRuntimeExecute(&done, resume);
    while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
    }
    return 1;
}
