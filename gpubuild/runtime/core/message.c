/* message.c: fatal errors, traces, and allocations that cannot fail. */
#define _GNU_SOURCE /* program_invocation_short_name, vasprintf */
#include "core/runtime.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void gb_write_bytes(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDERR_FILENO, text, length);
        if (written < 0) {
            if (errno == EINTR) {
                continue;
            }
            return; /* stderr itself fails: nowhere to report it */
        }
        text += written;
        length -= (size_t)written;
    }
}

/* The bytes of a control character at the start of the text; 0: there is none. Control characters are C0 except newline
 * and tab, DEL, and C1. Names come from files, and a terminal would obey these characters. */
static size_t control_bytes(const unsigned char *text) {
    if (text[0] == 0xc2) {
        return text[1] >= 0x80 && text[1] <= 0x9f ? 2 : 0;
    }
    return text[0] == 0x7f || (text[0] < 0x20 && text[0] != '\n' && text[0] != '\t') ? 1 : 0;
}

void gb_write(const char *text) {
    char *line = gb_allocate(4 * strlen(text) + 1); /* one byte becomes four characters, two become six */
    char *end = line;
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0';) {
        size_t bytes = control_bytes(at);
        if (bytes == 0) {
            *end++ = (char)*at++;
            continue;
        }
        end += sprintf(end, bytes == 1 ? "\\x%02x" : "\\u%04x", at[bytes - 1]);
        at += bytes;
    }
    gb_write_bytes(line, (size_t)(end - line));
    free(line);
}

static _Noreturn void out_of_memory(void) {
    static const char message[] = "gpubuild: out of host memory\n";
    (void)fflush(stdout);
    gb_write_bytes(message, sizeof message - 1);
    _exit(1);
}

void *gb_allocate(size_t bytes) {
    void *memory = calloc(1, bytes > 0 ? bytes : 1);
    if (memory == NULL) {
        out_of_memory();
    }
    return memory;
}

/* As long as needed: the log of a driver's compiler may have thousands of lines. */
static char *format_text(const char *format, va_list arguments) {
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0) {
        out_of_memory();
    }
    return text;
}

char *gb_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = format_text(format, arguments);
    va_end(arguments);
    return text;
}

static _Atomic(void (*)(void)) at_fatal;

void gb_at_fatal(void (*function)(void)) {
    at_fatal = function;
}

/* ---- what a thread executes ---- */

static const struct gb_where nowhere;
static _Thread_local const struct gb_where *inside;

const struct gb_where *gb_enter(const struct gb_where *where) {
    const struct gb_where *before = inside;
    inside = where;
    return before;
}

const struct gb_where *gb_inside(void) {
    return inside != NULL ? inside : &nowhere;
}

static const char *either(const char *one, const char *other) {
    return one != NULL ? one : other;
}

/* The location of the operation, else of the kernel's function; NULL where nothing is known. */
static char *location_of(const struct gb_where *where) {
    if (where->location != NULL) {
        return gb_location_text(where->location);
    }
    return where->module != NULL && where->kernel != NULL ? gb_kernel_location_text(where->module, where->kernel) : NULL;
}

/* ---- failures that a caller handles ---- */

enum { MAX_LOCKS = 8 }; /* that a thread holds at once */

struct gb_trap {
    jmp_buf jump;
    const struct gb_where *inside;
    int locks;
    struct gb_trap *outer;
};

static _Thread_local struct gb_trap *trap;
static _Thread_local pthread_mutex_t *locks[MAX_LOCKS];
static _Thread_local int lock_count;
static _Thread_local char *failure;

void gb_lock(pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    if (lock_count == MAX_LOCKS) {
        abort();
    }
    locks[lock_count++] = lock;
}

void gb_unlock(pthread_mutex_t *lock) {
    int at = lock_count - 1;
    while (at > 0 && locks[at] != lock) { /* locks may be released in another order */
        at--;
    }
    for (lock_count--; at < lock_count; at++) {
        locks[at] = locks[at + 1];
    }
    pthread_mutex_unlock(lock);
}

