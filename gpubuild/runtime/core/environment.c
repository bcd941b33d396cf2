/* environment.c: what the environment says. Read once, at the first need, and never again: a program
 * that changes its own environment later must not get two answers. */
#include "core/runtime.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ORDINAL = 63, MAX_THREADS = 4096 };

static struct gb_settings settings = {.check = -1, .cpu_cache_bytes = -1};
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
    static const struct {
        const char *name;
        enum gb_choice choice;
        bool numbered;
    } kinds[] = {
        {"auto", GB_CHOICE_AUTO, false},
        {"cpu", GB_CHOICE_CPU, false},
        {"cuda", GB_CHOICE_CUDA, true},
        {"hip", GB_CHOICE_HIP, true},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t length = strlen(kinds[i].name);
        if (strncmp(text, kinds[i].name, length) != 0) {
            continue;
        }
        settings.choice = kinds[i].choice;
        if (text[length] == '\0') {
            return true;
        }
        return kinds[i].numbered && text[length] == ':' &&
               parse_number(text + length + 1, 0, MAX_ORDINAL, &settings.ordinal);
    }
    return false;
}

static void read_environment(void) {
    const char *device = getenv("GPUBUILD_DEVICE");
    if (device != NULL && device[0] != '\0' && !parse_device(device)) {
        gb_fatal(NULL, "GPUBUILD_DEVICE=%s: not a device; allowed are auto, cpu, cuda, cuda:N, hip and hip:N "
                       "(N from 0 to %d)", device, MAX_ORDINAL);
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
        if (settings.check == 1 && settings.choice == GB_CHOICE_AUTO) {
            settings.choice = GB_CHOICE_CPU;
        }
        if (settings.check == 1 && settings.choice != GB_CHOICE_CPU) {
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
    (void)pthread_once(&once, read_environment); /* fails only for an invalid control, which ours is not */
    return &settings;
}
