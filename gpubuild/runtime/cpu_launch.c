/* cpu_launch.c: kernel launches: checks, threads, and the memory of workgroups.
 *
 * A launch is a range of tasks (workgroups, or clusters that must run together), handed out in chunks.
 * The thread that launches takes part, so a launch needs no pool thread to make progress; those
 * that are idle join in. Each thread has its own memory for workgroups: no two ever share it. */
#define _GNU_SOURCE
#include "cpu_check.h"
#include "cpu_fiber.h"
#include "cpu_team.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ALIGNMENT = 64,
    CHUNKS_PER_THREAD = 8,   /* so that a thread with slow workgroups holds nobody up for long */
    MAX_CLUSTER_BLOCKS = 16, /* as on GPUs */
    MAX_THREADS = 1024
};

struct job {
    gb_cpu_launch_info info;
    uint64_t tasks;
    uint64_t chunk;
    uint32_t task_blocks; /* workgroups in a task: 1, or a cluster */
    bool fibers;
    bool checked; /* for anything at all */
    bool serial;  /* by the launching thread alone */
    size_t stride; /* bytes from one workgroup's memory to the next */
    size_t shared_bytes;
    size_t slot_bytes; /* behind the memory of the one workgroup that runs at a time */
    unsigned max_threads;
    atomic_uint_fast64_t next;
    unsigned joined; /* pool threads at work on it; guarded by pool.lock */
    unsigned ever_joined;
    struct job *later;
};

/* What a thread keeps from launch to launch. */
struct worker {
    char *memory;
    size_t bytes;
    struct gb_cpu_team *team;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;
    pthread_cond_t finished;
    struct job *jobs;
    unsigned threads; /* of the pool, that is without those that launch */
    unsigned active;  /* threads at work, of the pool or not */
    bool started;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};

static pthread_key_t worker_key;

/* ---- one thread's work ---- */

static void free_worker(void *value) {
    struct worker *worker = value;
    if (worker->team != NULL) {
        gb_cpu_team_destroy(worker->team);
    }
    free(worker->memory);
    free(worker);
}

