/* launch.c: launches: checks of the driver, and running a kernel. */
#define _GNU_SOURCE
#include "driver.h"

#include "core_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void nv_set_chip(uint32_t number);

enum { SHARED_BYTES = 49152, REGISTERS = 65536, UNTOUCHED = 1024, CHECKS_BETWEEN = 1 << 16, MOST_INSIDE = 16 };

struct launch {
    struct operation operation;
    const struct function *function;
    struct emu_launch what;
    void *arguments[MOST_PARAMETERS];
    char values[];
};

/* ---- checks of accesses ---- */

const struct memory *memory_for(const void *address, uint64_t bytes, const struct context *context, const char **why);

static struct running {
    const struct function *function;
    struct timespec began;
    int error;
    unsigned checks, inside; /* `inside`: the number of kernels that this one interrupts */
} running;

static double seconds_since(struct timespec began) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec);
}

/* Whether an address is on the stack of the running fiber. */
static bool is_private(const char *address) {
    const char *here = __builtin_frame_address(0);
    return address > here - 4096 && address < gb_fiber_stack_end(&emu.stacks, emu.self->flat);
}

static char *copy_of_shared(const struct emu_launch *launch, bool back, char *copy) {
    size_t bytes = launch->dynamic.bytes;
    for (uint32_t i = 0; i < launch->shared_count; i++) {
        bytes += launch->shared[i].bytes;
    }
    copy = copy != NULL ? copy : malloc(bytes + 1);
    char *at = copy;
    for (uint32_t i = 0; i <= launch->shared_count; i++) {
        const struct emu_memory *memory = i < launch->shared_count ? &launch->shared[i] : &launch->dynamic;
        if (memory->bytes > 0) {
            memcpy(back ? memory->address : at, back ? at : memory->address, memory->bytes);
            at += memory->bytes;
        }
    }
    return copy;
}

/* Do an operation of another stream between two instructions of a work-item. */
static void interrupt(void) {
    const struct running kernel = running;
    struct emu_state *outer = malloc(sizeof *outer);
    *outer = emu;
    char *shared = copy_of_shared(emu.launch, false, NULL);
    memset(&emu, 0, sizeof emu);
    running.inside++;
    int result = SUCCESS;
    bool done = do_another(&result);
    free(emu.items);
    gb_fiber_stacks_free(&emu.stacks);
    emu = *outer;
    running = kernel;
    free(outer);
    copy_of_shared(emu.launch, true, shared);
    free(shared);
    if (done && result != SUCCESS) {
        running.error = result;
        emu_fail("ends because another kernel failed");
    }
    nv_set_chip(running.function->module->text->chip);
    open_memory();
}

void cuda_check(const void *address, uint64_t bytes, uint32_t begins) {
    if (begins && ++running.checks % CHECKS_BETWEEN == 0) {
        if (seconds_since(running.began) > seconds_of_launch()) {
            running.error = LAUNCH_TIMEOUT;
            emu_fail("the kernel runs for more than %u seconds (EMU_CUDA_SECONDS)", seconds_of_launch());
        }
        if (running.inside < MOST_INSIDE) {
            interrupt();
        }
    }
    const char *why = NULL;
    if (memory_for(address, bytes, running.function->handle.context, &why) != NULL || is_private(address) ||
        module_at(address) != NULL) {
        return;
    }
    running.error = ILLEGAL_ADDRESS;
    emu_fail("reads or writes %llu bytes at %p, %s", (unsigned long long)bytes, address, why);
}

static void print_output(void) {
    char text[4096];
    size_t all;
    do {
        all = emu_take_output(text, sizeof text);
        fputs(text, stdout);
    } while (all >= sizeof text && (because(0, "%zu bytes of a kernel's output are lost", all + 1 - sizeof text), false));
}

int run_kernel(const struct function *function, const struct emu_launch *launch) {
    struct context *context = function->handle.context;
    running = (struct running){.function = function, .inside = running.inside};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &running.began);
    nv_set_chip(function->module->text->chip);
    open_memory();
    int failed = emu_run(launch);
    close_memory();
    print_output();
    if (!failed) {
        return SUCCESS;
    }
    const char *message = emu_message();
    bool asserted = strstr(message, "assertion failed") != NULL;
    context->error = running.error != SUCCESS ? running.error : asserted ? ASSERT : LAUNCH_FAILED;
    return because(context->error, "kernel %s: %s", function->text->name, message);
}

