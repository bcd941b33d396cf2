/* cpu_launch.c: kernel launches: checks, and the memory of workgroups.
 *
 * A launch is a job of the pool (cpu/cpu_pool.c). Each thread keeps its own memory for workgroups, which does not grow with
 * the grid. */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "cpu/cpu_device.h"
#include "sanitizer/sanitizer.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,
    SIGNAL_STACK_BYTES = 64 << 10,
    MAX_CLUSTER_BLOCKS = 16 /* as on GPUs */
};

struct launch {
    struct gb_cpu_job job; /* a task is a workgroup, or a cluster that must run together */
    gb_cpu_launch_info info;
    const struct gb_where *where; /* of the thread that launches */
    uint32_t task_blocks;
    bool fibers;
    bool checked; /* for any kind of error */
    size_t stride; /* bytes from one workgroup's memory to the next */
    size_t shared_bytes;
    size_t context_bytes; /* of the context arrays, behind the memory of the one workgroup that runs at a time */
    size_t stack_bytes; /* 0: the thread's own stack is large enough */
};

/* What a thread keeps from launch to launch. */
struct worker {
    char *memory;
    size_t bytes;
    struct gb_cpu_team *team;

    /* For kernels with more private memory than threads have stack. */
    struct gb_fiber_stacks stacks;
    struct gb_fiber thread, kernel;
    const struct launch *launch; /* of which `kernel` runs the workgroups [first, last) */
    uint64_t first, last;

    char *signal_stack; /* NULL: the thread had one already */
};

static pthread_key_t worker_key;
static _Thread_local const struct launch *running;

/* ---- one thread's work ---- */

static void free_worker(void *value) {
    struct worker *worker = value;
    if (worker->team != NULL) {
        gb_cpu_team_destroy(worker->team);
    }
    gb_fiber_stacks_free(&worker->stacks);
    if (worker->signal_stack != NULL) {
        sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
        free(worker->signal_stack);
    }
    free(worker->memory);
    free(worker);
}

/* For a kernel that has used up its own stack. */
static void set_signal_stack(struct worker *worker) {
    stack_t present;
    if (sigaltstack(NULL, &present) == 0 && (present.ss_flags & SS_DISABLE) != 0) {
        worker->signal_stack = gb_allocate(SIGNAL_STACK_BYTES);
        sigaltstack(&(stack_t){.ss_sp = worker->signal_stack, .ss_size = SIGNAL_STACK_BYTES}, NULL);
    }
}

static struct worker *this_worker(void) {
    struct worker *worker = pthread_getspecific(worker_key);
    if (worker == NULL) {
        worker = gb_allocate(sizeof *worker);
        set_signal_stack(worker);
        pthread_setspecific(worker_key, worker);
    }
    return worker;
}

