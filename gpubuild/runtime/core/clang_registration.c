/* clang_registration.c: programs that clang-linker-wrapper finished (`offload: clang`).
 *
 * The wrapper links device code itself and generates constructors (priority 101, before modules are loaded) that register
 * the images with the HIP, CUDA or OpenMP runtime. The functions that they call are defined here and in the vendors'
 * folders, so that such a program needs none of these runtimes.
 *
 * Layouts and signatures: llvm/lib/Frontend/Offloading/{Utility,OffloadWrapper}.cpp of LLVM 22.
 */
#include "core/clang_registration.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
    gb_find_code *find;            /* in a fat binary, or NULL */
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
    gb_lock(&lock);
    new->next = registrations;
    registrations = new;
    gb_unlock(&lock);
    return new;
}

static void remove_registration(const struct registration *one, const struct image_list *list) {
    gb_lock(&lock);
    for (struct registration **link = &registrations; *link != NULL; link = &(*link)->next) {
        struct registration *found = *link;
        if (found == one || (list != NULL && found->list == list)) {
            *link = found->next;
            free(found->addresses);
            free(found);
            break;
        }
    }
    gb_unlock(&lock);
}

/* ---- Functions for generated constructors ---- */

void **gb_register_fat_binary(const struct gb_fat_binary *binary, uint32_t magic, gb_find_code *find, const char *call) {
    if (binary == NULL || binary->magic != magic || binary->version != 1) {
        const struct gb_where where = {.call = call};
        gb_fatal(&where, "a fat binary is registered in a form that this runtime does not know");
    }
    return (void **)add((struct registration){.find = find, .data = binary->data});
}

void gb_unregister_fat_binary(void **handle) {
    remove_registration((struct registration *)handle, NULL);
}

int gb_register_function(void **handle, const void *host) {
    struct registration *registration = (struct registration *)handle;
    gb_lock(&lock);
    size_t count = registration->address_count + 1;
    const void **grown = realloc(registration->addresses, count * sizeof *grown);
    if (grown == NULL) {
        gb_unlock(&lock);
        gb_fatal(NULL, "out of host memory");
    }
    grown[count - 1] = host;
    registration->addresses = grown;
    registration->address_count = count;
    gb_unlock(&lock);
    return 0;
}

_Noreturn void gb_refuse_registration(const char *what, const char *name, const char *call) {
    const struct gb_where where = {.call = call};
    gb_fatal(&where,
             "the program registers the %s %s of device code that gpubuild did not make\n"
             "  what to do: put HIP, CUDA or OpenMP code into a library of its own, linked with its own runtime",
             what, name != NULL ? name : "(unnamed)");
}

void __tgt_register_lib(const struct image_list *list);
void __tgt_unregister_lib(const struct image_list *list);

GB_HIDDEN void __tgt_register_lib(const struct image_list *list) {
    (void)add((struct registration){.list = list});
}

GB_HIDDEN void __tgt_unregister_lib(const struct image_list *list) {
    remove_registration(NULL, list);
}

/* ---- From registrations to the images of a module ---- */

/* Whether the registered kernels are those of the record: then their addresses are inside it. */
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

static bool fill_from_list(struct gb_image *image, const struct image_list *list) {
    for (int32_t i = 0; i < list->count; i++) {
        const struct device_image *candidate = &list->images[i];
        size_t size = (size_t)((const char *)candidate->end - (const char *)candidate->start);
        struct gb_image *bare = NULL;
        char *ignored = NULL;
        size_t count = gb_images_parse(candidate->start, size, &bare, &ignored);
        bool found = count == 1 && strcmp(bare->chip, image->chip) == 0;
        if (found) {
            image->data = bare->data;
            image->size = bare->size;
            image->vendor = bare->vendor;
            image->format = bare->format;
        }
        free(bare);
        free(ignored);
        if (found) {
            return true;
        }
    }
    return false;
}

size_t gb_registered_fill(const void *record, size_t size, struct gb_image *images, size_t count, char **why) {
    const char *reason = "nothing is registered for it: an object made with `offload: clang` must be linked by "
                         "clang-linker-wrapper";
    size_t kept = 0;
    gb_lock(&lock);
    for (size_t i = 0; i < count; i++) {
        bool filled = images[i].size != 0;
        for (const struct registration *r = registrations; !filled && r != NULL; r = r->next) {
            if (belongs(r, record, size)) {
                reason = "none of the registered images is for one of its chips";
                filled = r->list != NULL ? fill_from_list(&images[i], r->list) : r->find(&images[i], r->data, &reason);
            }
        }
        if (filled) {
            images[kept++] = images[i];
        }
    }
    gb_unlock(&lock);
    if (kept == 0) {
        *why = gb_text("%s", reason);
    }
    return kept;
}
