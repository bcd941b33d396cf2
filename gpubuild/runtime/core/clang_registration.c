/* clang_registration.c: programs that clang-linker-wrapper finished (`offload: clang`).
 *
 * The wrapper links device code itself and generates constructors (priority 101, before modules are
 * loaded) that hand the images to the HIP, CUDA or OpenMP runtime. Here are the functions that they
 * call, so that such a program needs none of these. They are hidden: a library that is opened later and
 * was made for such a runtime must not find them.
 *
 * Layouts and signatures: llvm/lib/Frontend/Offloading/{Utility,OffloadWrapper}.cpp of LLVM 22.
 */
#define _GNU_SOURCE /* memmem */
#include "core/clang_registration.h"

#include "core/fork.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HIDDEN __attribute__((visibility("hidden")))

enum { HIP_MAGIC = 0x48495046, CUDA_MAGIC = 0x466243b1, CUDA_FATBIN_MAGIC = (int)0xba55ed50 };

static const char bundle_magic[] = "__CLANG_OFFLOAD_BUNDLE__";
static const char chip_mark[] = "gpubuild.chip="; /* gpubuild/engine/backends/cpu/image_layout.py has it too */

struct fat_binary {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *unused;
};

struct offload_entry {
    uint64_t reserved;
    uint16_t version;
    uint16_t kind;
    uint32_t flags;
    const void *address;
    const char *name;
    uint64_t size;
    uint64_t data;
    const void *more;
};

struct device_image {
    const void *start;
    const void *end;
    const struct offload_entry *entries;
    const struct offload_entry *entries_end;
};

struct image_list {
    int32_t count;
    const struct device_image *images;
    const struct offload_entry *entries;
    const struct offload_entry *entries_end;
};

/* What one constructor registered. */
struct registration {
    enum gb_vendor vendor;         /* of a fat binary */
    const void *data;              /* a fat binary's, or NULL */
    const struct image_list *list; /* of OpenMP, or NULL */
    const void **addresses;        /* of the host's side of the kernels of a fat binary */
    size_t address_count;
    struct registration *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct registration *registrations;

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_REGISTERED, &lock);
}

static struct registration *add(struct registration value) {
    struct registration *new = gb_allocate(sizeof *new);
    *new = value;
    pthread_mutex_lock(&lock);
    new->next = registrations;
    registrations = new;
    pthread_mutex_unlock(&lock);
    return new;
}

