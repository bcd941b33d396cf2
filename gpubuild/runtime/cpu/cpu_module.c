/* cpu_module.c: CPU objects: loaded from bytes in memory, and the services that their kernels call. */
#define _GNU_SOURCE
#include "cpu/cpu_device.h"
#include "sanitizer/sanitizer.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct gb_cpu_module {
    void *library;
    int file; /* open as long as the module is loaded: its number is part of the path that dlopen remembers */
    const gb_cpu_image *image;
    struct gb_cpu_module *next;
};

static struct gb_cpu_module *modules;
static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;

/* Images call the mathematics of the C library without linking it. */
static void load_math(void) {
    (void)dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL); /* other C libraries have it built in */
}

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_IMAGES, &modules_lock);
}

static int file_with(const void *data, size_t size, const struct gb_where *where) {
    /* glibc has a function for it since 2.27. */
    int file = (int)syscall(SYS_memfd_create, "gpubuild-cpu-image", MFD_CLOEXEC);
    if (file < 0) {
        gb_fatal(where, "no memory for a CPU image: memfd_create: %s", strerror(errno));
    }
    const char *at = data;
    while (size > 0) {
        ssize_t written = write(file, at, size);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            gb_fatal(where, "cannot copy a CPU image: %s", strerror(errno));
        }
        at += written;
        size -= (size_t)written;
    }
    return file;
}

/* ---- services ---- */

static int print_text(gb_cpu_item *item, const char *format, ...) {
    (void)item;
    va_list arguments;
    va_start(arguments, format);
    int printed = vprintf(format, arguments); /* locks the stream: the text stays in one piece */
    va_end(arguments);
    return printed;
}

static void assert_fail(gb_cpu_item *item, const char *message, const char *file, uint32_t line,
                        uint32_t column) {
    const struct gb_where where = gb_cpu_where(item->kernel);
    const uint32_t *block = item->block_id;
    const uint32_t *id = item->thread_id;
    if (file[0] == '-' || file[0] == '(') { /* text without the user's locations */
        gb_fatal(&where, "assertion failed: %s, in workgroup (%u, %u, %u), work-item (%u, %u, %u)", message, block[0],
                 block[1], block[2], id[0], id[1], id[2]);
    }
    gb_fatal(&where, "%s:%u:%u: assertion failed: %s, in workgroup (%u, %u, %u), work-item (%u, %u, %u)", file, line,
             column, message, block[0], block[1], block[2], id[0], id[1], id[2]);
}

static void diverged(gb_cpu_item *item, uint32_t site, uint64_t bits, uint32_t lanes) {
    const unsigned char *arrives = (const unsigned char *)(uintptr_t)bits;
    const uint32_t *size = item->block_dim;
    uint32_t items = size[0] * size[1] * size[2];
    uint32_t group = lanes == 0 ? items : lanes;
    uint32_t arrived = 0, expected = 0, absent = 0;
    for (uint32_t first = 0; first < items && (arrived == 0 || arrived == expected); first += group) {
        arrived = 0;
        expected = items - first < group ? items - first : group;
        for (uint32_t i = expected; i-- > 0;) {
            arrived += arrives[first + i];
            absent = arrives[first + i] == 0 ? first + i : absent;
        }
    }
    const struct gb_where where = gb_cpu_where(item->kernel);
    const uint32_t *block = item->block_id;
    gb_fatal(&where,
             "in workgroup (%u, %u, %u) %u of %u work-items wait at %s, but work-item (%u, %u, %u) does not reach it; "
             "all work-items must execute the same barriers",
             block[0], block[1], block[2], arrived, expected, gb_site_text(gb_cpu_site_name(item->kernel, site)), absent % size[0],
             absent / size[0] % size[1], absent / size[0] / size[1]);
}

