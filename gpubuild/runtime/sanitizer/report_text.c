/* report_text.c: what reports quote from source files, and which of them are not wanted. */
#define _POSIX_C_SOURCE 200809L /* getline */
#include "sanitizer/sanitizer.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const gb_check_kind_names[GB_CHECK_KINDS] = {"bounds", "race", "barrier", "uninitialized"};

struct gb_check_place gb_check_place_of(const char *site) {
    struct gb_check_place place = {.position = ""};
    const char *at = strstr(site, " at ");
    size_t length = at != NULL ? (size_t)(at - site) : strlen(site);
    snprintf(place.operation, sizeof place.operation, "%.*s", (int)length, site);
    if (at != NULL) {
        snprintf(place.position, sizeof place.position, "%s", at + 4);
    }
    return place;
}

/* ---- source lines ---- */

/* Positions are relative to the project: look there from here, and from the executable upwards, since
 * build folders lie in projects. */
static FILE *open_source(const char *file) {
    FILE *stream = fopen(file, "r");
    char path[4096];
    if (stream != NULL || file[0] == '/') {
        return stream;
    }
    gb_program_path(path, sizeof path);
    char *slash = strrchr(path, '/');
    while (stream == NULL && slash != NULL) {
        *slash = '\0';
        char *candidate = gb_text("%s/%s", path, file);
        stream = fopen(candidate, "r");
        free(candidate);
        slash = strrchr(path, '/');
    }
    return stream;
}

/* "dir/a.mlir:3:5" → 3, 5 and the length of the file's name; the column may be missing. */
static size_t split_position(const char *position, unsigned *line, unsigned *column) {
    const char *last = strrchr(position, ':');
    if (last == NULL) {
        return 0;
    }
    const char *before = last;
    while (before > position && before[-1] != ':') {
        before--;
    }
    if (before > position && isdigit((unsigned char)*before)) {
        *line = (unsigned)strtoul(before, NULL, 10);
        *column = (unsigned)strtoul(last + 1, NULL, 10);
        return (size_t)(before - 1 - position);
    }
    *line = (unsigned)strtoul(last + 1, NULL, 10);
    *column = 0;
    return (size_t)(last - position);
}

char *gb_check_source_line(const char *position, const char *indent) {
    unsigned line = 0, column = 0;
    size_t length = split_position(position, &line, &column);
    char *file = gb_text("%.*s", (int)length, position);
    FILE *stream = line > 0 && length > 0 ? open_source(file) : NULL;
    free(file);
    char *text = NULL;
    size_t room = 0;
    ssize_t read = -1;
    for (unsigned i = 0; stream != NULL && i < line; i++) {
        read = getline(&text, &room, stream);
        if (read < 0) {
            break;
        }
    }
    if (stream != NULL) {
        fclose(stream);
    }
    if (read < 0) {
        free(text);
        return gb_text("%s", "");
    }
    text[strcspn(text, "\r\n")] = '\0';
    char *quoted;
    if (column == 0 || column > strlen(text)) {
        quoted = gb_text("%s%s\n", indent, text);
    } else {
        char *blank = gb_text("%s", text); /* tabs stay tabs, so that the caret is where it should be */
        blank[column - 1] = '\0';
        for (char *c = blank; *c != '\0'; c++) {
            *c = *c == '\t' ? '\t' : ' ';
        }
        quoted = gb_text("%s%s\n%s%s^\n", indent, text, indent, blank);
        free(blank);
    }
    free(text);
    return quoted;
}

/* ---- suppressions ---- */

static struct rule {
    char *kind; /* one of the kinds, or "*" */
    char *pattern;
    struct rule *next;
} *rules;

static bool is_kind(const char *word) {
    bool known = strcmp(word, "*") == 0;
    for (int i = 0; i < GB_CHECK_KINDS; i++) {
        known = known || strcmp(word, gb_check_kind_names[i]) == 0;
    }
    return known;
}

static void read_rule(const char *file, unsigned number, char *text) {
    char *end = NULL;
    char *kind = strtok_r(text, " \t\r\n", &end);
    if (kind == NULL || kind[0] == '#') {
        return;
    }
    char *pattern = strtok_r(NULL, " \t\r\n", &end);
    char *more = strtok_r(NULL, " \t\r\n", &end);
    if (!is_kind(kind) || pattern == NULL || (more != NULL && more[0] != '#')) {
        gb_fatal(NULL, "%s:%u: not a suppression; a line is KIND PATTERN with a KIND of bounds, race, barrier, "
                       "uninitialized or *, and a PATTERN for a kernel's name or for file:line:column", file, number);
    }
    struct rule *rule = gb_allocate(sizeof *rule);
    *rule = (struct rule){.kind = gb_text("%s", kind), .pattern = gb_text("%s", pattern), .next = rules};
    rules = rule;
}

void gb_check_read_suppressions(void) {
    const char *file = gb_settings()->check_suppressions;
    if (file == NULL) {
        return;
    }
    FILE *stream = fopen(file, "r");
    if (stream == NULL) {
        gb_fatal(NULL, "GPUBUILD_CHECK_SUPPRESSIONS=%s: the file cannot be read", file);
    }
    char *line = NULL;
    size_t room = 0;
    for (unsigned number = 1; getline(&line, &room, stream) >= 0; number++) {
        read_rule(file, number, line);
    }
    if (ferror(stream)) { /* a folder, which can be opened */
        gb_fatal(NULL, "GPUBUILD_CHECK_SUPPRESSIONS=%s: the file cannot be read", file);
    }
    free(line);
    fclose(stream);
}

bool gb_check_suppressed(const char *kind, const char *kernel, const char *position, const char *other_position) {
    for (const struct rule *rule = rules; rule != NULL; rule = rule->next) {
        if (strcmp(rule->kind, "*") != 0 && strcmp(rule->kind, kind) != 0) {
            continue;
        }
        if (fnmatch(rule->pattern, kernel, 0) == 0 || fnmatch(rule->pattern, position, 0) == 0 ||
            fnmatch(rule->pattern, other_position, 0) == 0) {
            return true;
        }
    }
    return false;
}