static size_t rounded(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static char *workgroup_memory(struct worker *worker, size_t bytes) {
    if (bytes > worker->bytes) {
        free(worker->memory);
        worker->memory = aligned_alloc(ALIGNMENT, rounded(bytes));
        worker->bytes = bytes;
        if (worker->memory == NULL) {
            gb_fatal(NULL, "no memory for workgroups: %zu bytes requested", bytes);
        }
    }
    return worker->memory;
}

/* Linear ids of the workgroups of cluster `task`, x fastest. */
static void cluster_blocks(const gb_cpu_launch_info *info, uint64_t task, uint64_t *ids) {
    uint64_t clusters_x = info->grid_dim[0] / info->cluster_dim[0];
    uint64_t clusters_y = info->grid_dim[1] / info->cluster_dim[1];
    uint64_t first_x = task % clusters_x * info->cluster_dim[0];
    uint64_t first_y = task / clusters_x % clusters_y * info->cluster_dim[1];
    uint64_t first_z = task / clusters_x / clusters_y * info->cluster_dim[2];
    for (uint32_t z = 0; z < info->cluster_dim[2]; z++) {
        for (uint32_t y = 0; y < info->cluster_dim[1]; y++) {
            for (uint32_t x = 0; x < info->cluster_dim[0]; x++) {
                *ids++ = ((first_z + z) * info->grid_dim[1] + first_y + y) * info->grid_dim[0] + first_x + x;
            }
        }
    }
}

/* Loop and fission tiers, on the present stack. */
static void run_loop(const struct launch *launch, uint64_t first, uint64_t last, char *shared) {
    if (launch->checked) {
        gb_check_workgroups(&launch->info, shared, launch->stride, launch->task_blocks);
    }
    char *dynamic = shared + launch->shared_bytes, *contexts = shared + launch->stride;
    launch->info.kernel->run(&launch->info, first, last, shared, dynamic, contexts);
}

static void kernel_main(void) {
    struct worker *worker = this_worker();
    run_loop(worker->launch, worker->first, worker->last, worker->memory);
    gb_fiber_switch(&worker->kernel, &worker->thread);
    abort(); /* nothing switches to a kernel that has ended */
}

/* Stacks of the program's threads may have any size, and those of the pool have the usual one. */
static void run_loop_on_own_stack(struct worker *worker, const struct launch *launch, uint64_t first,
                                  uint64_t last) {
    gb_fiber_stacks_reserve(&worker->stacks, 1, launch->stack_bytes);
    worker->launch = launch;
    worker->first = first;
    worker->last = last;
    gb_fiber_start(&worker->kernel, &worker->stacks, 0, kernel_main);
    gb_fiber_switch(&worker->thread, &worker->kernel);
}

static void run_workgroups(struct launch *launch, uint64_t first, uint64_t last) {
    struct worker *worker = this_worker();
    char *shared = workgroup_memory(worker, launch->stride * launch->task_blocks + launch->context_bytes);
    if (!launch->fibers) {
        if (launch->stack_bytes == 0) {
            run_loop(launch, first, last, shared);
        } else {
            run_loop_on_own_stack(worker, launch, first, last);
        }
        return;
    }
    if (launch->checked) {
        gb_check_workgroups(&launch->info, shared, launch->stride, launch->task_blocks);
    }
    if (worker->team == NULL) {
        worker->team = gb_cpu_team_create();
    }
    gb_cpu_team_begin(worker->team, &launch->info, launch->task_blocks, shared,
                      shared + launch->shared_bytes, launch->stride);
    for (uint64_t task = first; task < last; task++) {
        uint64_t ids[MAX_CLUSTER_BLOCKS] = {task};
        if (launch->task_blocks > 1) {
            cluster_blocks(&launch->info, task, ids);
        }
        gb_cpu_team_run(worker->team, ids);
    }
}

static void run_tasks(struct gb_cpu_job *job, uint64_t first, uint64_t last) {
    struct launch *launch = (struct launch *)job;
    const struct gb_where *before = gb_enter(launch->where);
    const struct launch *outer = running;
    running = launch;
    run_workgroups(launch, first, last);
    running = outer;
    gb_enter(before);
}

/* ---- kernels that crash ---- */

static const struct {
    int number;
    const char *name;
} crashes[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}};
enum { CRASHES = sizeof crashes / sizeof crashes[0], MESSAGE_BYTES = 2048 };

/* Append a line; memory may be damaged, so that nothing is allocated. */
static GB_PRINTF(2, 3) void append(char *message, const char *format, ...) {
    size_t length = strlen(message);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message + length, MESSAGE_BYTES - length, format, arguments);
    va_end(arguments);
}

static void append_fact(char *message, const char *name, const char *value) {
    if (value != NULL && value[0] != '\0') {
        append(message, "  %s: %.200s\n", name, value);
    }
}

