/* cpu/cpu_cache.c: the size of the largest cache of a CPU, as Linux tells it in sysfs. */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu_cache.h"

#include "core/runtime.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

enum { USUAL_BYTES = 32 << 20, MOST_CACHES = 8 };

static int64_t largest;
static pthread_once_t once = PTHREAD_ONCE_INIT;

int64_t gb_cpu_cache_size(const char *folder) {
    char path[256];
    if (snprintf(path, sizeof path, "%s/size", folder) >= (int)sizeof path) {
        return 0;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    uint32_t size = 0; /* "32768K", of kernels to come perhaps "32M" */
    char unit = 0;
    int found = fscanf(file, "%9" SCNu32 "%c", &size, &unit);
    (void)fclose(file);
    return found < 1 ? 0 : (int64_t)size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

static void find_largest(void) {
    for (int i = 0; i < MOST_CACHES; i++) {
        char folder[64];
        (void)snprintf(folder, sizeof folder, "/sys/devices/system/cpu/cpu0/cache/index%d", i);
        int64_t size = gb_cpu_cache_size(folder);
        largest = size > largest ? size : largest;
    }
    largest = largest == 0 ? USUAL_BYTES : largest; /* containers and virtual machines may not tell */
}

int64_t gb_cpu_cache_bytes(void) {
    int asked = gb_settings()->cpu_cache_bytes;
    if (asked >= 0) {
        return asked;
    }
    (void)pthread_once(&once, find_largest);
    return largest;
}