static const gb_cpu_services services = {
    .barrier = gb_cpu_barrier,
    .cluster_barrier = gb_cpu_cluster_barrier,
    .lanes = gb_cpu_lanes,
    .print = print_text,
    .assert_fail = assert_fail,
    .time_ns = gb_now_ns,
    .check_bounds = gb_check_bounds,
    .check_view = gb_check_view,
    .check_access = gb_check_access,
    .check_meet = gb_check_meet,
    .check_wait = gb_check_wait,
    .diverged = diverged,
};

/* ---- modules ---- */

gb_cpu_module *gb_cpu_module_load(const void *data, size_t size, const char *module_name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_math);
    const struct gb_where where = {.module = module_name, .device = "cpu", .call = "dlopen"};
    struct gb_cpu_module *module = gb_allocate(sizeof *module);
    module->file = file_with(data, size, &where);
    char path[64];
    /* Not /proc/self: a debugger opens libraries by name in its own process, where the number may be that of a pipe, for
     * whose other end it would wait. */
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), module->file);
    if (access(path, R_OK) != 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", module->file); /* /proc of another PID namespace */
    }
    module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module->library == NULL) {
        const char *reason = dlerror();
        gb_fatal(&where, "the CPU image cannot be loaded: %s", reason != NULL ? reason : "unknown reason");
    }
    /* A library that clang linked contains the images of all modules of the program. */
    char *own = gb_text("%s.%s", GB_CPU_IMAGE_SYMBOL, module_name);
    gb_cpu_image *image = dlsym(module->library, own);
    free(own);
    if (image == NULL) {
        image = dlsym(module->library, GB_CPU_IMAGE_SYMBOL);
    }
    if (image == NULL || image->magic != GB_CPU_IMAGE_MAGIC) {
        gb_fatal(&where, "the shared object is not a CPU image: it has no %s", GB_CPU_IMAGE_SYMBOL);
    }
    if (image->abi != GB_CPU_IMAGE_ABI) {
        gb_fatal(&where, "the CPU image has ABI version %u, and this program's runtime has %u; build both again", image->abi,
                 GB_CPU_IMAGE_ABI);
    }
    image->services = &services;
    module->image = image;
    gb_lock(&modules_lock);
    module->next = modules;
    modules = module;
    gb_unlock(&modules_lock);
    gb_check_image(image);
    return module;
}

void gb_cpu_module_unload(gb_cpu_module *module) {
    gb_lock(&modules_lock);
    for (struct gb_cpu_module **link = &modules; *link != NULL; link = &(*link)->next) {
        if (*link == module) {
            *link = module->next;
            break;
        }
    }
    gb_unlock(&modules_lock);
    dlclose(module->library);
    close(module->file);
    free(module);
}

const gb_cpu_kernel *gb_cpu_module_kernel(const gb_cpu_module *module, const char *name) {
    const gb_cpu_image *image = module->image;
    for (uint64_t i = 0; i < image->kernel_count; i++) {
        if (strcmp(image->kernels[i].name, name) == 0) {
            return &image->kernels[i];
        }
    }
    return NULL;
}

/* The image that `kernel` is part of; NULL when it has been unloaded. */
static const gb_cpu_image *image_of(const gb_cpu_kernel *kernel) {
    const gb_cpu_image *found = NULL;
    gb_lock(&modules_lock);
    for (const struct gb_cpu_module *module = modules; module != NULL && found == NULL; module = module->next) {
        uintptr_t first = (uintptr_t)module->image->kernels;
        uintptr_t last = (uintptr_t)(module->image->kernels + module->image->kernel_count);
        if ((uintptr_t)kernel >= first && (uintptr_t)kernel < last) {
            found = module->image;
        }
    }
    gb_unlock(&modules_lock);
    return found;
}

const char *gb_cpu_site_name(const gb_cpu_kernel *kernel, uint32_t site) {
    const gb_cpu_image *image = image_of(kernel);
    return image != NULL && site < image->site_count ? image->sites[site] : "a barrier";
}

struct gb_where gb_cpu_where(const gb_cpu_kernel *kernel) {
    const gb_cpu_image *image = image_of(kernel);
    return (struct gb_where){.module = image != NULL ? image->module : NULL, .kernel = kernel->name, .device = "cpu"};
}
