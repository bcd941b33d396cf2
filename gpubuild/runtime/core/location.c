/* location.c: the source location of the operation that the program executes, for messages.
 *
 * Host code that gpubuild lowers calls gpubuildPlace before an operation, which only stores a pointer. Code is compiled from
 * text without locations, so that an edit of a comment recompiles nothing; it names an operation by an address in that
 * text. A file of the build maps addresses to lines of the user's file: `PROGRAM.places.txt`, or the files in the build
 * folder that contains the program. It is read only when the program fails. */
#define _POSIX_C_SOURCE 200809L /* getline, readlink */
#include "core/runtime.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { DIGEST_DIGITS = 16 };

static _Thread_local const char *here;
static char *program; /* the path of the program instead of the executable's; NULL: the executable's */

void gpubuildPlace(const char *text) {
    here = text;
}

const char *gb_host_location(void) {
    return here;
}

/* For a program that another one has loaded. */
void gpubuildProgram(const char *path) {
    program = gb_text("%s", path);
}

void gb_program_path(char *path, size_t size) {
    ssize_t length = -1;
    const char *file = program != NULL ? program : gb_library_path();
    if (file != NULL) {
        length = snprintf(path, size, "%s", file);
    } else {
        length = readlink("/proc/self/exe", path, size - 1);
    }
    path[length < 0 ? 0 : length < (ssize_t)size ? length : (ssize_t)size - 1] = '\0';
}

/* ---- Files of locations ---- */

/* The location for `key` in a file of lines KEY<tab>LOCATION, or NULL. */
static char *look_in(const char *path, const char *key) {
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return NULL;
    }
    size_t key_length = strlen(key);
    char *line = NULL;
    size_t room = 0;
    char *found = NULL;
    while (found == NULL && getline(&line, &room, file) > 0) {
        if (strncmp(line, key, key_length) == 0 && line[key_length] == '\t') {
            char *location = line + key_length + 1;
            location[strcspn(location, "\n")] = '\0';
            found = gb_text("%s", location);
        }
    }
    free(line);
    fclose(file);
    return found;
}

/* The same in the files of a build, one for each source. */
static char *look_in_build(const char *folder, const char *key) {
    char *sources = gb_text("%s/.gpubuild/sources", folder);
    DIR *listing = opendir(sources);
    char *found = NULL;
    for (const struct dirent *entry; found == NULL && listing != NULL && (entry = readdir(listing)) != NULL;) {
        if (entry->d_name[0] != '.') {
            char *path = gb_text("%s/%s/places.txt", sources, entry->d_name);
            found = look_in(path, key);
            free(path);
        }
    }
    if (listing != NULL) {
        closedir(listing);
    }
    free(sources);
    return found;
}

static char *look_up(const char *key) {
    char path[4096];
    gb_program_path(path, sizeof path);
    char *beside = gb_text("%s.places.txt", path);
    char *found = look_in(beside, key);
    free(beside);
    for (char *slash = strrchr(path, '/'); found == NULL && slash != NULL; slash = strrchr(path, '/')) {
        *slash = '\0';
        found = look_in_build(path, key);
    }
    return found;
}

/* ---- Text ---- */

/* The address at the end of a text: DIGEST:LINE:COLUMN; NULL without one. */
static const char *address_in(const char *text) {
    const char *hash = strrchr(text, '#');
    if (hash == NULL || strspn(hash + 1, "0123456789abcdef") != DIGEST_DIGITS || hash[1 + DIGEST_DIGITS] != ':') {
        return NULL;
    }
    const char *numbers = hash + 1 + DIGEST_DIGITS;
    return numbers[strspn(numbers, ":0123456789")] == '\0' ? hash + 1 : NULL;
}

/* The two parts of a text, the operation and its location, in a format for both; only the operation without a location. */
static char *formatted(const char *text, bool location_first) {
    const char *address = address_in(text);
    const char *at = strstr(text, " at ");
    const char *end = address != NULL ? address - 1 : at != NULL ? at : text + strlen(text);
    char *where = address != NULL ? look_up(address) : at != NULL ? gb_text("%s", at + 4) : NULL;
    int length = (int)(end - text);
    char *result = where == NULL      ? gb_text("%.*s", length, text)
                   : location_first ? gb_text("%s (%.*s)", where, length, text)
                                    : gb_text("%.*s at %s", length, text, where);
    free(where);
    return result;
}

char *gb_location_text(const char *location) {
    return formatted(location, true);
}

char *gb_site_text(const char *site) {
    return formatted(site, false);
}

char *gb_kernel_location_text(const char *module, const char *kernel) {
    char *key = gb_text("@%s::@%s", module, kernel);
    char *where = look_up(key);
    char *text = where != NULL ? gb_text("%s (gpu.func @%s)", where, kernel) : gb_text("gpu.func @%s", kernel);
    free(key);
    free(where);
    return text;
}
