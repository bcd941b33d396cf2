/* handles.c: handles, the lock, and messages. */
#define _GNU_SOURCE
#include "driver.h"

#include "core/runtime.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOT_BYTES = 256, RESERVED_BYTES = 1 << 30 };

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *slots;
static size_t used;

static void make_lock(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attributes);
}

void enter(void) {
    pthread_once(&once, make_lock);
    pthread_mutex_lock(&lock);
}

void leave(void) {
    pthread_mutex_unlock(&lock);
}

int because(int code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%s: ", name_of_driver);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return code;
}

void *new_handle(enum kind kind, size_t bytes, struct context *context) {
    if (slots == NULL) {
        slots = mmap(NULL, RESERVED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    if (slots == MAP_FAILED || used + SLOT_BYTES > RESERVED_BYTES || bytes > SLOT_BYTES) {
        because(OUT_OF_MEMORY, "no room for more handles");
        abort();
    }
    struct handle *handle = (struct handle *)(void *)(slots + used);
    used += SLOT_BYTES;
    handle->kind = kind;
    handle->context = context;
    return handle;
}

bool is_handle(const void *given, enum kind kind, const struct context *context) {
    uintptr_t at = (uintptr_t)given, first = (uintptr_t)slots;
    if (slots == NULL || at < first || at >= first + used || (at - first) % SLOT_BYTES != 0) {
        return false;
    }
    const struct handle *handle = given;
    return handle->kind == kind && (context == NULL || handle->context == context);
}

/* The runtime's fibers call it when there is no memory. */
_Noreturn void gb_fatal(const struct gb_where *where, const char *format, ...) {
    (void)where;
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    abort();
}