static struct worker *this_worker(void) {
    struct worker *worker = pthread_getspecific(worker_key);
    if (worker == NULL) {
        worker = gb_allocate(sizeof *worker);
        memset(worker, 0, sizeof *worker);
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
            gb_fatal(NULL, "no memory for workgroups: %zu bytes asked for", bytes);
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

static void run_tasks(struct job *job, struct worker *worker, uint64_t first, uint64_t last) {
    char *shared = workgroup_memory(worker, job->stride * job->task_blocks + job->slot_bytes);
    char *dynamic = shared + job->shared_bytes;
    if (job->checked) {
        gb_check_workgroups(&job->info, shared, job->stride, job->task_blocks);
    }
    if (!job->fibers) {
        job->info.kernel->run(&job->info, first, last, shared, dynamic, shared + job->stride);
        return;
    }
    if (worker->team == NULL) {
        worker->team = gb_cpu_team_create();
    }
    gb_cpu_team_begin(worker->team, &job->info, job->task_blocks, shared, dynamic, job->stride);
    for (uint64_t task = first; task < last; task++) {
        uint64_t ids[MAX_CLUSTER_BLOCKS] = {task};
        if (job->task_blocks > 1) {
            cluster_blocks(&job->info, task, ids);
        }
        gb_cpu_team_run(worker->team, ids);
    }
}

static void take_part(struct job *job) {
    struct worker *worker = this_worker();
    for (;;) {
        uint64_t first = atomic_fetch_add(&job->next, job->chunk);
        if (first >= job->tasks) {
            return;
        }
        uint64_t last = job->tasks - first < job->chunk ? job->tasks : first + job->chunk;
        run_tasks(job, worker, first, last);
    }
}

/* ---- the pool ---- */

/* With several launches under way, each has the thread it came from: the pool only fills up what is left. */
static struct job *joinable_job(void) {
    if (pool.active > pool.threads) {
        return NULL;
    }
    for (struct job *job = pool.jobs; job != NULL; job = job->later) {
        if (job->ever_joined + 1 < job->max_threads && atomic_load(&job->next) < job->tasks) {
            return job;
        }
    }
    return NULL;
}

static void *pool_thread(void *unused) {
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        struct job *job = joinable_job();
        if (job == NULL) {
            pthread_cond_wait(&pool.work, &pool.lock);
            continue;
        }
        pool.active++;
        job->joined++;
        job->ever_joined++;
        pthread_mutex_unlock(&pool.lock);
        take_part(job);
        pthread_mutex_lock(&pool.lock);
        pool.active--;
        if (--job->joined == 0) {
            pthread_cond_broadcast(&pool.finished);
        }
    }
    return NULL;
}

static unsigned thread_count(void) {
    int asked = gb_settings()->cpu_threads;
    if (asked > 0) {
        return asked < MAX_THREADS ? (unsigned)asked : MAX_THREADS;
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        return (unsigned)CPU_COUNT(&set);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t holds */
    return online < 1 ? 1u : online < MAX_THREADS ? (unsigned)online : MAX_THREADS;
}

/* A child of fork has none of the threads; the lock may be in any state. */
static void forget_pool(void) {
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.finished, NULL);
    pool.jobs = NULL;
    pool.threads = pool.active = 0;
    pool.started = false;
}

static void initialize(void) {
    if (pthread_key_create(&worker_key, free_worker) != 0) {
        gb_fatal(NULL, "no thread-specific data left for the CPU device");
    }
    pthread_atfork(NULL, NULL, forget_pool);
}

/* Start what is missing. The launching thread counts as one; the lock is held. */
static void start_pool(void) {
    unsigned wanted = thread_count() - 1;
    pool.started = true;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool.threads < wanted) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, pool_thread, NULL) != 0) {
            break; /* fewer threads are slower, not wrong */
        }
        pool.threads++;
    }
    pthread_attr_destroy(&attributes);
}

