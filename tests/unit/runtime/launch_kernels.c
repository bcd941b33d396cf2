/* A CPU image for launches.c, openmp.c and unloaded_library.c. */
#include "kernels.h"

gb_cpu_image gpubuild_cpu_image;

/* count(ptr {running, most, done}): how many threads are in it at once, and how often it has run. */
KERNEL(count) {
    int64_t *counts = *(int64_t **)launch->params[0];
    int64_t running = __atomic_add_fetch(&counts[0], 1, __ATOMIC_SEQ_CST);
    int64_t most = __atomic_load_n(&counts[1], __ATOMIC_SEQ_CST);
    while (most < running && !__atomic_compare_exchange_n(&counts[1], &most, running, 0, __ATOMIC_SEQ_CST,
                                                          __ATOMIC_SEQ_CST)) {
    }
    for (volatile int i = 0; i < 10000; i++) {
    }
    __atomic_add_fetch(&counts[2], (int64_t)(last - first), __ATOMIC_SEQ_CST);
    __atomic_sub_fetch(&counts[0], 1, __ATOMIC_SEQ_CST);
}

/* add(i64 a, ptr x): x[workgroup] += a, through the workgroup's own memory and context arrays. */
KERNEL(add) {
    int64_t a = *(int64_t *)launch->params[0], *x = *(int64_t **)launch->params[1];
    for (uint64_t block = first; block < last; block++) {
        int64_t *own = (int64_t *)shared, *context = (int64_t *)contexts;
        own[127] = a;
        context[4095] = x[block % 4096];
        x[block % 4096] = own[127] + context[4095];
    }
}

/* wait(i64 a, ptr x): as add, with a barrier on which work-items wait as fibers. */
static void wait(void **params, gb_cpu_item *item) {
    int64_t a = *(int64_t *)params[0], *x = *(int64_t **)params[1];
    ((char *)item->shared)[item->linear_id] = 1;
    gpubuild_cpu_image.services->barrier(item, 0);
    if (item->linear_id == 0) {
        int64_t arrived = 0;
        for (uint32_t i = 0; i < item->block_dim[0]; i++) {
            arrived += item->shared[i];
        }
        x[item->block_id[0] % 4096] += arrived == item->block_dim[0] ? a : 0;
    }
}

/* hold(ptr {begun, end}): does not return before another thread says so. */
KERNEL(hold) {
    int64_t *flags = *(int64_t **)launch->params[0];
    __atomic_store_n(&flags[0], 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&flags[1], __ATOMIC_SEQ_CST) == 0) {
    }
}

/* last(ptr {done, together}): the first workgroup, and those that a thread takes with it, end when all others have. */
KERNEL(last) {
    int64_t *done = *(int64_t **)launch->params[0], all = launch->grid_dim[0], mine = (int64_t)(last - first);
    if (first == 0) {
        done[1] = mine;
    }
    while (first == 0 && __atomic_load_n(done, __ATOMIC_SEQ_CST) < all - mine) {
    }
    __atomic_add_fetch(done, mine, __ATOMIC_SEQ_CST);
}

static const uint64_t bytes[] = {8, 8};
static const gb_cpu_kernel kernels[] = {
    {.name = "count", .run = count, .param_count = 1, .param_bytes = bytes},
    {.name = "add", .run = add, .param_count = 2, .param_bytes = bytes, .shared_bytes = 1024, .context_bytes = 32768},
    {.name = "wait", .item = wait, .tier = GB_CPU_TIER_FIBERS, .param_count = 2, .param_bytes = bytes,
     .shared_bytes = 1024},
    {.name = "hold", .run = hold, .param_count = 1, .param_bytes = bytes},
    {.name = "hold checked", .run = hold, .param_count = 1, .param_bytes = bytes, .flags = GB_CPU_KERNEL_CHECK_RACE},
    {.name = "last", .run = last, .param_count = 1, .param_bytes = bytes},
};
IMAGE(kernels)
