/* cpu_resources.c: the CPUs that the process may use, how many threads it may keep busy, and the largest cache. */
#define _GNU_SOURCE
#include "cpu/cpu_device.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, PATH_BYTES = 4096, STACK_BYTES = 8 << 20 };

static struct {
    unsigned threads;
    bool bounded; /* whether `cpus` is known */
    cpu_set_t cpus;
} found;

/* ---- CPUs ---- */

/* The CPUs of all threads of the process. One thread's are not enough: OpenMP programs bind each thread to one CPU
 * (OMP_PROC_BIND), and the first launch may come from a bound thread. */
static void find_cpus(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return; /* more CPUs than a cpu_set_t holds */
    }
    found.cpus = set;
    found.bounded = true;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks != NULL && (task = readdir(tasks)) != NULL;) {
        long id = strtol(task->d_name, NULL, 10);
        if (id > 0 && sched_getaffinity((pid_t)id, sizeof set, &set) == 0) {
            CPU_OR(&found.cpus, &found.cpus, &set);
        }
    }
    if (tasks != NULL) {
        closedir(tasks);
    }
}

void gb_cpu_unbind_thread(void) {
    (void)gb_cpu_thread_count();
    if (found.bounded) {
        (void)sched_setaffinity(0, sizeof found.cpus, &found.cpus); /* else the thread keeps its creator's CPUs */
    }
}

bool gb_cpu_start_thread(void *(*run)(void *unused)) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES); /* some C libraries give much less */
    bool started = pthread_create(&thread, &attributes, run, NULL) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

/* ---- control groups ---- */

/* The quota of the group at `folder` in 1/1000 CPUs, rounded up; 0: no limit. */
static unsigned long long group_quota(const char *folder) {
    char path[PATH_BYTES + 16];
    unsigned long long quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    bool limited = file != NULL && fscanf(file, "%llu %llu", &quota, &period) == 2 && period > 0; /* else "max 100000" */
    if (file != NULL) {
        fclose(file);
    }
    return limited ? (quota * 1000 + period - 1) / period : 0;
}

/* The least quota of a group and all groups around it. In a container `name` may be the host's name of a group and not
 * exist: then the mount itself is the group. */
static unsigned long long path_quota(const char *mount, const char *name) {
    char folder[PATH_BYTES];
    int used = snprintf(folder, sizeof folder, "%s%s", mount, strcmp(name, "/") == 0 ? "" : name);
    if (used < 0 || used >= (int)sizeof folder) {
        return 0;
    }
    size_t top = strlen(mount);
    unsigned long long least = 0;
    for (;;) {
        unsigned long long quota = group_quota(folder);
        least = quota != 0 && (least == 0 || quota < least) ? quota : least;
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= top || slash == NULL) {
            return least;
        }
        *(slash < folder + top ? folder + top : slash) = '\0';
    }
}

unsigned gb_cpu_quota(const char *membership, const char *mount) {
    static const char unified[] = "0::"; /* the line of version 2 */
    const char *line = membership;
    while (line != NULL && strncmp(line, unified, strlen(unified)) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    if (line == NULL) {
        return 0;
    }
    line += strlen(unified);
    char *name = gb_text("%.*s", (int)strcspn(line, "\n"), line);
    unsigned long long cpus = (path_quota(mount, name) + 999) / 1000;
    free(name);
    return cpus < MAX_THREADS ? (unsigned)cpus : MAX_THREADS;
}

static unsigned quota_of_process(void) {
    char text[PATH_BYTES];
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) {
        return 0;
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return gb_cpu_quota(text, "/sys/fs/cgroup");
}

/* ---- the number ---- */

static void count(void) {
    find_cpus();
    int asked = gb_settings()->cpu_threads;
    long online = asked > 0 ? asked : found.bounded ? CPU_COUNT(&found.cpus) : sysconf(_SC_NPROCESSORS_ONLN);
    found.threads = online < 1 ? 1u : online < MAX_THREADS ? (unsigned)online : MAX_THREADS;
    unsigned quota = asked > 0 ? 0 : quota_of_process();
    if (quota != 0 && quota < found.threads) {
        found.threads = quota;
    }
}

unsigned gb_cpu_thread_count(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count);
    return found.threads;
}

/* ---- caches, as Linux describes them in sysfs ---- */

enum { USUAL_BYTES = 32 << 20, MOST_CACHES = 8 };

static int64_t largest_cache;

int64_t gb_cpu_cache_size(const char *folder) {
    char path[256];
    if (snprintf(path, sizeof path, "%s/size", folder) >= (int)sizeof path) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    uint32_t size = 0; /* "32768K"; maybe "32M" in later kernels */
    char unit = 0;
    int found = fscanf(file, "%9" SCNu32 "%c", &size, &unit);
    (void)fclose(file);
    return found < 1 ? 0 : (int64_t)size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

static void find_largest_cache(void) {
    for (int i = 0; i < MOST_CACHES; i++) {
        char folder[64];
        (void)snprintf(folder, sizeof folder, "/sys/devices/system/cpu/cpu0/cache/index%d", i);
        int64_t size = gb_cpu_cache_size(folder);
        largest_cache = size > largest_cache ? size : largest_cache;
    }
    largest_cache = largest_cache == 0 ? USUAL_BYTES : largest_cache; /* containers and virtual machines may hide it */
}

int64_t gb_cpu_cache_bytes(void) {
    int asked = gb_settings()->cpu_cache_bytes;
    if (asked >= 0) {
        return asked;
    }
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_largest_cache);
    return largest_cache;
}
