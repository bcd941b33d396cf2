/* memory.c: device memory, which the host cannot touch; managed and registered memory; copies and fills.
 *
 * Device memory comes from a separate range and is never reused. It is accessible only while an operation is done, so that
 * a program that uses a device's address on the host ends with SIGSEGV and a message. */
#define _GNU_SOURCE
#include "driver.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POISON = 0xE5, GUARD = 0x3C, PAGE = 4096, ALIGNMENT = 256 };
static const size_t RESERVED = (size_t)1 << 40, CAPACITY = (size_t)16 << 30;

static char *arena;
static size_t used, in_use;
static struct memory *all;
static struct memory *recent; /* the memory of the last checked address */
static struct sigaction before;

static size_t rounded(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

/* ---- the host's faults ---- */

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (is_device_address(info->si_addr)) {
        char text[300];
        int length = snprintf(text, sizeof text,
                              "%s: the host reads or writes device memory, at %p, or a kernel reads or writes memory of another device\n",
                              name_of_driver, info->si_addr);
        (void)!write(STDERR_FILENO, text, (size_t)length);
    }
    sigaction(number, &before, NULL); /* the instruction faults again, in the previous handler */
}

static bool reserve(void) {
    if (arena != NULL) {
        return true;
    }
    arena = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) {
        arena = NULL;
        return false;
    }
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, &before);
    return true;
}

bool is_device_address(const void *address) {
    return arena != NULL && (const char *)address >= arena && (const char *)address < arena + RESERVED;
}

/* ---- ranges ---- */

static struct memory *add(char *address, size_t bytes, enum memory_kind kind, struct context *context) {
    struct memory *memory = calloc(1, sizeof *memory);
    *memory = (struct memory){.address = address, .bytes = bytes, .kind = kind, .context = context, .next = all};
    all = memory;
    return memory;
}

static void forget(struct memory *memory) {
    struct memory **link = &all;
    while (*link != memory) {
        link = &(*link)->next;
    }
    *link = memory->next;
    recent = NULL;
    free(memory);
}

struct memory *memory_at(const void *address) {
    for (struct memory *m = all; m != NULL; m = m->next) {
        if ((const char *)address >= m->address && (const char *)address < m->address + m->bytes) {
            return m;
        }
    }
    return NULL;
}

void memory_of_kernels(char *address, size_t bytes) {
    add(address, bytes, MANAGED_MEMORY, NULL);
}

/* The pages of an allocation, which ends at the end of the last page, except for alignment. */
static char *pages_of(const struct memory *memory, size_t *bytes) {
    *bytes = rounded(rounded(memory->bytes, ALIGNMENT), PAGE);
    return memory->address + rounded(memory->bytes, ALIGNMENT) - *bytes;
}

static void protect(int protection) {
    for (const struct memory *m = all; m != NULL; m = m->next) {
        if (m->kind == DEVICE_MEMORY) {
            size_t bytes;
            char *pages = pages_of(m, &bytes);
            mprotect(pages, bytes, protection);
        }
    }
}

void open_memory(void) {
    protect(PROT_READ | PROT_WRITE);
}

void close_memory(void) {
    protect(PROT_NONE);
}

/* Why operations of the context must not access these bytes; NULL if they may. */
static const char *wrong_range(const void *address, size_t bytes, const struct context *context) {
    const struct memory *memory = memory_at(address);
    if (memory == NULL) {
        return is_device_address(address) ? "is in no allocation, or one that was freed" : NULL;
    }
    if (bytes > (size_t)(memory->address + memory->bytes - (const char *)address)) {
        return "has fewer bytes behind it";
    }
    return memory->kind == DEVICE_MEMORY && memory->context != context ? "is another device's" : NULL;
}

/* ---- allocations ---- */