static void run_job(struct job *job) {
    pthread_mutex_lock(&pool.lock);
    if (!pool.started) {
        start_pool();
    }
    unsigned threads = pool.threads + 1;
    job->max_threads = job->fibers ? gb_fiber_max_threads(job->task_blocks * GB_CPU_MAX_BLOCK) : threads;
    job->chunk = job->tasks / ((uint64_t)threads * CHUNKS_PER_THREAD);
    if (job->chunk == 0) {
        job->chunk = 1;
    }
    pool.active++;
    bool alone = threads == 1 || job->tasks == 1 || job->serial;
    if (!alone) {
        job->later = pool.jobs;
        pool.jobs = job;
        pthread_cond_broadcast(&pool.work);
    }
    pthread_mutex_unlock(&pool.lock);
    take_part(job);
    pthread_mutex_lock(&pool.lock);
    pool.active--;
    for (struct job **link = &pool.jobs; *link != NULL; link = &(*link)->later) {
        if (*link == job) {
            *link = job->later;
            break;
        }
    }
    if (joinable_job() != NULL) {
        pthread_cond_broadcast(&pool.work); /* for the threads that this one left no room for */
    }
    while (job->joined > 0) {
        pthread_cond_wait(&pool.finished, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
}

/* ---- checks ---- */

static uint64_t product(const char *what, struct gb_dim3 dim, const struct gb_where *where) {
    uint64_t result = (uint64_t)dim.x * dim.y; /* two 32-bit factors always fit */
    if (__builtin_mul_overflow(result, (uint64_t)dim.z, &result)) {
        gb_fatal(where, "a %s of %u x %u x %u is too large", what, dim.x, dim.y, dim.z);
    }
    return result;
}

static void check_block(const gb_cpu_kernel *kernel, struct gb_dim3 block, uint64_t items,
                        const struct gb_where *where) {
    if (items > GB_CPU_MAX_BLOCK) {
        gb_fatal(where, "a workgroup of %u x %u x %u has more than %u work-items", block.x, block.y, block.z,
                 GB_CPU_MAX_BLOCK);
    }
    const uint32_t *required = kernel->required_block;
    if (required[0] != 0 && (block.x != required[0] || block.y != required[1] || block.z != required[2])) {
        gb_fatal(where, "the kernel was compiled for workgroups of %u x %u x %u work-items, not %u x %u x %u",
                 required[0], required[1], required[2], block.x, block.y, block.z);
    }
    if (kernel->max_items != 0 && items > kernel->max_items) {
        gb_fatal(where, "the kernel was compiled for at most %u work-items in a workgroup, not %u x %u x %u",
                 kernel->max_items, block.x, block.y, block.z);
    }
}

static uint32_t check_cluster(struct gb_dim3 cluster, struct gb_dim3 grid, const struct gb_where *where) {
    uint64_t blocks = product("cluster", cluster, where);
    if (blocks == 0 || blocks > MAX_CLUSTER_BLOCKS) {
        gb_fatal(where, "a cluster of %u x %u x %u workgroups: from 1 to %d are possible", cluster.x, cluster.y,
                 cluster.z, MAX_CLUSTER_BLOCKS);
    }
    if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
        gb_fatal(where, "a grid of %u x %u x %u workgroups cannot be divided into clusters of %u x %u x %u", grid.x,
                 grid.y, grid.z, cluster.x, cluster.y, cluster.z);
    }
    return (uint32_t)blocks;
}

void gb_cpu_launch_check(const gb_cpu_kernel *kernel, struct gb_dim3 cluster, struct gb_dim3 grid,
                         struct gb_dim3 block, size_t param_count) {
    const struct gb_where where = {.module = gb_cpu_kernel_module(kernel), .kernel = kernel->name, .device = "cpu"};
    if (param_count != 0 && param_count != kernel->param_count) {
        gb_fatal(&where, "the launch passes %zu parameters, and the kernel has %llu", param_count,
                 (unsigned long long)kernel->param_count);
    }
    uint64_t workgroups = product("grid", grid, &where);
    uint64_t items = product("workgroup", block, &where);
    if (workgroups != 0 && items != 0) {
        check_block(kernel, block, items, &where);
        (void)check_cluster(cluster, grid, &where);
    }
}

void gb_cpu_launch(const gb_cpu_kernel *kernel, struct gb_dim3 cluster, struct gb_dim3 grid,
                   struct gb_dim3 block, uint32_t dynamic_bytes, void **params, size_t param_count) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize);
    gb_cpu_launch_check(kernel, cluster, grid, block, param_count);
    uint64_t workgroups = (uint64_t)grid.x * grid.y * grid.z;
    if (workgroups == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
        return;
    }
    uint32_t cluster_size = cluster.x * cluster.y * cluster.z;
    bool together = (kernel->flags & GB_CPU_KERNEL_CLUSTER_BARRIER) != 0;
    size_t shared_bytes = rounded(kernel->shared_bytes);
    struct job job = {
        .info = {.block_dim = {block.x, block.y, block.z},
                 .grid_dim = {grid.x, grid.y, grid.z},
                 .cluster_dim = {cluster.x, cluster.y, cluster.z},
                 .dynamic_bytes = dynamic_bytes,
                 .params = params,
                 .kernel = kernel},
        .tasks = together ? workgroups / cluster_size : workgroups,
        .task_blocks = together ? cluster_size : 1,
        .fibers = kernel->run == NULL,
        .checked = (kernel->flags & GB_CPU_KERNEL_CHECKS) != 0,
        .serial = (kernel->flags & GB_CPU_KERNEL_CHECK_RACE) != 0,
        .shared_bytes = shared_bytes,
        .slot_bytes = kernel->run == NULL ? 0 : kernel->slot_bytes,
        .stride = shared_bytes + rounded(dynamic_bytes) + ALIGNMENT,
    };
    if (!job.checked) {
        run_job(&job);
        return;
    }
    gb_check_launch_begin(kernel);
    run_job(&job);
    gb_check_launch_end(kernel);
}