static void report_crash(const struct launch *launch, const char *signal_name, const siginfo_t *information) {
    char message[MESSAGE_BYTES] = "";
    append(message, "gpubuild: the kernel crashed: %s", signal_name);
    bool access = information->si_signo == SIGSEGV || information->si_signo == SIGBUS;
    if (access && information->si_code > 0 && information->si_code != SI_KERNEL) { /* else the address is unknown */
        append(message, " at address %p", information->si_addr);
    }
    const struct worker *worker = pthread_getspecific(worker_key);
    if (launch->fibers && worker != NULL && worker->team != NULL) {
        const gb_cpu_item *item = gb_cpu_team_running(worker->team);
        append(message, ", in workgroup (%u, %u, %u), work-item (%u, %u, %u)", item->block_id[0], item->block_id[1],
               item->block_id[2], item->thread_id[0], item->thread_id[1], item->thread_id[2]);
    }
    append(message, "\n");
    append_fact(message, "program", program_invocation_short_name);
    append_fact(message, "module", launch->where->module);
    append_fact(message, "kernel", launch->info.kernel->name);
    append_fact(message, "target", launch->where->target);
    bool bounds = (launch->info.kernel->flags & GB_CPU_KERNEL_CHECK_BOUNDS) != 0;
    if (access && !bounds) {
        append(message, "  hint: to find the access, add a target {kind: cpu, sanitize: [bounds]} and run the "
                        "program with GPUBUILD_CHECK=1\n");
    }
    for (char *at = message; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' && *at != '\n' ? '?' : *at;
    }
    gb_write_bytes(message, strlen(message));
}

static void on_crash(int number, siginfo_t *information, void *context) {
    (void)context;
    static atomic_flag reported = ATOMIC_FLAG_INIT;
    struct rlimit core = {.rlim_cur = 0};
    if (running != NULL) {
        while (atomic_flag_test_and_set(&reported)) {
            pause(); /* another thread reports, and ends the process */
        }
        for (size_t i = 0; i < CRASHES; i++) {
            if (crashes[i].number == number) {
                report_crash(running, crashes[i].name, information);
            }
        }
        (void)getrlimit(RLIMIT_CORE, &core);
        if (core.rlim_cur == 0) {
            _exit(128 + number); /* as shells report it; a signal would make them print a second message */
        }
    }
    signal(number, SIG_DFL); /* the instruction is repeated, and ends the process */
    if (information->si_code <= 0) {
        raise(number); /* sent by a process */
    }
}

/* The program's own handlers stay. */
static void watch_for_crashes(void) {
    struct sigaction handler = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_ONSTACK}, before;
    for (size_t i = 0; i < CRASHES; i++) {
        if (sigaction(crashes[i].number, NULL, &before) == 0 && (before.sa_flags & SA_SIGINFO) == 0 &&
            before.sa_handler == SIG_DFL) {
            sigaction(crashes[i].number, &handler, NULL);
        }
    }
}

/* A library may be unloaded. */
__attribute__((destructor)) static void stop_watching(void) {
    struct sigaction present;
    for (size_t i = 0; i < CRASHES; i++) {
        if (sigaction(crashes[i].number, NULL, &present) == 0 && (present.sa_flags & SA_SIGINFO) != 0 &&
            present.sa_sigaction == on_crash) {
            signal(crashes[i].number, SIG_DFL);
        }
    }
}

static void initialize(void) {
    if (pthread_key_create(&worker_key, free_worker) != 0) {
        gb_fatal(NULL, "no thread-specific data left for the CPU device");
    }
    watch_for_crashes();
}

static unsigned max_threads(bool serial, bool fibers, uint32_t task_blocks) {
    return serial ? 1 : fibers ? gb_fiber_max_threads(task_blocks * GB_CPU_MAX_BLOCK) : UINT_MAX;
}

/* ---- checks ---- */

static _Noreturn void refuse(const gb_cpu_kernel *kernel, const char *reason) {
    const struct gb_where where = gb_cpu_where(kernel);
    gb_fatal(&where, "%s", reason);
}

static uint64_t product(const char *what, struct gb_dim3 dim, const gb_cpu_kernel *kernel) {
    uint64_t result = (uint64_t)dim.x * dim.y; /* two 32-bit factors always fit */
    if (__builtin_mul_overflow(result, (uint64_t)dim.z, &result)) {
        refuse(kernel, gb_text("a %s of %u x %u x %u is too large", what, dim.x, dim.y, dim.z));
    }
    return result;
}

