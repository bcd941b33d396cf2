/* profile.c: counts launches and their times, and writes them as JSON when the program ends. */
#define _POSIX_C_SOURCE 200809L
#include "core/module.h"

#include "cpu/cpu_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WAITING = 1024 }; /* launches with unread timers */

struct gb_profile {
    char *module;
    char *kernel;
    char *device;
    uint64_t launches;
    uint64_t total_ns;
    uint64_t min_ns;
    uint64_t max_ns;
    uint64_t bytes; /* of memory that the arguments of all launches point into; known on CPUs only */
    bool on_cpu;
    struct gb_profile *next;
};

/* A launch on a device with timers that have not been read. */
struct waiting {
    struct gb_profile *profile;
    struct gb_device *device;
    void *first;
    void *last;
    struct waiting *next;
};

static struct {
    pthread_mutex_t lock;
    struct gb_profile *profiles;
    struct waiting *waiting;
    unsigned waiting_count;
    pid_t process; /* a child of fork writes nothing */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_PROFILE, &all.lock);
}

bool gb_profile_on(void) {
    return gb_settings()->profile != NULL;
}

/* ---- Writing ---- */

static void write_string(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            fprintf(file, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(file, "\\u%04x", c);
        } else {
            fputc(c, file);
        }
    }
    fputc('"', file);
}

static void write_profile(FILE *file, const struct gb_profile *profile) {
    fputs("\n    {\"module\": ", file);
    write_string(file, profile->module);
    fputs(", \"kernel\": ", file);
    write_string(file, profile->kernel);
    fputs(", \"device\": ", file);
    write_string(file, profile->device);
    fprintf(file, ", \"launches\": %llu, \"total_ns\": %llu, \"min_ns\": %llu, \"max_ns\": %llu, \"bytes\": ",
            (unsigned long long)profile->launches, (unsigned long long)profile->total_ns,
            (unsigned long long)profile->min_ns, (unsigned long long)profile->max_ns);
    if (profile->on_cpu) {
        fprintf(file, "%llu}", (unsigned long long)profile->bytes);
    } else {
        fputs("null}", file);
    }
}

static void read_timers(void);

static void write_file(void) {
    if (getpid() != all.process) {
        return;
    }
    gb_cpu_streams_drain();
    gb_lock(&all.lock);
    read_timers();
    const char *path = gb_settings()->profile;
    char *beside = gb_text("%s.%ld.tmp", path, (long)getpid()); /* renamed at the end: a reader never sees a part */
    FILE *file = fopen(beside, "w");
    if (file != NULL) {
        fputs("{\n  \"schema\": 1,\n  \"kernels\": [", file);
        for (const struct gb_profile *profile = all.profiles; profile != NULL; profile = profile->next) {
            write_profile(file, profile);
            fputs(profile->next != NULL ? "," : "\n  ", file);
        }
        fputs("]\n}\n", file);
    }
    bool failed = file == NULL || ferror(file) != 0;
    failed = (file != NULL && fclose(file) != 0) || failed;
    if (failed || rename(beside, path) != 0) {
        gb_fatal(NULL, "GPUBUILD_PROFILE=%s: the file cannot be written: %s", path, strerror(errno));
    }
    free(beside);
    gb_unlock(&all.lock);
}

/* ---- Records ---- */

static bool same(const char *left, const char *right) {
    return strcmp(left, right != NULL ? right : "") == 0;
}

static char *copy_of(const char *text) {
    return gb_text("%s", text != NULL ? text : "");
}

struct gb_profile *gb_profile_of(const struct gb_where *where) {
    gb_lock(&all.lock);
    if (all.process == 0) {
        all.process = getpid();
        if (atexit(write_file) != 0) {
            gb_fatal(where, "GPUBUILD_PROFILE: atexit failed");
        }
    }
    struct gb_profile **link = &all.profiles;
    while (*link != NULL && !(same((*link)->kernel, where->kernel) && same((*link)->module, where->module) &&
                              same((*link)->device, where->device))) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = gb_allocate(sizeof **link);
        **link = (struct gb_profile){.module = copy_of(where->module),
                                     .kernel = copy_of(where->kernel),
                                     .device = copy_of(where->device),
                                     .min_ns = UINT64_MAX};
    }
    struct gb_profile *profile = *link;
    gb_unlock(&all.lock);
    return profile;
}

static void add(struct gb_profile *profile, uint64_t ns) {
    profile->launches++;
    profile->total_ns += ns;
    profile->min_ns = ns < profile->min_ns ? ns : profile->min_ns;
    profile->max_ns = ns > profile->max_ns ? ns : profile->max_ns;
}

void gb_profile_add(struct gb_profile *profile, uint64_t ns, uint64_t bytes) {
    gb_lock(&all.lock);
    profile->on_cpu = true;
    profile->bytes += bytes;
    add(profile, ns);
    gb_unlock(&all.lock);
}

/* ---- Devices with timers ---- */

static void read_timers(void) {
    while (all.waiting != NULL) {
        struct waiting *one = all.waiting;
        const struct gb_where where = {
            .module = one->profile->module, .kernel = one->profile->kernel, .device = one->device->name};
        uint64_t ns = one->device->calls->timer_elapsed_ns(one->device, one->first, one->last, &where);
        one->device->calls->event_destroy(one->device, one->first, &where);
        one->device->calls->event_destroy(one->device, one->last, &where);
        add(one->profile, ns);
        all.waiting = one->next;
        free(one);
    }
    all.waiting_count = 0;
}

void gb_profile_launch(struct gb_device *device, void *kernel, void *stream, const struct gb_launch *launch,
                       const struct gb_where *where) {
    struct waiting *one = gb_allocate(sizeof *one);
    one->profile = gb_profile_of(where);
    one->device = device;
    one->first = device->calls->timer_create(device, where);
    one->last = device->calls->timer_create(device, where);
    device->calls->event_record(device, one->first, stream, where);
    device->calls->launch(device, kernel, stream, launch, where);
    device->calls->event_record(device, one->last, stream, where);
    gb_lock(&all.lock);
    one->next = all.waiting;
    all.waiting = one;
    if (++all.waiting_count >= MAX_WAITING) {
        read_timers();
    }
    gb_unlock(&all.lock);
}
