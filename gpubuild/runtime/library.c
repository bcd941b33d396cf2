/* library.c: dlopen for the back ends. A library, once open, stays open until the process ends. */
#include "library.h"

#include "gpubuild_rt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

void *gb_library_open(const char *const *names, char **why) {
    char *reason = NULL;
    for (; *names != NULL; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library != NULL) {
            gb_trace("opened %s", *names);
            free(reason);
            return library;
        }
        if (reason == NULL) { /* the first name is the one that people know */
            const char *error = dlerror();
            reason = gb_text("%s", error != NULL ? error : *names);
        }
    }
    *why = reason;
    return NULL;
}

void gb_library_symbol(void *library, const char *symbol, void *function) {
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address); /* ISO C has no cast from an object to a function pointer */
}
