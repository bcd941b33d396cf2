/* environment.c: the settings in environment variables. They are read once, at the first need: a program that changes its
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

/* A decimal number from low to high and nothing else; strtol alone would take " +7". */
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

static void read_environment(void) {
    const char *device = getenv("GPUBUILD_DEVICE");
    if (device != NULL && device[0] != '\0' && !parse_device(device)) {
        refuse_device(device);
    }
    const char *threads = getenv("GPUBUILD_CPU_THREADS");
    if (threads != NULL && threads[0] != '\0' && !parse_number(threads, 1, MAX_THREADS, &settings.cpu_threads)) {
        gb_fatal(NULL, "GPUBUILD_CPU_THREADS=%s: not a number of threads; allowed are 1 to %d", threads,
                 MAX_THREADS);
    }
    const char *cache = getenv("GPUBUILD_CPU_CACHE_BYTES");
    if (cache != NULL && cache[0] != '\0' && !parse_number(cache, 0, INT_MAX, &settings.cpu_cache_bytes)) {
        gb_fatal(NULL, "GPUBUILD_CPU_CACHE_BYTES=%s: not a number of bytes; allowed are 0 to %d", cache, INT_MAX);
    }
    const char *check = getenv("GPUBUILD_CHECK");
    if (check != NULL && check[0] != '\0') {
        if (!parse_number(check, 0, 1, &settings.check)) {
            gb_fatal(NULL, "GPUBUILD_CHECK=%s: not a switch; allowed are 0 and 1", check);
        }
        if (settings.check == 1 && settings.vendor == GB_VENDOR_UNKNOWN) {
            settings.vendor = GB_VENDOR_CPU;
        }
        if (settings.check == 1 && settings.vendor != GB_VENDOR_CPU) {
            gb_fatal(NULL, "GPUBUILD_CHECK=1 and GPUBUILD_DEVICE=%s: only CPU kernels can be checked", device);
        }
    }
    const char *suppressions = getenv("GPUBUILD_CHECK_SUPPRESSIONS");
    if (suppressions != NULL && suppressions[0] != '\0') {
        settings.check_suppressions = gb_text("%s", suppressions); /* the program may change its environment */
    }
    const char *profile = getenv("GPUBUILD_PROFILE");
    if (profile != NULL && profile[0] != '\0') {
        settings.profile = gb_text("%s", profile);
    }
    const char *trace = getenv("GPUBUILD_TRACE");
    if (trace != NULL && trace[0] != '\0') {
        int value = 0;
        if (!parse_number(trace, 0, 1, &value)) {
            gb_fatal(NULL, "GPUBUILD_TRACE=%s: not a switch; allowed are 0 and 1", trace);
        }
        settings.trace = value == 1;
    }
}

const struct gb_settings *gb_settings(void) {
    (void)pthread_once(&once, read_environment); /* fails only for an invalid control */
    return &settings;
}