static int do_launch(struct operation *operation) {
    const struct launch *launch = (struct launch *)operation;
    return run_kernel(launch->function, &launch->what);
}

/* ---- checks of launches ---- */

static int refused(const struct function *function, int code, const char *why) {
    return because(code, "launch of %s: %s", function->text->name, why);
}

static int check(const struct function *function, const struct emu_launch *launch) {
    const struct kernel_text *text = function->text;
    const struct chip *chip = &function->handle.context->chip;
    uint64_t items = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
    for (int i = 0; i < 3; i++) {
        if (launch->grid[i] == 0 || launch->block[i] == 0 || launch->grid[i] > (i == 0 ? 2147483647u : 65535u) ||
            launch->block[i] > (i == 2 ? 64u : 1024u)) {
            return refused(function, INVALID_VALUE, "no grid or workgroup may have this size");
        }
        if (text->required[i] != 0 && launch->block[i] != text->required[i]) {
            return refused(function, INVALID_VALUE, "the kernel was compiled for workgroups of another size (.reqntid)");
        }
    }
    if (items > 1024) {
        return refused(function, INVALID_VALUE, "a workgroup has at most 1024 work-items");
    }
    if (text->most_items != 0 && items > text->most_items) {
        return refused(function, INVALID_VALUE, "the kernel was compiled for smaller workgroups (.maxntid)");
    }
    if (items * text->registers > REGISTERS) {
        return refused(function, LAUNCH_OUT_OF_RESOURCES, "too many registers for a workgroup of this size");
    }
    uint32_t most = function->most_dynamic != 0 ? function->most_dynamic : SHARED_BYTES - text->shared_bytes;
    if (launch->dynamic_bytes > most) {
        return refused(function, INVALID_VALUE, "more dynamic workgroup memory than the kernel is allowed");
    }
    uint64_t cluster = (uint64_t)launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    if (cluster != 1 && chip->major < 9) {
        return refused(function, INVALID_CLUSTER_SIZE, "the device has no clusters");
    }
    for (int i = 0; i < 3; i++) {
        if (launch->cluster[i] == 0 || launch->grid[i] % launch->cluster[i] != 0) {
            return refused(function, INVALID_CLUSTER_SIZE, "the grid has no whole clusters of this size");
        }
        if (text->cluster[i] != 0 && launch->cluster[i] != text->cluster[i]) {
            return refused(function, INVALID_CLUSTER_SIZE, "the kernel was compiled for other clusters (.reqnctapercluster)");
        }
    }
    if (cluster > 8 && !function->wide_clusters) {
        return refused(function, INVALID_CLUSTER_SIZE, "clusters of more than 8 workgroups need cuFuncSetAttribute");
    }
    return cluster > 16 ? refused(function, INVALID_CLUSTER_SIZE, "a cluster has at most 16 workgroups") : SUCCESS;
}

static int launch(struct function *function, const unsigned *grid, const unsigned *block, const unsigned *cluster,
                  unsigned dynamic_bytes, void *given_stream, void **params, void **extra) {
    CALL(context);
    struct stream *stream = stream_of(given_stream, context);
    if (stream == NULL || !is_handle(function, A_FUNCTION, context) ||
        function->module->handle.kind != A_MODULE) { /* unloaded */
        return INVALID_HANDLE;
    }
    const struct kernel_text *text = function->text;
    if (extra != NULL) {
        return refused(function, NOT_SUPPORTED, "parameters in `extra` are not supported here");
    }
    if (params == NULL && text->parameter_count > 0) {
        return refused(function, INVALID_VALUE, "the kernel has parameters, and none are passed");
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < text->parameter_count; i++) {
        bytes += (text->parameters[i] + 15u) / 16 * 16;
    }
    struct launch *made = calloc(1, sizeof *made + bytes);
    made->operation.act = do_launch;
    made->operation.context = context;
    made->function = function;
    made->what = (struct emu_launch){
        .kernel = text->run,
        .arguments = made->arguments,
        .grid = {grid[0], grid[1], grid[2]},
        .block = {block[0], block[1], block[2]},
        .cluster = {cluster[0], cluster[1], cluster[2]},
        .subgroup_size = 32,
        .backwards = backwards(),
        .dynamic_bytes = dynamic_bytes,
        .shared_count = text->shared_count,
        .shared = text->shared,
    };
    int result = check(function, &made->what);
    if (result != SUCCESS) {
        free(made);
        return result;
    }
    if (text->uses_dynamic) {
        made->what.dynamic = (struct emu_memory){.address = function->module->text->dynamic,
                                                 .bytes = (uint64_t)dynamic_bytes + UNTOUCHED};
    }
    char *at = made->values;
    for (uint32_t i = 0; i < text->parameter_count; i++) {
        memcpy(at, params[i], text->parameters[i]);
        made->arguments[i] = at;
        at += (text->parameters[i] + 15u) / 16 * 16;
    }
    return issue(stream, &made->operation);
}