static void take_out(const struct registration *one, const struct image_list *list) {
    pthread_mutex_lock(&lock);
    for (struct registration **link = &registrations; *link != NULL; link = &(*link)->next) {
        struct registration *found = *link;
        if (found == one || (list != NULL && found->list == list)) {
            *link = found->next;
            free(found->addresses);
            free(found);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- What the generated constructors call ---- */

static void **register_fat_binary(const struct fat_binary *binary, enum gb_vendor vendor, uint32_t magic,
                                  const char *call) {
    if (binary == NULL || binary->magic != magic || binary->version != 1) {
        const struct gb_where where = {.call = call};
        gb_fatal(&where, "a fat binary is registered in a form that this runtime does not know");
    }
    return (void **)add((struct registration){.vendor = vendor, .data = binary->data});
}

static int register_function(void **handle, const void *host) {
    struct registration *registration = (struct registration *)handle;
    pthread_mutex_lock(&lock);
    size_t count = registration->address_count + 1;
    const void **grown = realloc(registration->addresses, count * sizeof *grown);
    if (grown == NULL) {
        pthread_mutex_unlock(&lock);
        gb_fatal(NULL, "out of host memory");
    }
    grown[count - 1] = host;
    registration->addresses = grown;
    registration->address_count = count;
    pthread_mutex_unlock(&lock);
    return 0;
}

static _Noreturn void refuse(const char *what, const char *name, const char *call) {
    const struct gb_where where = {.call = call};
    gb_fatal(&where,
             "the program registers the %s %s of device code that gpubuild did not make\n"
             "  what to do: put HIP, CUDA or OpenMP code into a library of its own, linked with its own runtime",
             what, name != NULL ? name : "(unnamed)");
}

#define REGISTER_API(prefix, vendor, magic)                                                                             \
    HIDDEN void **prefix##RegisterFatBinary(const struct fat_binary *binary) {                                          \
        return register_fat_binary(binary, vendor, magic, #prefix "RegisterFatBinary");                                 \
    }                                                                                                                   \
    HIDDEN void prefix##UnregisterFatBinary(void **handle) {                                                            \
        take_out((struct registration *)handle, NULL);                                                                  \
    }                                                                                                                   \
    HIDDEN int prefix##RegisterFunction(void **handle, const void *host, char *device_side, const char *name,           \
                                        int thread_limit, void *thread, void *block, void *block_dim, void *grid_dim,   \
                                        int *warp_size) {                                                               \
        (void)device_side, (void)name, (void)thread_limit, (void)thread, (void)block, (void)block_dim, (void)grid_dim;  \
        (void)warp_size;                                                                                                \
        return register_function(handle, host);                                                                         \
    }                                                                                                                   \
    HIDDEN void prefix##RegisterVar(void **handle, void *host, char *device_side, const char *name, int is_extern,      \
                                    size_t size, int constant, int global) {                                            \
        (void)handle, (void)host, (void)device_side, (void)is_extern, (void)size, (void)constant, (void)global;         \
        refuse("variable", name, #prefix "RegisterVar");                                                                \
    }                                                                                                                   \
    HIDDEN void prefix##RegisterManagedVar(void **handle, void *pointer, void *host, const char *name, size_t size,     \
                                           unsigned alignment) {                                                        \
        (void)handle, (void)pointer, (void)host, (void)size, (void)alignment;                                           \
        refuse("variable", name, #prefix "RegisterManagedVar");                                                         \
    }                                                                                                                   \
    HIDDEN void prefix##RegisterSurface(void **handle, const void *host, const void *device_side, const char *name,     \
                                        int dimensions, int is_extern) {                                                \
        (void)handle, (void)host, (void)device_side, (void)dimensions, (void)is_extern;                                 \
        refuse("surface", name, #prefix "RegisterSurface");                                                             \
    }                                                                                                                   \
    HIDDEN void prefix##RegisterTexture(void **handle, const void *host, const void *device_side, const char *name,     \
                                        int dimensions, int normalised, int is_extern) {                                \
        (void)handle, (void)host, (void)device_side, (void)dimensions, (void)normalised, (void)is_extern;               \
        refuse("texture", name, #prefix "RegisterTexture");                                                             \
    }

/* Prototypes: nothing but generated code calls these. */
#define DECLARE_API(prefix)                                                                                             \
    void **prefix##RegisterFatBinary(const struct fat_binary *);                                                        \
    void prefix##UnregisterFatBinary(void **);                                                                          \
    int prefix##RegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *,      \
                                 int *);                                                                                \
    void prefix##RegisterVar(void **, void *, char *, const char *, int, size_t, int, int);                             \
    void prefix##RegisterManagedVar(void **, void *, void *, const char *, size_t, unsigned);                           \
    void prefix##RegisterSurface(void **, const void *, const void *, const char *, int, int);                          \
    void prefix##RegisterTexture(void **, const void *, const void *, const char *, int, int, int);

DECLARE_API(__hip)
DECLARE_API(__cuda)
void __cudaRegisterFatBinaryEnd(void **handle);
void __tgt_register_lib(const struct image_list *list);
void __tgt_unregister_lib(const struct image_list *list);

REGISTER_API(__hip, GB_VENDOR_HIP, HIP_MAGIC)
REGISTER_API(__cuda, GB_VENDOR_CUDA, CUDA_MAGIC)

HIDDEN void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

HIDDEN void __tgt_register_lib(const struct image_list *list) {
    (void)add((struct registration){.vendor = GB_VENDOR_UNKNOWN, .list = list});
}

HIDDEN void __tgt_unregister_lib(const struct image_list *list) {
    take_out(NULL, list);
}

/* ---- From registrations to the images of a module ---- */

/* Whether the kernels that were registered are those of the record: their addresses lie in it. */
static bool belongs(const struct registration *registration, const void *record, size_t size) {
    uintptr_t first = (uintptr_t)record;
    if (registration->list != NULL) {
        const struct offload_entry *entry = registration->list->entries;
        for (; entry != registration->list->entries_end; entry++) {
            if ((uintptr_t)entry->address - first < size) {
                return true;
            }
        }
        return false;
    }
    for (size_t i = 0; i < registration->address_count; i++) {
        if ((uintptr_t)registration->addresses[i] - first < size) {
            return true;
        }
    }
    return false;
}

