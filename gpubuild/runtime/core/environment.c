/* environment.c: the settings in environment variables. They are read once, at the first use: a program that changes its
 * own environment later must not get two answers. */
#include "core/runtime.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 4096 };

static struct gb_settings settings = {.vendor = GB_VENDOR_UNKNOWN, .check = -1, .cpu_cache_bytes = -1};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A decimal number from low to high and nothing else; strtol alone would accept " +7". */
static bool parse_number(const char *text, long low, long high, int *value) {
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || number < low || number > high) {
        return false;
    }
    *value = (int)number;
    return true;
}

static bool parse_device(const char *text) {
    if (strcmp(text, "auto") == 0) {
        return true;
    }
    for (enum gb_vendor vendor = 0; vendor != GB_VENDOR_UNKNOWN; vendor++) {
        size_t length = strlen(gb_vendor_name(vendor));
        if (strncmp(text, gb_vendor_name(vendor), length) == 0) {
            settings.vendor = vendor;
            return text[length] == '\0' ||
                   (gb_vendor_is_numbered(vendor) && text[length] == ':' &&
                    parse_number(text + length + 1, 0, GB_MAX_DEVICES - 1, &settings.ordinal));
        }
    }
    return false;
}

static _Noreturn void refuse_device(const char *text) {
    char *allowed = gb_text("auto");
    for (enum gb_vendor vendor = 0; vendor != GB_VENDOR_UNKNOWN; vendor++) {
        const char *name = gb_vendor_name(vendor);
        allowed = gb_vendor_is_numbered(vendor) ? gb_text("%s, %s, %s:N", allowed, name, name)
                                                : gb_text("%s, %s", allowed, name);
    }
    gb_fatal(NULL, "GPUBUILD_DEVICE=%s: not a device; allowed are %s (N from 0 to %d)", text, allowed, GB_MAX_DEVICES - 1);
}

/* The variable's value, or NULL where it is not set or empty. */
static const char *value_of(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* A copy of the value, since the program may change its environment; NULL where it is not set. */
static const char *file_of(const char *name) {
    const char *value = value_of(name);
    return value != NULL ? gb_text("%s", value) : NULL;
}

static void read_switch(const char *name, int *value) {
    const char *text = value_of(name);
    if (text != NULL && !parse_number(text, 0, 1, value)) {
        gb_fatal(NULL, "%s=%s: not a switch; allowed are 0 and 1", name, text);
    }
}

static void read_environment(void) {
    const char *device = value_of("GPUBUILD_DEVICE");
    if (device != NULL && !parse_device(device)) {
        refuse_device(device);
    }
    const char *threads = value_of("GPUBUILD_CPU_THREADS");
    if (threads != NULL && !parse_number(threads, 1, MAX_THREADS, &settings.cpu_threads)) {
        gb_fatal(NULL, "GPUBUILD_CPU_THREADS=%s: not a number of threads; allowed are 1 to %d", threads,
                 MAX_THREADS);
    }
    const char *cache = value_of("GPUBUILD_CPU_CACHE_BYTES");
    if (cache != NULL && !parse_number(cache, 0, INT_MAX, &settings.cpu_cache_bytes)) {
        gb_fatal(NULL, "GPUBUILD_CPU_CACHE_BYTES=%s: not a number of bytes; allowed are 0 to %d", cache, INT_MAX);
    }
    read_switch("GPUBUILD_CHECK", &settings.check);
    if (settings.check == 1) {
        if (settings.vendor != GB_VENDOR_UNKNOWN && settings.vendor != GB_VENDOR_CPU) {
            gb_fatal(NULL, "GPUBUILD_CHECK=1 and GPUBUILD_DEVICE=%s: only CPU kernels can be checked", device);
        }
        settings.vendor = GB_VENDOR_CPU;
    }
    settings.check_suppressions = file_of("GPUBUILD_CHECK_SUPPRESSIONS");
    settings.profile = file_of("GPUBUILD_PROFILE");
    int trace = 0;
    read_switch("GPUBUILD_TRACE", &trace);
    settings.trace = trace == 1;
}

const struct gb_settings *gb_settings(void) {
    (void)pthread_once(&once, read_environment); /* fails only for an invalid control */
    return &settings;
}