static void check_block(const gb_cpu_kernel *kernel, struct gb_dim3 block, uint64_t items) {
    const uint32_t *required = kernel->required_block;
    if (items > GB_CPU_MAX_BLOCK) {
        refuse(kernel, gb_text("a workgroup of %u x %u x %u has more than %u work-items", block.x, block.y, block.z,
                               GB_CPU_MAX_BLOCK));
    }
    if (required[0] != 0 && (block.x != required[0] || block.y != required[1] || block.z != required[2])) {
        refuse(kernel, gb_text("the kernel was compiled for workgroups of %u x %u x %u work-items, not %u x %u x %u",
                               required[0], required[1], required[2], block.x, block.y, block.z));
    }
    if (kernel->max_items != 0 && items > kernel->max_items) {
        refuse(kernel, gb_text("the kernel was compiled for at most %u work-items in a workgroup, not %u x %u x %u",
                               kernel->max_items, block.x, block.y, block.z));
    }
}

static void check_cluster(const gb_cpu_kernel *kernel, struct gb_dim3 cluster, struct gb_dim3 grid) {
    uint64_t blocks = product("cluster", cluster, kernel);
    if (blocks == 0 || blocks > MAX_CLUSTER_BLOCKS) {
        refuse(kernel, gb_text("a cluster of %u x %u x %u workgroups: from 1 to %d are possible", cluster.x, cluster.y,
                               cluster.z, MAX_CLUSTER_BLOCKS));
    }
    if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
        refuse(kernel, gb_text("a grid of %u x %u x %u workgroups cannot be divided into clusters of %u x %u x %u", grid.x,
                               grid.y, grid.z, cluster.x, cluster.y, cluster.z));
    }
}

void gb_cpu_launch_check(const gb_cpu_kernel *kernel, const struct gb_launch *launch) {
    if (launch->param_count != 0 && launch->param_count != kernel->param_count) {
        refuse(kernel, gb_text("the launch passes %zu parameters, and the kernel has %llu", launch->param_count,
                               (unsigned long long)kernel->param_count));
    }
    uint64_t workgroups = product("grid", launch->grid, kernel);
    uint64_t items = product("workgroup", launch->block, kernel);
    if (workgroups != 0 && items != 0) {
        check_block(kernel, launch->block, items);
        check_cluster(kernel, launch->cluster, launch->grid);
    }
}

void gb_cpu_launch(const gb_cpu_kernel *kernel, const struct gb_launch *asked) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize);
    const struct gb_dim3 cluster = asked->cluster, grid = asked->grid, block = asked->block;
    uint64_t workgroups = (uint64_t)grid.x * grid.y * grid.z;
    if (workgroups == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
        return;
    }
    uint32_t cluster_size = cluster.x * cluster.y * cluster.z;
    bool together = (kernel->flags & GB_CPU_KERNEL_CLUSTER_BARRIER) != 0;
    size_t shared_bytes = rounded(kernel->shared_bytes);
    bool fibers = kernel->run == NULL;
    bool serial = (kernel->flags & GB_CPU_KERNEL_CHECK_RACE) != 0;
    uint32_t task_blocks = together ? cluster_size : 1;
    struct launch launch = {
        .job = {.run = run_tasks,
                .tasks = together ? workgroups / cluster_size : workgroups,
                .max_threads = max_threads(serial, fibers, task_blocks)},
        .info = {.block_dim = {block.x, block.y, block.z},
                 .grid_dim = {grid.x, grid.y, grid.z},
                 .cluster_dim = {cluster.x, cluster.y, cluster.z},
                 .dynamic_bytes = asked->shared_bytes,
                 .params = asked->params,
                 .kernel = kernel,
                 .cache_bytes = gb_cpu_cache_bytes()},
        .where = gb_inside(),
        .task_blocks = task_blocks,
        .fibers = fibers,
        .checked = (kernel->flags & GB_CPU_KERNEL_CHECKS) != 0,
        .shared_bytes = shared_bytes,
        .context_bytes = fibers ? 0 : kernel->context_bytes,
        .stack_bytes = GB_CPU_STACK_BYTES(kernel->flags),
        .stride = shared_bytes + rounded(asked->shared_bytes) + ALIGNMENT,
    };
    if (!launch.checked) {
        gb_cpu_pool_run(&launch.job);
        return;
    }
    gb_check_launch_begin(kernel);
    gb_cpu_pool_run(&launch.job);
    gb_check_launch_end(kernel);
}
