/* runtime.h: settings, messages, source locations, and what else every part of libgpubuild_rt uses.
 *
 * The public functions of the library are in abi/ and mlir_utils/. MLIR declares them itself, so no header is installed.
 */
#ifndef GPUBUILD_RT_H
#define GPUBUILD_RT_H

#include "core/vendors.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GB_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))

/* For functions that a program may define, too. MLIR does for functions declared with llvm.emit_c_interface: the program
 * then defines `printMemrefF32` as a wrapper around `_mlir_ciface_printMemrefF32`. */
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

/* Facts about an operation, for messages. NULL: unknown, or not meaningful. */
struct gb_where {
    const char *module; /* the gpu.module's name */
    const char *kernel;
    const char *target; /* of the image in use, such as "hopper (sm_90a, cubin)" */
    const char *location;  /* the operation of the source, as of gb_host_location */
    const char *device; /* such as "cuda:0 (NVIDIA H100 80GB HBM3, sm_90)" */
    const char *call;   /* the function that failed, such as "cuModuleLoadData" or "mgpuMemcpy" */
};

/* Flush stdout, write "gpubuild: <message>" and a line per known member of `where` (may be NULL) to stderr in one piece, and
 * end the process with code 1. Members that are NULL come from the thread's launch (gb_enter), else the location from host
 * code (gb_host_location).
 *
 * It ends with _exit: a failure may be in any thread and in a destructor, and the program's other destructors would use a
 * device that has just failed. */
_Noreturn void gb_fatal(const struct gb_where *where, const char *format, ...) GB_PRINTF(2, 3);

/* The same for a failed function of a driver; `name` and `text` describe its `result`, `details` (may be NULL) add to it. */
_Noreturn void gb_fatal_driver(const struct gb_where *where, const char *function, int result, const char *name,
                               const char *text, const char *details);
/* What to say of an error of CUDA or HIP, which share these numbers, that an earlier kernel caused; else NULL. `variable`
 * makes the driver wait for each launch. */
char *gb_kernel_failure(int result, const char *variable);

/* With GPUBUILD_TRACE=1 write "gpubuild: trace: <message>" and a newline to stderr, in one piece. */
void gb_trace(const char *format, ...) GB_PRINTF(1, 2);

/* Call `function(arguments)`. Returns NULL, or the message of a gb_fatal in this thread, which then returns here instead of
 * ending the process; it is valid until the thread's next call. Locks are released; what the functions in between have
 * allocated is not. Failures of kernels on the CPU end the process also here. */
const char *gb_try(void (*function)(void **), void **arguments);

/* Let failures of this thread end the process until gb_try_resume: other threads depend on what it does now. */
struct gb_trap *gb_try_suspend(void);
void gb_try_resume(struct gb_trap *trap);

/* pthread_mutex_lock and pthread_mutex_unlock; gb_try knows these locks. */
void gb_lock(pthread_mutex_t *lock);
void gb_unlock(pthread_mutex_t *lock);

/* Call `function` in gb_fatal before it writes its message. */
void gb_at_fatal(void (*function)(void));

/* Set the launch that this thread executes, for messages; NULL: none. `where` must live until the next call. Returns the
 * previous value, for the gb_enter at the end. */
const struct gb_where *gb_enter(const struct gb_where *where);
/* The argument of the latest gb_enter; never NULL. */
const struct gb_where *gb_inside(void);

/* Write bytes to stderr, in one piece if possible, so that messages of several threads do not mix. Async-signal-safe. */
void gb_write_bytes(const char *text, size_t length);

/* Write text to stderr in one piece, with control characters escaped. */
void gb_write(const char *text);

/* malloc, calloc and formatted text that are fatal when memory runs out; free() what they return. */
void *gb_allocate(size_t bytes);
char *gb_text(const char *format, ...) GB_PRINTF(1, 2);

/* ---- Source locations (core/location.c) ------------------------------------------------------- */

/* The operation that host code of this thread executes, as its latest gpubuildPlace named it, or NULL. Its form is
 * "gpu.launch_func in @main" with " at FILE:LINE:COLUMN" behind it, or "#ADDRESS" (engine/ir/locations.py). */
const char *gb_host_location(void);

/* Such a location for messages: "FILE:LINE:COLUMN (gpu.launch_func in @main)", or the known part of it; free() it. */
char *gb_location_text(const char *location);
/* The same with the operation first, as in "gpu.barrier at FILE:LINE:COLUMN"; free() it. */
char *gb_site_text(const char *site);
/* The location of a kernel's function: "FILE:LINE:COLUMN (gpu.func @name)"; free() it. */
char *gb_kernel_location_text(const char *module, const char *kernel);

/* The file of the program or, in a shared library, of the library; "" if that is unknown. `size` includes the NUL. */
void gb_program_path(char *path, size_t size);

/* ---- Drivers' libraries, unloading, and locks over fork (core/process.c) -------------------------------- */

/* The library of the first name that can be opened, or NULL and the loader's reason (free() it). NULL ends the names. */
void *gb_library_open(const char *const *names, char **why);

/* Store the address of `symbol`, or NULL where it is missing, in the function pointer at `function`. */
void gb_library_symbol(void *library, const char *symbol, void *function);

/* The file of the shared library that contains this code; NULL: it is part of the program itself. */
const char *gb_library_path(void);

/* Keep the library that contains this code loaded until the process ends, since threads run it. Locks the loader. */
void gb_library_stay(void);

/* Nanoseconds of a monotonic clock. */
uint64_t gb_now_ns(void);

/* Locks that are free in a child of fork, which has no copy of the threads that hold them. In the order in which a thread
 * may take them while it holds others. */
enum gb_fork_rank {
    GB_FORK_CONSTANTS,
    GB_FORK_MODULES,
    GB_FORK_FINDINGS,
    GB_FORK_IMAGES,
    GB_FORK_TASKS,
    GB_FORK_STREAMS,
    GB_FORK_PROFILE,
    GB_FORK_REGISTERED,
    GB_FORK_MEMORY,
    GB_FORK_RANKS
};

/* Take the lock around every fork from now on. Called once for each lock, from a constructor: before threads start. */
void gb_guard_fork(enum gb_fork_rank rank, pthread_mutex_t *lock);

#endif
