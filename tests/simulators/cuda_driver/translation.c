/* translation.c: translation of PTX to a shared object by a child process (module.py), cached by content. */
#define _GNU_SOURCE
#include "driver.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* PYTHON, PYTHON_PATH: macros of the compile command. */
enum { PATH_BYTES = 4096, BAD_PTX = 3 };

extern char **environ;

/* FNV-1a, used with two start values: a name for a text, not a cryptographic digest. */
static uint64_t digest(const char *text, uint64_t hash) {
    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return hash;
}

static const char *this_library(void) {
    static const char inside;
    Dl_info self;
    return dladdr(&inside, &self) != 0 ? self.dli_fname : "";
}

static void folder_of_modules(char *path) {
    const char *given = getenv("EMU_CUDA_MODULES"), *library = this_library(), *slash = strrchr(library, '/');
    if (given != NULL && *given != '\0') {
        snprintf(path, PATH_BYTES, "%s", given);
    } else {
        snprintf(path, PATH_BYTES, "%.*s/modules", slash != NULL ? (int)(slash - library) : 1, slash != NULL ? library : ".");
    }
    mkdir(path, 0700);
}

static char *contents(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rbe");
    struct stat status;
    if (file == NULL || fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        if (file != NULL) {
            fclose(file);
        }
        return NULL;
    }
    char *text = calloc(1, (size_t)status.st_size + 1);
    *bytes = fread(text, 1, (size_t)status.st_size, file);
    fclose(file);
    return text;
}

static bool write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "wbe");
    if (file == NULL) {
        return false;
    }
    bool whole = fputs(text, file) >= 0;
    return fclose(file) == 0 && whole;
}

/* Run Python with few variables, so that the program's environment has no effect on it. */
static int run_python(char *const *arguments, const char *log_path) {
    char *variables[] = {"PYTHONPATH=" PYTHON_PATH, "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", NULL, NULL};
    char temporary[PATH_BYTES];
    if (getenv("TMPDIR") != NULL) {
        snprintf(temporary, sizeof temporary, "TMPDIR=%s", getenv("TMPDIR"));
        variables[3] = temporary;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, log_path, 01 | 0100 | 01000, 0600); /* O_WRONLY | O_CREAT | O_TRUNC */
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int status = -1;
    int error = posix_spawn(&child, PYTHON, &actions, NULL, arguments, variables);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        return because(-1, "%s cannot be started: %s", PYTHON, strerror(error));
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int translated(const char *text, const struct chip *chip, char *path, size_t path_bytes, char *log, size_t log_bytes) {
    char folder[PATH_BYTES], work[PATH_BYTES + 64], number[16];
    folder_of_modules(folder);
    snprintf(number, sizeof number, "sm_%d%d", chip->major, chip->minor);
    uint64_t names[] = {digest(text, 0xcbf29ce484222325u), digest(text, 0x84222325cbf29ce4u)};
    snprintf(path, path_bytes, "%s/%016llx%016llx.%s.so", folder, (unsigned long long)names[0],
             (unsigned long long)names[1], number);
    if (access(path, R_OK) == 0) {
        return SUCCESS;
    }
    char ptx[PATH_BYTES + 80], log_path[PATH_BYTES + 80];
    snprintf(work, sizeof work, "%s/new.XXXXXX", folder);
    if (mkdtemp(work) == NULL) {
        return because(NO_BINARY_FOR_GPU, "%s: %s", work, strerror(errno));
    }
    snprintf(ptx, sizeof ptx, "%s/module.ptx", work);
    snprintf(log_path, sizeof log_path, "%s/log", work);
    char *arguments[] = {PYTHON, "-m", "simulators.cuda_driver.module", ptx, path, number, (char *)this_library(), NULL};
    int code = write_file(ptx, text) ? run_python(arguments, log_path) : -1;
    size_t bytes = 0;
    char *output = contents(log_path, &bytes);
    unlink(ptx);
    unlink(log_path);
    rmdir(work);
    if (code == BAD_PTX) {
        snprintf(log, log_bytes, "%s", output != NULL ? output : "");
        free(output);
        return INVALID_PTX;
    }
    if (code != 0) {
        because(0, "this PTX cannot be run here: %s", output != NULL ? output : "(no output)");
    }
    free(output);
    return code == 0 ? SUCCESS : NO_BINARY_FOR_GPU;
}

/* ---- PTX beside the cubin that was made of it ---- */

/* Bytes of an ELF file, which a driver gets without its length. */
static size_t bytes_of_elf(const void *image) {
    const Elf64_Ehdr *head = image;
    size_t end = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    const Elf64_Shdr *sections = (const void *)((const char *)image + head->e_shoff);
    for (int i = 0; i < head->e_shnum; i++) {
        size_t behind = sections[i].sh_type != SHT_NOBITS ? sections[i].sh_offset + sections[i].sh_size : 0;
        end = behind > end ? behind : end;
    }
    size_t segments = head->e_phoff + (size_t)head->e_phnum * head->e_phentsize;
    return segments > end ? segments : end;
}

static char *ptx_in(const char *folder, const void *image, size_t bytes) {
    DIR *directory = opendir(folder);
    char *found = NULL;
    for (struct dirent *entry; directory != NULL && found == NULL && (entry = readdir(directory)) != NULL;) {
        size_t length = strlen(entry->d_name), size = 0;
        if (length < 7 || strcmp(entry->d_name + length - 6, ".cubin") != 0) {
            continue;
        }
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        char *other = contents(path, &size);
        if (other != NULL && size >= bytes && memcmp(other, image, bytes) == 0) {
            strcpy(path + strlen(path) - 6, ".ptx");
            found = contents(path, &size);
        }
        free(other);
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return found;
}

char *ptx_of_cubin(const void *image) {
    const char *list = getenv("EMU_CUDA_BUILD");
    size_t bytes = bytes_of_elf(image);
    char *found = NULL;
    while (list != NULL && *list != '\0' && found == NULL) {
        size_t length = strcspn(list, ":");
        char folder[PATH_BYTES];
        snprintf(folder, sizeof folder, "%.*s", (int)length, list);
        found = ptx_in(folder, image, bytes);
        list += length + (list[length] == ':');
    }
    return found;
}
