/* clang_registration.h: device images that constructors of the program register (clang-linker-wrapper's). */
#ifndef GPUBUILD_RT_CLANG_REGISTRATION_H
#define GPUBUILD_RT_CLANG_REGISTRATION_H

#include "core/image.h"

/* `images` are the images of the module whose record is the `size` bytes at `record`. An image without bytes stands for a
 * registered one: its bytes are filled in, or the image is removed if nothing is registered for it. Returns how many remain;
 * if none does, the reason is in *why (free() it). */
size_t gb_registered_fill(const void *record, size_t size, struct gb_image *images, size_t count, char **why);

/* ---- for the vendors whose code clang-linker-wrapper registers ---- */

#define GB_HIDDEN __attribute__((visibility("hidden")))

struct gb_fat_binary {
    uint32_t magic;
    uint32_t version;
    const void *data;
    const void *unused;
};

/* Find the code for the image's chip in the data of a fat binary, and store its address and size in the image. Returns
 * whether there is some; if not, it may store the reason (static text) in *why. */
typedef bool gb_find_code(struct gb_image *image, const void *data, const char **why);

void **gb_register_fat_binary(const struct gb_fat_binary *binary, uint32_t magic, gb_find_code *find, const char *call);
void gb_unregister_fat_binary(void **handle);
int gb_register_function(void **handle, const void *host);
_Noreturn void gb_refuse_registration(const char *what, const char *name, const char *call);

/* The functions that generated constructors call, such as __hipRegisterFatBinary. They are hidden: a library that is
 * opened later and was made for the vendor's own runtime must not find them. They declare only the leading parameters that
 * they use; callers pass more, which the calling conventions of x86-64 and AArch64 allow. */
#define GB_REGISTRATION_CALLS(prefix, magic, find)                                                                     \
    void **prefix##RegisterFatBinary(const struct gb_fat_binary *);                                                    \
    void prefix##UnregisterFatBinary(void **);                                                                         \
    int prefix##RegisterFunction(void **, const void *);                                                               \
    GB_HIDDEN void **prefix##RegisterFatBinary(const struct gb_fat_binary *binary) {                                   \
        return gb_register_fat_binary(binary, magic, find, #prefix "RegisterFatBinary");                               \
    }                                                                                                                  \
    GB_HIDDEN void prefix##UnregisterFatBinary(void **handle) {                                                        \
        gb_unregister_fat_binary(handle);                                                                              \
    }                                                                                                                  \
    GB_HIDDEN int prefix##RegisterFunction(void **handle, const void *host) {                                          \
        return gb_register_function(handle, host);                                                                     \
    }                                                                                                                  \
    GB_REFUSED_REGISTRATION(prefix##RegisterVar, "variable")                                                           \
    GB_REFUSED_REGISTRATION(prefix##RegisterManagedVar, "variable")                                                    \
    GB_REFUSED_REGISTRATION(prefix##RegisterSurface, "surface")                                                        \
    GB_REFUSED_REGISTRATION(prefix##RegisterTexture, "texture")

#define GB_REFUSED_REGISTRATION(function, what)                                                                        \
    void function(void **, void *, const void *, const char *);                                                        \
    GB_HIDDEN void function(void **handle, void *host, const void *device_side, const char *name) {                    \
        (void)handle, (void)host, (void)device_side;                                                                   \
        gb_refuse_registration(what, name, #function);                                                                 \
    }

#endif
