/* An OpenMP program that launches from its parallel regions: openmp IMAGE, for test_launches.py. */
#define _GNU_SOURCE
#include "launch_calls.h"

#include <dirent.h>
#include <omp.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, NESTED = 2, ROUNDS = 50, N = 500 };

static void *add, *wait_;

/* Right when each of the others has seen what it should, too. */
static bool work(int64_t *x, int64_t a) {
    void *stream = mgpuStreamCreate();
    for (int i = 0; i < ROUNDS; i++) {
        launch(add, stream, N, 8, a, x);
        if (i % 10 == 0) {
            launch(wait_, stream, N, 8, -a, x);
            mgpuStreamSynchronize(stream);
        }
    }
    mgpuStreamSynchronize(stream);
    mgpuStreamDestroy(stream);
    bool right = true;
    for (int i = 0; i < N; i++) {
        right = right && x[i] == a * (ROUNDS - ROUNDS / 10);
    }
    return right;
}

/* Whether every thread that is not OpenMP's may run on all CPUs. */
static bool pool_is_free(const cpu_set_t *cpus, const pid_t *own, int count) {
    DIR *tasks = opendir("/proc/self/task");
    int others = 0;
    bool all_free = true;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        pid_t id = (pid_t)atol(task->d_name);
        bool ours = id == 0;
        for (int i = 0; i < count; i++) {
            ours = ours || own[i] == id;
        }
        cpu_set_t set;
        if (!ours && sched_getaffinity(id, sizeof set, &set) == 0) {
            others++;
            all_free = all_free && CPU_EQUAL(&set, cpus);
        }
    }
    closedir(tasks);
    return all_free && others > 0;
}

int main(int argc, char **argv) {
    static int64_t x[THREADS][NESTED][N], unused[THREADS][N];
    void *module = load(argv[argc - 1]);
    int wrong = 0;
    pid_t own[64];
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
#pragma omp parallel num_threads(THREADS) reduction(+ : wrong) /* which binds its threads, so asked */
    {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
#pragma omp critical
        CPU_OR(&cpus, &cpus, &set);
        own[omp_get_thread_num()] = gettid();
#pragma omp barrier
#pragma omp single
        {
            add = mgpuModuleGetFunction(module, "add"); /* the first that anybody asks of the device */
            wait_ = mgpuModuleGetFunction(module, "wait");
        }
        wrong += !work(x[omp_get_thread_num()][0], omp_get_thread_num() + 1);
    }
    if (wrong == 0 && !pool_is_free(&cpus, own, THREADS)) {
        fprintf(stderr, "threads of the pool are bound\n");
        return 2;
    }
    omp_set_max_active_levels(2);
    memset(x, 0, sizeof x);
#pragma omp parallel num_threads(THREADS) reduction(+ : wrong)
    {
        int outer = omp_get_thread_num();
        launch(add, NULL, N, 8, 0, unused[outer]); /* streams do not wait for this one: memory of its own */
#pragma omp parallel num_threads(NESTED) reduction(+ : wrong)
        wrong += !work(x[outer][omp_get_thread_num()], outer + omp_get_thread_num() + 1);
        mgpuStreamSynchronize(NULL);
    }
    int64_t sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
    for (int i = 0; i < 200; i++) {
        int64_t y[1] = {0};
        void *stream = mgpuStreamCreate();
        launch(add, stream, 1, 1, i, y);
        mgpuStreamSynchronize(stream);
        mgpuStreamDestroy(stream);
        sum += y[0];
    }
    if (wrong != 0 || sum != 19900) {
        fprintf(stderr, "%d wrong, sum %lld\n", wrong, (long long)sum);
    }
    return wrong != 0 || sum != 19900;
}
