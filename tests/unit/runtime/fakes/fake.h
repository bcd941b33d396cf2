/* fake.h: what the fake drivers share: a log of calls, and failures to order.
 *
 * FAKE_LOG      file that every call appends a line to
 * FAKE_FAIL     "cuMemAlloc=2,cuInit=100": the named functions return these codes
 * FAKE_DEVICES  "9.0,8.6" or "gfx90a:sramecc+:xnack-,gfx942": the devices; empty: none
 * FAKE_PARAMS   bytes of each kernel parameter, such as "8,4": launches log the values
 */
#ifndef FAKE_H
#define FAKE_H

#define _GNU_SOURCE
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 1, 2))) static void record(const char *format, ...) {
    const char *path = getenv("FAKE_LOG");
    FILE *log = path != NULL ? fopen(path, "a") : NULL;
    if (log == NULL) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log, format, arguments);
    va_end(arguments);
    fputc('\n', log);
    fclose(log);
}

static int failure_of(const char *function) {
    const char *list = getenv("FAKE_FAIL");
    size_t length = strlen(function);
    while (list != NULL && *list != '\0') {
        if (strncmp(list, function, length) == 0 && list[length] == '=') {
            return atoi(list + length + 1);
        }
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return 0;
}

/* The comma-separated item `index` of the variable, or NULL. */
static inline const char *item_of(const char *variable, int index) {
    static _Thread_local char item[64];
    const char *list = getenv(variable);
    while (list != NULL && *list != '\0') {
        size_t length = strcspn(list, ",");
        if (index-- == 0) {
            snprintf(item, sizeof item, "%.*s", (int)length, list);
            return item;
        }
        list += length;
        list += *list == ',';
    }
    return NULL;
}

static inline int device_count(void) {
    int count = 0;
    while (item_of("FAKE_DEVICES", count) != NULL) {
        count++;
    }
    return count;
}

/* Handles of what a driver makes are small numbers. */
static inline void *new_handle(void) {
    static int handles;
    return (void *)(uintptr_t)(0x1000 + 16 * __atomic_add_fetch(&handles, 1, __ATOMIC_SEQ_CST));
}

/* Set `count` values that lie `pitch` bytes apart. */
static inline void set_parts(void *address, size_t pitch, const void *value, size_t bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)address + pitch * i, value, bytes);
    }
}

static inline void record_params(void **params) {
    for (int i = 0;; i++) {
        const char *bytes = item_of("FAKE_PARAMS", i);
        if (bytes == NULL) {
            return;
        }
        uint64_t value = 0;
        memcpy(&value, params[i], (size_t)atoi(bytes));
        record("  param %d = 0x%llx", i, (unsigned long long)value);
    }
}

#define FAIL_IF_ORDERED(name)                                                                                 \
    do {                                                                                                      \
        int code = failure_of(name);                                                                          \
        if (code != 0) {                                                                                      \
            return code;                                                                                      \
        }                                                                                                     \
    } while (0)

/* Names that begin with PREFIX, of libraries that are for two vendors. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)

#endif