static uint64_t read_little(const unsigned char *bytes, unsigned count) {
    uint64_t value = 0;
    for (unsigned i = count; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static void fill(struct gb_image *image, const void *data, size_t size, enum gb_vendor vendor, enum gb_format format) {
    image->data = data;
    image->size = size;
    image->vendor = vendor;
    image->format = format;
}

/* The code object for the image's chip in what clang-offload-bundler wrote. */
static bool fill_from_bundle(struct gb_image *image, const unsigned char *bundle, const char **why) {
    if (memcmp(bundle, bundle_magic, sizeof bundle_magic - 1) != 0) {
        *why = "its HIP code is in a bundle of unknown form (compressed? link without --compress)";
        return false;
    }
    const unsigned char *at = bundle + sizeof bundle_magic - 1;
    uint64_t count = read_little(at, 8);
    at += 8;
    size_t chip_length = strlen(image->chip);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t offset = read_little(at, 8);
        uint64_t size = read_little(at + 8, 8);
        uint64_t length = read_little(at + 16, 8);
        const char *id = (const char *)at + 24; /* "hip-amdgcn-amd-amdhsa--gfx90a:xnack+" */
        at += 24 + length;
        if (length > chip_length && memcmp(id, "hip", 3) == 0 && id[length - chip_length - 1] == '-' &&
            memcmp(id + length - chip_length, image->chip, chip_length) == 0) {
            fill(image, bundle + offset, (size_t)size, GB_VENDOR_HIP, GB_FORMAT_HSACO);
            return true;
        }
    }
    return false;
}

static bool fill_from_fatbin(struct gb_image *image, const unsigned char *fatbin, const char **why) {
    if (read_little(fatbin, 4) != (uint32_t)CUDA_FATBIN_MAGIC) {
        *why = "its CUDA code is in a fat binary of unknown form";
        return false;
    }
    size_t size = (size_t)(read_little(fatbin + 6, 2) + read_little(fatbin + 8, 8));
    fill(image, fatbin, size, GB_VENDOR_CUDA, GB_FORMAT_FATBIN); /* the driver chooses inside */
    return true;
}

/* What chip a bare image is for: a GPU's tells itself, a CPU's has a mark that gpubuild puts there. */
static bool is_for(const struct gb_image *bare, const char *chip) {
    if (bare->vendor != GB_VENDOR_CPU) {
        return strcmp(bare->chip, chip) == 0;
    }
    const char *mark = memmem(bare->data, bare->size, chip_mark, sizeof chip_mark - 1);
    if (mark == NULL) {
        return false;
    }
    mark += sizeof chip_mark - 1;
    size_t length = strlen(chip) + 1; /* with the NUL behind it */
    return length <= bare->size - (size_t)(mark - (const char *)bare->data) && memcmp(mark, chip, length) == 0;
}

static bool fill_from_list(struct gb_image *image, const struct image_list *list) {
    for (int32_t i = 0; i < list->count; i++) {
        const struct device_image *candidate = &list->images[i];
        size_t size = (size_t)((const char *)candidate->end - (const char *)candidate->start);
        struct gb_image *bare = NULL;
        char *ignored = NULL;
        size_t count = gb_images_parse(candidate->start, size, &bare, &ignored);
        bool found = count == 1 && is_for(bare, image->chip);
        if (found) {
            fill(image, bare->data, bare->size, bare->vendor, bare->format);
        }
        free(bare);
        free(ignored);
        if (found) {
            return true;
        }
    }
    return false;
}

static enum gb_vendor vendor_of_chip(const char *chip) {
    return strncmp(chip, "sm_", 3) == 0 ? GB_VENDOR_CUDA : strncmp(chip, "gfx", 3) == 0 ? GB_VENDOR_HIP : GB_VENDOR_CPU;
}

static bool fill_one(struct gb_image *image, const struct registration *from, const char **why) {
    if (from->list != NULL) {
        return fill_from_list(image, from->list);
    }
    if (from->vendor != vendor_of_chip(image->chip)) {
        return false;
    }
    return from->vendor == GB_VENDOR_HIP ? fill_from_bundle(image, from->data, why)
                                         : fill_from_fatbin(image, from->data, why);
}

size_t gb_registered_fill(const void *record, size_t size, struct gb_image *images, size_t count, char **why) {
    const char *reason = "nothing is registered for it: an object made with `offload: clang` must be linked by "
                         "clang-linker-wrapper";
    size_t kept = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        bool filled = images[i].size != 0;
        for (const struct registration *r = registrations; !filled && r != NULL; r = r->next) {
            if (belongs(r, record, size)) {
                reason = "none of the registered images is for one of its chips";
                filled = fill_one(&images[i], r, &reason);
            }
        }
        if (filled) {
            images[kept++] = images[i];
        }
    }
    pthread_mutex_unlock(&lock);
    if (kept == 0) {
        *why = gb_text("%s", reason);
    }
    return kept;
}