/* ---- the API ---- */

int cuLaunchKernel(struct function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned dynamic_bytes, void *stream, void **params, void **extra) {
    const unsigned grid[] = {grid_x, grid_y, grid_z}, block[] = {block_x, block_y, block_z};
    unsigned cluster[] = {1, 1, 1};
    for (int i = 0; i < 3 && is_handle(function, A_FUNCTION, NULL); i++) {
        cluster[i] = function->text->cluster[i] != 0 ? function->text->cluster[i] : 1;
    }
    return launch(function, grid, block, cluster, dynamic_bytes, stream, params, extra);
}

struct attribute {
    int id, padding;
    unsigned value[16];
};

struct config {
    unsigned grid[3], block[3], dynamic_bytes;
    void *stream;
    const struct attribute *attributes;
    unsigned count;
};

_Static_assert(sizeof(struct attribute) == 72 && sizeof(struct config) == 56, "layout of CUlaunchConfig");

int cuLaunchKernelEx(const struct config *config, struct function *function, void **params, void **extra) {
    enum { CLUSTER_DIMENSION = 4, CLUSTER_SCHEDULING = 5 };
    unsigned cluster[] = {1, 1, 1};
    for (unsigned i = 0; i < config->count; i++) {
        const struct attribute *attribute = &config->attributes[i];
        if (attribute->id == CLUSTER_DIMENSION) {
            memcpy(cluster, attribute->value, sizeof cluster);
        } else if (attribute->id != CLUSTER_SCHEDULING) {
            return because(NOT_SUPPORTED, "launch attribute %d is not supported here", attribute->id);
        }
    }
    return launch(function, config->grid, config->block, cluster, config->dynamic_bytes, config->stream, params, extra);
}

int cuFuncGetAttribute(int *value, int attribute, struct function *function) {
    enum { SHARED = 1 };
    CALL(context);
    if (!is_handle(function, A_FUNCTION, context)) {
        return INVALID_HANDLE;
    }
    *value = (int)function->text->shared_bytes;
    return attribute == SHARED ? SUCCESS : INVALID_VALUE;
}

int cuFuncSetAttribute(struct function *function, int attribute, int value) {
    enum { MAX_DYNAMIC_SHARED = 8, NON_PORTABLE_CLUSTER = 14 };
    CALL(context);
    if (!is_handle(function, A_FUNCTION, context)) {
        return INVALID_HANDLE;
    }
    switch (attribute) {
    case MAX_DYNAMIC_SHARED:
        if (value < 0 || (uint32_t)value + function->text->shared_bytes > (uint32_t)context->chip.shared_optin) {
            return because(INVALID_VALUE, "kernel %s has %u bytes of workgroup memory of its own; with %d more it is more than %d",
                           function->text->name, function->text->shared_bytes, value, context->chip.shared_optin);
        }
        function->most_dynamic = (uint32_t)value;
        return SUCCESS;
    case NON_PORTABLE_CLUSTER:
        function->wide_clusters = value != 0;
        return context->chip.major >= 9 ? SUCCESS : NOT_SUPPORTED;
    default: return INVALID_VALUE;
    }
}
