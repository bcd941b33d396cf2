/* clang_registration.h: device images that the program's own constructors registered (clang-linker-wrapper's). */
#ifndef GPUBUILD_RT_REGISTERED_H
#define GPUBUILD_RT_REGISTERED_H

#include "core/image.h"

/* `images` are what `size` bytes at `record` say of a module. Those without bytes stand for registered
 * ones, whose bytes are filled in here; what nobody registered is taken out. Returns how many are left.
 * With none left it says in *why (free() it) what is wrong. Records without such images stay as they are. */
size_t gb_registered_fill(const void *record, size_t size, struct gb_image *images, size_t count, char **why);

#endif
