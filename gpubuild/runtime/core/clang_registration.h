/* clang_registration.h: device images that constructors of the program register (clang-linker-wrapper's). */
#ifndef GPUBUILD_RT_CLANG_REGISTRATION_H
#define GPUBUILD_RT_CLANG_REGISTRATION_H

#include "core/image.h"

/* `images` are the images of the module whose record is the `size` bytes at `record`. An image without bytes stands for a
 * registered one: its bytes are filled in, or the image is removed if nothing is registered for it. Returns how many are
 * left; with none left the reason is in *why (free() it). */
size_t gb_registered_fill(const void *record, size_t size, struct gb_image *images, size_t count, char **why);

/* ---- for the vendors whose code clang-linker-wrapper registers ---- */

#define GB_HIDDEN __attribute__((visibility("hidden")))

struct gb_fat_binary {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *unused;
};

/* Find the code for the image's chip in the data of a fat binary, and store where it is in the image. Returns whether
 * there is some; may put the reason into *why (static text) if not. */
typedef bool gb_find_code(struct gb_image *image, const void *data, const char **why);

void **gb_register_fat_binary(const struct gb_fat_binary *binary, uint32_t magic, gb_find_code *find, const char *call);
void gb_unregister_fat_binary(void **handle);
int gb_register_function(void **handle, const void *host);
_Noreturn void gb_refuse_registration(const char *what, const char *name, const char *call);

/* The functions that generated constructors call, such as __hipRegisterFatBinary. They are hidden: a library that is
 * opened later and was made for the vendor's own runtime must not find them. Only generated code calls them, so the
 * prototypes are here. */
#define GB_REGISTRATION_CALLS(prefix, magic, find)                                                                     \
    void **prefix##RegisterFatBinary(const struct gb_fat_binary *);                                                    \
    void prefix##UnregisterFatBinary(void **);                                                                         \
    int prefix##RegisterFunction(void **, const void *, char *, const char *, int, void *, void *, void *, void *,     \
                                 int *);                                                                               \
    void prefix##RegisterVar(void **, void *, char *, const char *, int, size_t, int, int);                            \
    void prefix##RegisterManagedVar(void **, void *, void *, const char *, size_t, unsigned);                          \
    void prefix##RegisterSurface(void **, const void *, const void *, const char *, int, int);                         \
    void prefix##RegisterTexture(void **, const void *, const void *, const char *, int, int, int);                    \
    GB_HIDDEN void **prefix##RegisterFatBinary(const struct gb_fat_binary *binary) {                                   \
        return gb_register_fat_binary(binary, magic, find, #prefix "RegisterFatBinary");                               \
    }                                                                                                                  \
    GB_HIDDEN void prefix##UnregisterFatBinary(void **handle) {                                                        \
        gb_unregister_fat_binary(handle);                                                                              \
    }                                                                                                                  \
    GB_HIDDEN int prefix##RegisterFunction(void **handle, const void *host, char *device_side, const char *name,       \
                                        int thread_limit, void *thread, void *block, void *block_dim, void *grid_dim,  \
                                        int *warp_size) {                                                              \
        (void)device_side, (void)name, (void)thread_limit, (void)thread, (void)block, (void)block_dim, (void)grid_dim; \
        (void)warp_size;                                                                                               \
        return gb_register_function(handle, host);                                                                     \
    }                                                                                                                  \
    GB_HIDDEN void prefix##RegisterVar(void **handle, void *host, char *device_side, const char *name, int is_extern,  \
                                    size_t size, int constant, int global) {                                           \
        (void)handle, (void)host, (void)device_side, (void)is_extern, (void)size, (void)constant, (void)global;        \
        gb_refuse_registration("variable", name, #prefix "RegisterVar");                                               \
    }                                                                                                                  \
    GB_HIDDEN void prefix##RegisterManagedVar(void **handle, void *pointer, void *host, const char *name, size_t size, \
                                           unsigned alignment) {                                                       \
        (void)handle, (void)pointer, (void)host, (void)size, (void)alignment;                                          \
        gb_refuse_registration("variable", name, #prefix "RegisterManagedVar");                                        \
    }                                                                                                                  \
    GB_HIDDEN void prefix##RegisterSurface(void **handle, const void *host, const void *device_side, const char *name, \
                                        int dimensions, int is_extern) {                                               \
        (void)handle, (void)host, (void)device_side, (void)dimensions, (void)is_extern;                                \
        gb_refuse_registration("surface", name, #prefix "RegisterSurface");                                            \
    }                                                                                                                  \
    GB_HIDDEN void prefix##RegisterTexture(void **handle, const void *host, const void *device_side, const char *name, \
                                        int dimensions, int normalised, int is_extern) {                               \
        (void)handle, (void)host, (void)device_side, (void)dimensions, (void)normalised, (void)is_extern;              \
        gb_refuse_registration("texture", name, #prefix "RegisterTexture");                                            \
    }

#endif
