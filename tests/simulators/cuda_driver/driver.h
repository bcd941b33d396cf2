/* driver.h: a stand-in of the CUDA driver, for tests. It runs the PTX of kernels on the host's processor. It is no GPU.
 *
 * Environment:
 *   EMU_CUDA_DEVICES    compute capabilities of the devices, such as "9.0,7.0"; "7.0" if not set
 *   EMU_CUDA_ORDER      `late` (the default): the work of a stream is done when the program waits for it;
 *                       `early`: at once
 *   EMU_CUDA_BACKWARDS  `1`: the last work-item and subgroup of a workgroup run first
 *   EMU_CUDA_SECONDS    CPU seconds that one launch may take; 20 if not set
 *   EMU_CUDA_MODULES    folder for translated PTX; by default beside this library
 *   EMU_CUDA_BUILD      folders (`:` between) with PTX beside the cubin made from it, which is run instead of the cubin
 *
 * Every call holds one lock, so that one operation is done at a time, in an order that the API allows. A kernel that runs
 * long is interrupted for the work of other streams, for which it may wait.
 */
#ifndef CUDA_DRIVER_DRIVER_H
#define CUDA_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers of cuda.h. */
enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    INVALID_PTX = 218,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
    LAUNCH_TIMEOUT = 702,
    CONTEXT_IS_DESTROYED = 709,
    ASSERT = 710,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    INVALID_CLUSTER_SIZE = 912,
};

enum { MOST_DEVICES = 16, MOST_PARAMETERS = 512, MOST_PARAMETER_BYTES = 32764 };

/* ---- Handles: CUcontext, CUmodule, …; never reused, so that stale ones are detected ---- */

enum kind { NOTHING, A_CONTEXT, A_MODULE, A_FUNCTION, A_STREAM, AN_EVENT };

struct handle {
    enum kind kind; /* NOTHING once it is destroyed */
    struct context *context;
};

/* `bytes` of zeros that begin with a handle. */
void *new_handle(enum kind kind, size_t bytes, struct context *context);
/* Whether `given` is a valid handle of this kind and context; `context` may be NULL: any. */
bool is_handle(const void *given, enum kind kind, const struct context *context);

/* ---- Devices and contexts ---- */

struct chip {
    int major, minor;
    int shared_optin;          /* bytes of workgroup memory that a kernel may be allowed */
};

struct context {
    struct handle handle;
    int device; /* ordinal */
    struct chip chip;
    int error; /* of a kernel: all later calls return it */
};

int device_count(void);
int chip_of(int ordinal, struct chip *chip);
/* The calling thread's, or NULL. */
struct context *current_context(void);

extern const char *const name_of_driver;
bool backwards(void), early(void);
unsigned seconds_of_launch(void);

/* ---- Every call ---- */

void enter(void), leave(void); /* the lock, which a thread may take again */
/* Write to stderr why a call fails; returns `code`. */
int because(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* In a call: the context, or return why there is none. */
#define CALL(context_name)                                                                                             \
    __attribute__((cleanup(left))) char held = 0;                                                                      \
    (void)held;                                                                                                        \
    enter();                                                                                                           \
    struct context *context_name = current_context();                                                                  \
    if (context_name == NULL) {                                                                                        \
        return INVALID_CONTEXT;                                                                                        \
    }                                                                                                                  \
    if (context_name->error != SUCCESS) {                                                                              \
        return context_name->error;                                                                                    \
    }

static inline void left(char *held) {
    (void)held;
    leave();
}

/* ---- Memory ---- */

enum memory_kind { DEVICE_MEMORY, MANAGED_MEMORY, HOST_MEMORY };

struct memory {
    char *address;
    size_t bytes;
    enum memory_kind kind;
    struct context *context;
    struct memory *next;
};

/* The allocation or registered range that contains `address`, or NULL. */
struct memory *memory_at(const void *address);
bool is_device_address(const void *address); /* in the range of device memory, in use or not */
/* Device memory can be accessed only in between. */
void open_memory(void), close_memory(void);
void memory_of_kernels(char *address, size_t bytes); /* malloc in a kernel */

/* ---- Streams: operations in order ---- */

struct stream {
    struct handle handle;
    bool waits_for_default; /* and the default stream waits for it: no CU_STREAM_NON_BLOCKING */
    struct operation *first, **last;
    uint64_t issued, done; /* operations */
    bool busy;             /* its first operation runs */
    struct stream *next;
};

struct mark { /* the operations of a stream up to here */
    struct stream *stream;
    uint64_t count;
};

struct operation {
    int (*act)(struct operation *);
    struct operation *next;
    struct mark after[2]; /* operations of other streams to do first */
    struct context *context;
};

/* NULL and the legacy default stream are one; NULL when `given` is no stream of the context. */
struct stream *stream_of(void *given, struct context *context);
/* Take over `operation`, of malloc. */
int issue(struct stream *stream, struct operation *operation);
int complete(struct mark mark);
int complete_all(struct context *context);
/* Do an operation that has not begun and waits for nothing; false if there is none. */
bool do_another(int *result);

struct event {
    struct handle handle;
    bool timed, recorded;
    struct mark mark;
    uint64_t nanoseconds; /* when it was recorded; 0 before */
};

/* ---- Modules and launches ---- */

/* Facts about a kernel of a translated module; module.py writes them as LLVM IR. */
struct kernel_text {
    const char *name;
    void (*run)(void **arguments);
    const uint32_t *parameters; /* bytes of each */
    const struct emu_memory *shared;
    uint32_t parameter_count, shared_count;
    uint32_t required[3], most[3]; /* work-items of a workgroup; 0: not specified */
    uint32_t most_items;
    uint32_t registers, shared_bytes;
    uint32_t cluster[3];  /* required; 0: not specified */
    uint32_t uses_dynamic;
};

struct module_text {
    const struct kernel_text *kernels;
    char *dynamic;
    uint32_t kernel_count, dynamic_bytes;
    uint32_t chip; /* of `.target`: 60 */
};

struct module {
    struct handle handle;
    void *library;
    const struct module_text *text;
    char *from, *to; /* its memory */
    struct module *next;
    struct function *functions;
};

struct function {
    struct handle handle;
    struct module *module;
    const struct kernel_text *text;
    uint32_t most_dynamic;
    bool wide_clusters;
    struct function *next;
};

/* The loaded module whose code or variables contain `address`. */
struct module *module_at(const void *address);
/* Store the path of the shared object for PTX `text` on `chip`, which is made if necessary. `log` gets the assembler's errors. */
int translated(const char *text, const struct chip *chip, char *path, size_t path_bytes, char *log, size_t log_bytes);
/* The PTX from which this machine code was made, as a new string, or NULL. */
char *ptx_of_cubin(const void *image);

/* Run a kernel to its end; errors of its work-items become the context's error. */
struct emu_launch;
int run_kernel(const struct function *function, const struct emu_launch *launch);

/* Called by work-items before each access. `begins`: it is not the second access of an atomic operation. */
void cuda_check(const void *address, uint64_t bytes, uint32_t begins);

#endif
