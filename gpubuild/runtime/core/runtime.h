/* runtime.h: settings, messages, source locations and the few types that every part of libgpubuild_rt shares.
 *
 * The public functions of the library are those of abi/ and mlir_utils/. MLIR declares them by itself, so there is no
 * header to install.
 */
#ifndef GPUBUILD_RT_H
#define GPUBUILD_RT_H

#include "core/vendors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GB_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define GB_PRINTF(format_index, first_argument)
#endif

/* For functions that a program may define itself. MLIR does so for every one of them that is declared with
 * llvm.emit_c_interface: `printMemrefF32` is then a wrapper of the program's around `_mlir_ciface_printMemrefF32`. */
#define GB_WEAK __attribute__((weak))

/* A count of work-items or workgroups per axis; every axis is at least 1. */
struct gb_dim3 {
    uint32_t x, y, z;
};

/* ---- Settings (core/environment.c) ------------------------------------------------------------------- */

struct gb_settings {
    enum gb_vendor vendor; /* GPUBUILD_DEVICE; GB_VENDOR_UNKNOWN: auto */
    int ordinal;           /* the N of cuda:N, else 0 */
    int cpu_threads;       /* GPUBUILD_CPU_THREADS; 0: not set, use every CPU the process may run on */
    int cpu_cache_bytes;   /* GPUBUILD_CPU_CACHE_BYTES; -1: not set, use the size that Linux lists */
    bool trace;            /* GPUBUILD_TRACE */
    int check;             /* GPUBUILD_CHECK: 1: checked CPU images only, 0: no checked ones, -1: not set */
    const char *profile;   /* GPUBUILD_PROFILE: a file; NULL when not set */
    const char *check_suppressions; /* GPUBUILD_CHECK_SUPPRESSIONS: a file; NULL when not set */
};

/* The settings at the first call; a malformed value is fatal. Thread-safe. */
const struct gb_settings *gb_settings(void);

/* ---- Messages (core/message.c) --------------------------------------------------------------- */

/* Where something happened. Members are NULL where unknown or not meaningful. */
struct gb_where {
    const char *module; /* the gpu.module's name */
    const char *kernel;
    const char *target; /* of the image in use, such as "hopper (sm_90a, cubin)" */
    const char *location;  /* the operation of the source, as gb_host_location gives it */
    const char *device; /* such as "cuda:0 (NVIDIA H100 80GB HBM3, sm_90)" */
    const char *call;   /* the function that failed, such as "cuModuleLoadData" or "mgpuMemcpy" */
};

/* Flush stdout, write "gpubuild: <message>" and a line per known member of `where` (may be NULL)
 * to stderr in one piece, and end the process with code 1. Members that are
 * NULL are taken from the thread's launch (gb_enter); the location else from host code (gb_host_location).
 *
 * It ends with _exit: a failure can come from any thread and from a destructor, where running
 * the program's remaining destructors would touch a device that has just failed. */
_Noreturn void gb_fatal(const struct gb_where *where, const char *format, ...) GB_PRINTF(2, 3);

/* The same for a function of a driver: `name` and `text` describe its `result`; `details` (may be NULL) are the arguments. */
_Noreturn void gb_fatal_driver(const struct gb_where *where, const char *function, int result, const char *name,
                               const char *text, const char *details);

/* With GPUBUILD_TRACE=1 write "gpubuild: trace: <message>" and a newline to stderr, in one piece. */
void gb_trace(const char *format, ...) GB_PRINTF(1, 2);

/* Have `function` called when gb_fatal is about to write its message. */
void gb_at_fatal(void (*function)(void));

/* From now on this thread executes `where`, a launch or the work of one, which must live as long; NULL: none. Returns
 * what it executed before, for the gb_enter at the end. */
const struct gb_where *gb_enter(const struct gb_where *where);
/* The argument of the latest gb_enter; never NULL. */
const struct gb_where *gb_inside(void);

/* Write text to stderr in one piece, with control characters spelt out. */
void gb_write(const char *text);

/* malloc, calloc and formatted text that are fatal when memory runs out; free() what they return. */
void *gb_allocate(size_t bytes);
char *gb_text(const char *format, ...) GB_PRINTF(1, 2);

/* ---- Source locations (core/location.c) ------------------------------------------------------- */

/* The operation that host code of this thread executes, as its latest gpubuildPlace named it, or NULL. Its form is
 * "gpu.launch_func in @main" with " at FILE:LINE:COLUMN" behind it, or "#ADDRESS" (engine/ir/locations.py). */
const char *gb_host_location(void);

/* Such a location for messages: "FILE:LINE:COLUMN (gpu.launch_func in @main)", or less where less is known; free() it. */
char *gb_location_text(const char *location);
/* The same with the operation first, as in "gpu.barrier at FILE:LINE:COLUMN"; free() it. */
char *gb_site_text(const char *site);
/* Where the function of a kernel is: "FILE:LINE:COLUMN (gpu.func @name)"; free() it. */
char *gb_kernel_location_text(const char *module, const char *kernel);

/* The program's file; "" if that is unknown. With the NUL it takes at most `size` bytes. */
void gb_program_path(char *path, size_t size);

#endif