static int allocate(uint64_t *result, size_t bytes, enum memory_kind kind) {
    CALL(context);
    size_t pages = rounded(rounded(bytes, ALIGNMENT), PAGE);
    if (bytes == 0) {
        return INVALID_VALUE;
    }
    if (!reserve() || bytes > CAPACITY - in_use || pages + PAGE > RESERVED - used) {
        return OUT_OF_MEMORY;
    }
    char *first;
    if (kind == DEVICE_MEMORY) {
        first = arena + used;
        used += pages + PAGE;
        if (mprotect(first, pages, PROT_READ | PROT_WRITE) != 0) {
            return OUT_OF_MEMORY;
        }
    } else {
        first = mmap(NULL, pages + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (first == MAP_FAILED) {
            return OUT_OF_MEMORY;
        }
        mprotect(first + pages, PAGE, PROT_NONE);
    }
    char *address = first + pages - rounded(bytes, ALIGNMENT);
    if (bytes <= (size_t)64 << 20) { /* else every page would be used */
        memset(address, POISON, bytes);
    }
    memset(address + bytes, GUARD, rounded(bytes, ALIGNMENT) - bytes);
    if (kind == DEVICE_MEMORY) {
        mprotect(first, pages, PROT_NONE);
    }
    in_use += bytes;
    add(address, bytes, kind, context);
    *result = (uint64_t)(uintptr_t)address;
    return SUCCESS;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    return allocate(address, bytes, DEVICE_MEMORY);
}

int cuMemAllocManaged(uint64_t *address, size_t bytes, unsigned flags) {
    return flags == 1 || flags == 2 ? allocate(address, bytes, MANAGED_MEMORY) : INVALID_VALUE;
}

int cuMemGetInfo_v2(size_t *available, size_t *total) {
    CALL(context);
    *available = CAPACITY - in_use;
    *total = CAPACITY;
    return SUCCESS;
}

int cuMemFree_v2(uint64_t given) {
    CALL(context);
    char *address = (char *)(uintptr_t)given; /* NOLINT: device addresses are numbers */
    if (address == NULL) {
        return SUCCESS;
    }
    struct memory *memory = memory_at(address);
    if (memory == NULL || memory->address != address || memory->kind == HOST_MEMORY) {
        return because(INVALID_VALUE, "cuMemFree of %p, where no allocation begins: freed twice, or never allocated",
                       (void *)address);
    }
    int result = complete_all(memory->context);
    if (result != SUCCESS) {
        return result;
    }
    size_t bytes;
    char *pages = pages_of(memory, &bytes);
    mprotect(pages, bytes, PROT_READ | PROT_WRITE);
    for (size_t i = memory->bytes; i < rounded(memory->bytes, ALIGNMENT); i++) {
        if (address[i] != GUARD) {
            result = because(ILLEGAL_ADDRESS, "a write %zu bytes behind the end of an allocation of %zu bytes",
                             i - memory->bytes, memory->bytes);
            break;
        }
    }
    mmap(pages, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    in_use -= memory->bytes;
    context->error = result;
    forget(memory);
    return result;
}

/* ---- registered host memory ---- */

int cuMemHostRegister_v2(void *given, size_t bytes, unsigned flags) {
    CALL(context);
    char *address = given;
    if (address == NULL || bytes == 0 || flags > 15 || is_device_address(address)) {
        return INVALID_VALUE;
    }
    for (const struct memory *m = all; m != NULL; m = m->next) {
        if (m->address < address + bytes && address < m->address + m->bytes) {
            return ALREADY_REGISTERED;
        }
    }
    add(address, bytes, HOST_MEMORY, context);
    return SUCCESS;
}

int cuMemHostUnregister(void *address) {
    CALL(context);
    struct memory *memory = memory_at(address);
    if (memory == NULL || memory->address != address || memory->kind != HOST_MEMORY) {
        return NOT_REGISTERED;
    }
    int result = complete_all(memory->context);
    forget(memory);
    return result;
}

int cuMemHostGetDevicePointer_v2(uint64_t *result, void *address, unsigned flags) {
    CALL(context);
    const struct memory *memory = memory_at(address);
    if (flags != 0 || memory == NULL || memory->kind != HOST_MEMORY) {
        return INVALID_VALUE;
    }
    *result = (uint64_t)(uintptr_t)address;
    return SUCCESS;
}

/* ---- copies and fills ---- */

struct copy {
    struct operation operation;
    char *to, *from;
    size_t bytes;
};

static int do_copy(struct operation *operation) {
    const struct copy *copy = (struct copy *)operation;
    open_memory();
    memmove(copy->to, copy->from, copy->bytes);
    close_memory();
    return SUCCESS;
}

static int refuse(const char *call, const void *address, size_t bytes, const char *why) {
    return because(INVALID_VALUE, "%s of %zu bytes: %p %s", call, bytes, address, why);
}

int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *given) {
    CALL(context);
    struct stream *stream = stream_of(given, context);
    if (stream == NULL) {
        return INVALID_HANDLE;
    }
    char *target = (char *)(uintptr_t)to, *source = (char *)(uintptr_t)from;
    if (bytes == 0) {
        return SUCCESS;
    }
    for (int i = 0; i < 2; i++) {
        const char *address = i == 0 ? target : source;
        const char *why = wrong_range(address, bytes, context);
        if (why != NULL) {
            return refuse("cuMemcpyAsync", address, bytes, why);
        }
    }
    struct copy *copy = calloc(1, sizeof *copy);
    *copy = (struct copy){.operation = {.act = do_copy, .context = context}, .to = target, .from = source, .bytes = bytes};
    return issue(stream, &copy->operation);
}

struct fill {
    struct operation operation;
    char *to;
    size_t pitch, width, height; /* bytes, elements, rows */
    uint32_t value;
    unsigned element;
};

static int do_fill(struct operation *operation) {
    const struct fill *fill = (struct fill *)operation;
    open_memory();
    for (size_t row = 0; row < fill->height; row++) {
        for (size_t i = 0; i < fill->width; i++) {
            memcpy(fill->to + row * fill->pitch + i * fill->element, &fill->value, fill->element);
        }
    }
    close_memory();
    return SUCCESS;
}

static int fill(uint64_t to, size_t pitch, uint32_t value, unsigned element, size_t width, size_t height, void *given) {
    CALL(context);
    struct stream *stream = stream_of(given, context);
    if (stream == NULL) {
        return INVALID_HANDLE;
    }
    char *address = (char *)(uintptr_t)to;
    if (to % element != 0 || (height > 1 && (pitch < width * element || pitch % element != 0))) {
        return because(INVALID_VALUE, "cuMemset of elements of %u bytes at %p, rows %zu bytes apart: not aligned, or overlapping",
                       element, (void *)address, pitch);
    }
    if (width == 0 || height == 0) {
        return SUCCESS;
    }
    size_t bytes = (height - 1) * pitch + width * element;
    const char *why = memory_at(address) == NULL ? "is no device memory" : wrong_range(address, bytes, context);
    if (why != NULL) {
        return refuse("cuMemset", address, bytes, why);
    }
    struct fill *operation = calloc(1, sizeof *operation);
    *operation = (struct fill){.operation = {.act = do_fill, .context = context}, .to = address, .pitch = pitch,
                               .width = width, .height = height, .value = value, .element = element};
    return issue(stream, &operation->operation);
}

int cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void *stream) {
    return fill(to, 0, value, 4, count, 1, stream);
}
int cuMemsetD16Async(uint64_t to, unsigned short value, size_t count, void *stream) {
    return fill(to, 0, value, 2, count, 1, stream);
}
int cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void *stream) {
    return fill(to, 0, value, 1, count, 1, stream);
}
int cuMemsetD2D32Async(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height, void *stream) {
    return fill(to, pitch, value, 4, width, height, stream);
}
int cuMemsetD2D16Async(uint64_t to, size_t pitch, unsigned short value, size_t width, size_t height, void *stream) {
    return fill(to, pitch, value, 2, width, height, stream);
}
int cuMemsetD2D8Async(uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height, void *stream) {
    return fill(to, pitch, value, 1, width, height, stream);
}

/* ---- a work-item's address ---- */

const struct memory *memory_for(const void *address, uint64_t bytes, const struct context *context, const char **why) {
    const char *at = address;
    if (recent == NULL || at < recent->address || at >= recent->address + recent->bytes) {
        recent = memory_at(at);
    }
    if (recent == NULL) {
        *why = is_device_address(at) ? "which is in no allocation, or one that was freed" : "which is host memory, not registered";
        return NULL;
    }
    if (bytes > (size_t)(recent->address + recent->bytes - at)) {
        *why = "which leaves its allocation";
        return NULL;
    }
    if (recent->kind == DEVICE_MEMORY && recent->context != context) {
        *why = "which is another device's memory";
        return NULL;
    }
    return recent;
}