const char *gb_try(void (*function)(void **), void **arguments) {
    struct gb_trap here = {.inside = inside, .locks = lock_count, .outer = trap};
    free(failure);
    failure = NULL;
    trap = &here;
    if (setjmp(here.jump) == 0) {
        function(arguments);
        trap = here.outer;
    }
    return failure;
}

struct gb_trap *gb_try_suspend(void) {
    struct gb_trap *before = trap;
    trap = NULL;
    return before;
}

void gb_try_resume(struct gb_trap *before) {
    trap = before;
}

/* Return from the innermost gb_try of this thread with `text`, if there is one. */
static void leave_try(char *text) {
    struct gb_trap *to = trap;
    if (to == NULL) {
        return;
    }
    while (lock_count > to->locks) {
        gb_unlock(locks[lock_count - 1]);
    }
    failure = text;
    inside = to->inside;
    trap = to->outer;
    longjmp(to->jump, 1);
}

_Noreturn void gb_fatal(const struct gb_where *where, const char *format, ...) {
    const struct gb_where *given = where != NULL ? where : &nowhere;
    const struct gb_where *around = gb_inside();
    /* During a launch host code may execute another operation, such as the wait; settings belong to no operation. */
    const char *host = where != NULL && inside == NULL ? gb_host_location() : NULL;
    const struct gb_where w = {.module = either(given->module, around->module),
                               .kernel = either(given->kernel, around->kernel),
                               .target = either(given->target, around->target),
                               .location = either(given->location, around->location != NULL ? around->location : host),
                               .device = either(given->device, around->device),
                               .call = either(given->call, around->call)};
    char *location = location_of(&w);
    const char *const names[] = {"program", "module", "kernel", "target", "location", "device", "call"};
    const char *const values[] = {program_invocation_short_name, w.module, w.kernel, w.target, location, w.device, w.call};

    va_list arguments;
    va_start(arguments, format);
    char *text = gb_text("gpubuild: %s\n", format_text(format, arguments));
    va_end(arguments);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (values[i] != NULL && values[i][0] != '\0') {
            text = gb_text("%s  %s: %s\n", text, names[i], values[i]);
        }
    }
    leave_try(text);
    (void)fflush(stdout);
    void (*before)(void) = at_fatal;
    if (before != NULL) {
        before();
    }
    gb_write(text);
    _exit(1);
}

/* For a cf.assert of host code (engine/host/call_locations.py). */
void gpubuildAssertionFailed(const char *message) {
    gb_fatal(&nowhere, "assertion failed: %s", message);
}

_Noreturn void gb_fatal_driver(const struct gb_where *where, const char *function, int result, const char *name,
                               const char *text, const char *details) {
    struct gb_where at = *where;
    at.call = where->call != NULL ? gb_text("%s (in %s)", function, where->call) : function;
    gb_fatal(&at, "%s failed with %s (%d): %s%s%s", function, name, result, text, details != NULL ? "; " : "",
             details != NULL ? details : "");
}

char *gb_kernel_failure(int result, const char *variable) {
    if (result != 700 && (result < 710 || result > 719)) {
        return NULL;
    }
    return gb_text("a kernel that was launched before this call failed%s\n"
                   "  what to do: set %s, and the launch itself reports the failure with its location; or run on the CPU,\n"
                   "    built for a target with `sanitize: [bounds]` or `[host-memory]`, which names the access",
                   result == 700 ? ", for example because it accessed memory of the host" : "", variable);
}

void gb_trace(const char *format, ...) {
    if (!gb_settings()->trace) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    char *message = format_text(format, arguments);
    va_end(arguments);
    char *line = gb_text("gpubuild: trace: %s\n", message);
    gb_write(line);
    free(line);
    free(message);
}
