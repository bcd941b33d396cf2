/* report.c: keeps, suppresses, reports and counts the findings of checked kernels.
 *
 * Threads may find errors in any order. So a report is written when the launch has ended, and shows the occurrence in the
 * first workgroup and work-item. */
#define _GNU_SOURCE /* program_invocation_short_name */
#include "sanitizer/sanitizer.h"
#include "cpu/cpu_device.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kind_names[GB_CHECK_KINDS] = {"bounds", "race", "barrier", "uninitialized", "host-memory"};

/* Findings of running launches. */
struct pending {
    struct gb_check_finding finding;
    uint64_t count;
    struct pending *next;
};

/* Keys of earlier reports. They are text, since images may be unloaded and loaded again. */
struct reported {
    char *key;
    struct reported *next;
};

static struct {
    pthread_mutex_t lock;
    struct pending *pending;
    struct reported *reported;
    uint64_t sites[GB_CHECK_KINDS]; /* reported or beyond the limit, without those suppressed */
    uint64_t counts[GB_CHECK_KINDS];
    uint64_t suppressed;
    uint64_t launches;
    uint32_t flags; /* of all kernels launched */
    pid_t process;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void guard(void) {
    gb_guard_fork(GB_FORK_FINDINGS, &all.lock);
}

/* ---- keeping ---- */

/* Two operations race with each other, whichever comes first. */
static bool same_sites(const struct gb_check_finding *a, const struct gb_check_finding *b) {
    return (a->by.site == b->by.site && a->other.site == b->other.site) ||
           (a->kind == GB_CHECK_RACE && a->by.site == b->other.site && a->other.site == b->by.site);
}

static bool same_operation(const struct gb_check_finding *a, const struct gb_check_finding *b) {
    return a->kind == b->kind && a->kernel == b->kernel && a->dimension == b->dimension && same_sites(a, b);
}

static bool earlier(const struct gb_check_finding *a, const struct gb_check_finding *b) {
    return a->block < b->block || (a->block == b->block && a->item < b->item);
}

void gb_check_note(const struct gb_check_finding *finding) {
    gb_lock(&all.lock);
    struct pending *entry = all.pending;
    while (entry != NULL && !same_operation(&entry->finding, finding)) {
        entry = entry->next;
    }
    if (entry == NULL) {
        entry = gb_allocate(sizeof *entry);
        entry->next = all.pending;
        all.pending = entry;
    }
    if (entry->count++ == 0 || earlier(finding, &entry->finding)) {
        entry->finding = *finding;
        entry->finding.where = *gb_inside();
    }
    gb_unlock(&all.lock);
}

void gb_check_count_launch(const gb_cpu_kernel *kernel) {
    gb_lock(&all.lock);
    all.launches++;
    all.flags |= kernel->flags;
    gb_unlock(&all.lock);
}

/* ---- locations ---- */

/* The position in "memref.load at a.mlir:3:5", or "". */
static const char *position_of(const char *site) {
    const char *at = strstr(site, " at ");
    return at != NULL ? at + strlen(" at ") : "";
}

/* ---- source lines ---- */

/* Positions are relative to the project. Look in the current folder, and from the executable's folder upwards, since
 * build folders are in projects. */
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

/* Write the source line at a position with a caret below, if it can be read. */
static void write_source_line(FILE *out, const char *position) {
    static const char indent[] = "      ";
    unsigned line = 0, column = 0;
    size_t length = split_position(position, &line, &column);
    char *file = gb_text("%.*s", (int)length, position);
    FILE *source = line > 0 && length > 0 ? open_source(file) : NULL;
    free(file);
    if (source == NULL) {
        return;
    }
    char *text = NULL;
    size_t room = 0;
    ssize_t read = 0;
    for (unsigned i = 0; i < line && read >= 0; i++) {
        read = getline(&text, &room, source);
    }
    fclose(source);
    if (read >= 0) {
        text[strcspn(text, "\r\n")] = '\0';
        fprintf(out, "%s%s\n", indent, text);
        if (column > 0 && column <= strlen(text)) {
            text[column - 1] = '\0'; /* tabs stay tabs, so that the caret is in the right column */
            for (char *c = text; *c != '\0'; c++) {
                *c = *c == '\t' ? '\t' : ' ';
            }
            fprintf(out, "%s%s^\n", indent, text);
        }
    }
    free(text);
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
        known = known || strcmp(word, kind_names[i]) == 0;
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

/* Fatal when the file is malformed. */
static void read_suppressions(void) {
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

static bool is_suppressed(const char *kind, const char *kernel, const char *position, const char *other_position) {
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

/* ---- reports ---- */

static const char *what_happened(const struct gb_check_finding *finding) {
    switch (finding->kind) {
    case GB_CHECK_BOUNDS:
        return finding->view ? "view out of bounds" : "access out of bounds";
    case GB_CHECK_RACE:
        return "data race";
    case GB_CHECK_BARRIER:
        return "divergent barrier";
    case GB_CHECK_HOST_MEMORY:
        return "access to host memory";
    default:
        return "read of uninitialised workgroup memory";
    }
}

static const char *verb(uint32_t mode) {
    return mode == GB_CHECK_READ ? "read" : mode == GB_CHECK_WRITE ? "written" : "changed atomically";
}

static void write_work_item(FILE *out, const struct gb_check_party *party) {
    fprintf(out, "work-item (%u, %u, %u) of workgroup (%u, %u, %u)", party->item[0], party->item[1], party->item[2],
            party->block[0], party->block[1], party->block[2]);
}

/* An operation, where it is, and the line. */
static void write_site(FILE *out, const char *word, const char *site) {
    const char *position = position_of(site);
    bool known = position[0] != '\0';
    size_t length = known ? (size_t)(position - site) - strlen(" at ") : strlen(site);
    fprintf(out, "  %s%s%s%.*s\n", word, position, known ? ": " : "", (int)length, site);
    write_source_line(out, position);
}

static void write_memory(FILE *out, const struct gb_check_finding *f) {
    fprintf(out, f->workgroup_memory ? "  %" PRIu64 " bytes at byte %" PRIu64 " of workgroup memory, "
                                     : "  %" PRIu64 " bytes at 0x%" PRIx64 " in global memory, ", f->bytes, f->address);
}

static void write_bounds(FILE *out, const struct gb_check_finding *f) {
    fprintf(out, f->count == 1 ? "  index %" PRId64 : "  indices %" PRId64, (int64_t)f->first);
    if (f->count != 1) {
        fprintf(out, " to %" PRId64, (int64_t)(f->first + (f->count - 1) * f->step));
    }
    fprintf(out, " of dimension %u, which has %" PRIu64 " elements\n  by ", f->dimension, f->size);
    write_work_item(out, &f->by);
    fputs("\n", out);
}

static void write_race(FILE *out, const struct gb_check_finding *f) {
    write_memory(out, f);
    fprintf(out, "%s by ", verb(f->by.mode));
    write_work_item(out, &f->by);
    fprintf(out, ",\n  were %s before by ", verb(f->other.mode));
    write_work_item(out, &f->other);
    fputs(", with no barrier between the two\n", out);
    write_site(out, "the other access: ", gb_cpu_site_name(f->kernel, f->other.site));
}

static void write_uninitialized(FILE *out, const struct gb_check_finding *f) {
    write_memory(out, f);
    fputs("not all of them written before in this workgroup\n  by ", out);
    write_work_item(out, &f->by);
    fputs("\n", out);
}

static void write_host_memory(FILE *out, const struct gb_check_finding *f) {
    fprintf(out, "  %" PRIu64 " bytes at 0x%" PRIx64 ", %s by ", f->bytes, f->address, verb(f->by.mode));
    write_work_item(out, &f->by);
    fputs("\n  a GPU cannot access them: they are not of gpu.alloc, and no gpu.host_register names them\n", out);
}

static void write_barrier(FILE *out, const struct gb_check_finding *f) {
    const uint32_t *block = f->by.block;
    fprintf(out, "  %u of %u work-items of workgroup (%u, %u, %u) wait there", f->arrived, f->expected, block[0], block[1],
            block[2]);
    if (f->arrived == f->expected) {
        fputs(", with different operands\n", out);
        return;
    }
    fputs(";\n  ", out);
    write_work_item(out, &f->other);
    if (f->other.site == GB_CHECK_NOWHERE) {
        fputs(" returned without reaching it\n", out);
    } else {
        fputs(" waits elsewhere\n", out);
        write_site(out, "namely at ", gb_cpu_site_name(f->kernel, f->other.site));
    }
    fputs("  the rest of this workgroup is not run\n", out);
}

/* The program, the target of the code, and the location of the launch. */
static void write_launch(FILE *out, const struct gb_where *where) {
    fprintf(out, "  program %s", program_invocation_short_name);
    if (where->target != NULL) {
        fprintf(out, ", target %s", where->target);
    }
    if (where->location != NULL) {
        char *location = gb_location_text(where->location);
        fprintf(out, ", launched at %s", location);
        free(location);
    }
    fputs("\n", out);
}

/* A stream of text for one message; finish_text writes it to stderr in one piece. */
struct text {
    FILE *out;
    char *content;
    size_t bytes;
};

static void start_text(struct text *text) {
    text->out = open_memstream(&text->content, &text->bytes);
    if (text->out == NULL) {
        gb_fatal(NULL, "out of host memory");
    }
}

static void finish_text(struct text *text) {
    fclose(text->out);
    gb_write(text->content);
    free(text->content);
}

static void write_report(const struct gb_check_finding *finding, uint64_t count) {
    static void (*const write_details[GB_CHECK_KINDS])(FILE *, const struct gb_check_finding *) = {
        write_bounds, write_race, write_barrier, write_uninitialized, write_host_memory};
    struct text text;
    start_text(&text);
    const char *module = gb_cpu_where(finding->kernel).module;
    fprintf(text.out, "gpubuild: check: %s in kernel @%s of module @%s\n", what_happened(finding), finding->kernel->name,
            module != NULL ? module : "?");
    write_site(text.out, "at ", gb_cpu_site_name(finding->kernel, finding->by.site));
    write_details[finding->kind](text.out, finding);
    if (count > 1) {
        fprintf(text.out, "  %" PRIu64 " times in this launch\n", count);
    }
    write_launch(text.out, &finding->where);
    finish_text(&text);
}

/* Whether the finding was not reported before; keeps the key. */
static bool is_new(char *key) {
    for (const struct reported *old = all.reported; old != NULL; old = old->next) {
        if (strcmp(old->key, key) == 0) {
            free(key);
            return false;
        }
    }
    struct reported *new = gb_allocate(sizeof *new);
    *new = (struct reported){.key = key, .next = all.reported};
    all.reported = new;
    return true;
}

static const char *site_text(const struct gb_check_finding *finding, uint32_t site) {
    return site == GB_CHECK_NOWHERE ? "" : gb_cpu_site_name(finding->kernel, site);
}

static void report(const struct pending *entry) {
    const struct gb_check_finding *f = &entry->finding;
    const char *site = site_text(f, f->by.site);
    const char *other = site_text(f, f->other.site);
    /* A view out of bounds ends the program, which must report the reason. */
    if (!f->view && is_suppressed(kind_names[f->kind], f->kernel->name, position_of(site), position_of(other))) {
        all.suppressed += entry->count;
        return;
    }
    all.counts[f->kind] += entry->count;
    const char *module = gb_cpu_where(f->kernel).module;
    bool swap = f->kind == GB_CHECK_RACE && strcmp(site, other) > 0;
    if (!is_new(gb_text("%d %u %s %s\n%s\n%s", (int)f->kind, f->dimension, module != NULL ? module : "", f->kernel->name,
                        swap ? other : site, swap ? site : other))) {
        return;
    }
    uint64_t before = 0;
    for (int i = 0; i < GB_CHECK_KINDS; i++) {
        before += all.sites[i];
    }
    all.sites[f->kind]++;
    if (before < GB_CHECK_MOST_REPORTS) {
        write_report(f, entry->count);
    } else if (before == GB_CHECK_MOST_REPORTS) {
        gb_write("gpubuild: check: further findings are counted, not shown\n");
    }
}

/* In the order of the source, not of time. */
static bool comes_first(const struct gb_check_finding *a, const struct gb_check_finding *b) {
    if (a->by.site != b->by.site) {
        return a->by.site < b->by.site;
    }
    if (a->kind != b->kind) {
        return a->kind < b->kind;
    }
    return a->dimension != b->dimension ? a->dimension < b->dimension : a->other.site < b->other.site;
}

/* Report and drop what is pending for `kernel`, or for all kernels when it is NULL; the lock is held. */
static void flush(const gb_cpu_kernel *kernel) {
    for (;;) {
        struct pending **first = NULL;
        for (struct pending **link = &all.pending; *link != NULL; link = &(*link)->next) {
            bool wanted = kernel == NULL || (*link)->finding.kernel == kernel;
            if (wanted && (first == NULL || comes_first(&(*link)->finding, &(*first)->finding))) {
                first = link;
            }
        }
        if (first == NULL) {
            return;
        }
        struct pending *entry = *first;
        *first = entry->next;
        report(entry);
        free(entry);
    }
}

void gb_check_flush(const gb_cpu_kernel *kernel) {
    gb_lock(&all.lock);
    flush(kernel);
    gb_unlock(&all.lock);
}

/* ---- the end ---- */

/* Report the pending findings and the totals; returns whether anything was found. The lock is held. */
static bool sum_up(void) {
    flush(NULL);
    uint64_t sites = 0;
    for (int i = 0; i < GB_CHECK_KINDS; i++) {
        sites += all.sites[i];
    }
    if (all.launches == 0) {
        return sites > 0;
    }
    struct text text;
    start_text(&text);
    fputs(sites > 0 ? "gpubuild: check: problems found: " : "gpubuild: check: no problems found", text.out);
    const char *separator = "";
    for (int i = 0; i < GB_CHECK_KINDS; i++) {
        if (all.sites[i] > 0) {
            fprintf(text.out, "%s%s: %" PRIu64 " (%" PRIu64 " times)", separator, kind_names[i], all.sites[i], all.counts[i]);
            separator = ", ";
        }
    }
    fprintf(text.out, " in %" PRIu64 " launch%s checked for ", all.launches, all.launches == 1 ? "" : "es");
    separator = "";
    for (int i = 0; i < GB_CHECK_KINDS; i++) {
        if ((all.flags & GB_CPU_KERNEL_CHECK_BOUNDS << i) != 0) {
            fprintf(text.out, "%s%s", separator, kind_names[i]);
            separator = ", ";
        }
    }
    if (all.suppressed > 0) {
        fprintf(text.out, "; %" PRIu64 " times suppressed", all.suppressed);
    }
    fputs("\n", text.out);
    finish_text(&text);
    return sites > 0;
}

_Noreturn void gb_check_end(void) {
    (void)fflush(stdout);
    gb_lock(&all.lock);
    (void)sum_up();
    _exit(GB_CHECK_EXIT_CODE);
}

/* After everything that _exit would leave out: handlers of atexit, and the destructors that unload modules
 * (priority 123). */
__attribute__((destructor(101))) static void at_exit(void) {
    if (getpid() != all.process) {
        return; /* nothing was checked, or this is a child of fork */
    }
    gb_cpu_streams_drain();
    (void)fflush(NULL);
    gb_lock(&all.lock);
    bool found = sum_up();
    gb_unlock(&all.lock);
    if (found) {
        _exit(GB_CHECK_EXIT_CODE);
    }
}

/* Another error ends the program, maybe in a thread that holds the lock. */
static void at_fatal(void) {
    if (pthread_mutex_trylock(&all.lock) == 0) {
        flush(NULL);
        gb_unlock(&all.lock);
    }
}

static void enable(void) {
    read_suppressions();
    all.process = getpid();
    gb_at_fatal(at_fatal);
}

void gb_check_enable(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, enable);
}
