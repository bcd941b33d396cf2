/* module.c: modules. module.py translates PTX to a shared object, once for each text and chip. */
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LOG_BYTES = 16384, PATH_BYTES = 4096, EM_NVIDIA = 190 };

static struct module *modules;

struct module *module_at(const void *address) {
    for (struct module *m = modules; m != NULL; m = m->next) {
        if ((const char *)address >= m->from && (const char *)address < m->to) {
            return m;
        }
    }
    return NULL;
}

/* ---- shared objects, with a copy for each module ---- */

static int copy_of_file(const char *path) {
    int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("module", MFD_CLOEXEC);
    char block[1 << 16];
    ssize_t got = from >= 0 && to >= 0 ? 1 : -1;
    while (got > 0 && (got = read(from, block, sizeof block)) > 0) {
        if (write(to, block, (size_t)got) != got) {
            got = -1;
        }
    }
    if (from >= 0) {
        close(from);
    }
    if (got < 0 && to >= 0) {
        close(to);
        to = -1;
    }
    return to;
}

static int find_extent(struct dl_phdr_info *info, size_t bytes, void *given) {
    (void)bytes;
    struct module *module = given;
    char *from = (char *)(uintptr_t)info->dlpi_addr;
    bool found = false;
    char *to = from;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD) {
            char *end = from + part->p_vaddr + part->p_memsz;
            found |= (char *)module->text >= from + part->p_vaddr && (char *)module->text < end;
            to = end > to ? end : to;
        }
    }
    if (found) {
        module->from = from;
        module->to = to;
    }
    return found;
}

static int load(struct context *context, const char *path, struct module **result) {
    int file = copy_of_file(path);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    void *library = file >= 0 ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    const char *why = library == NULL && file >= 0 ? dlerror() : strerror(errno);
    /* Left open: the C library identifies a loaded file by device and inode, which would be reused. */
    if (library == NULL) {
        return because(NO_BINARY_FOR_GPU, "%s cannot be loaded: %s", path, why);
    }
    struct module *module = new_handle(A_MODULE, sizeof *module, context);
    module->library = library;
    module->text = dlsym(library, "cuda_module");
    dl_iterate_phdr(find_extent, module);
    module->next = modules;
    modules = module;
    *result = module;
    return SUCCESS;
}

/* ---- images ---- */

static int load_ptx(struct context *context, const char *text, struct module **result, char *log, size_t log_bytes) {
    char path[PATH_BYTES];
    int code = translated(text, &context->chip, path, sizeof path, log, log_bytes);
    return code == SUCCESS ? load(context, path, result) : code;
}

/* The PTX of a fat binary (`nvcc` and `fatbinary` write the same layout), or NULL. */
static const char *ptx_of_fatbin(const unsigned char *bytes) {
    enum { HEADER_BYTES = 16, PTX_ENTRY = 1, FLAGS_AT = 40, COMPRESSED = 0xa000 };
    uint64_t size, flags, code;
    memcpy(&size, bytes + 8, 8);
    for (const unsigned char *entry = bytes + HEADER_BYTES, *end = entry + size; entry < end;) {
        uint16_t kind;
        uint32_t header;
        memcpy(&kind, entry, sizeof kind);
        memcpy(&header, entry + 4, sizeof header);
        memcpy(&code, entry + 8, sizeof code);
        memcpy(&flags, entry + FLAGS_AT, sizeof flags);
        if (kind == PTX_ENTRY && (flags & COMPRESSED) == 0) {
            return (const char *)entry + header;
        }
        entry += header + code;
    }
    return NULL;
}

static int load_image(struct context *context, const void *image, struct module **result, char *log, size_t log_bytes) {
    const unsigned char *bytes = image;
    if (memcmp(bytes, "\177ELF", 4) == 0) {
        if (bytes[18] != EM_NVIDIA) {
            return because(INVALID_IMAGE, "an ELF file for another machine (%d)", bytes[18]);
        }
        char *text = ptx_of_cubin(image);
        if (text == NULL) {
            return because(NO_BINARY_FOR_GPU, "machine code of GPUs cannot be run here, only PTX. What to do: name a device, "
                                              "such as EMU_CUDA_DEVICES=7.0, for which the program has PTX and no cubin");
        }
        int code = load_ptx(context, text, result, log, log_bytes);
        free(text);
        return code;
    }
    if (memcmp(bytes, "\x50\xed\x55\xba", 4) == 0) {
        const char *text = ptx_of_fatbin(bytes);
        return text != NULL ? load_ptx(context, text, result, log, log_bytes)
                            : because(NO_BINARY_FOR_GPU, "the fat binary has no PTX that is not compressed");
    }
    for (const unsigned char *c = bytes; *c != 0; c++) {
        if (*c >= 127 || (*c < 32 && *c != '\n' && *c != '\t' && *c != '\r')) {
            return because(INVALID_IMAGE, "neither PTX nor a cubin");
        }
    }
    return load_ptx(context, image, result, log, log_bytes);
}

/* ---- the API ---- */

int cuModuleLoadDataEx(struct module **result, const void *image, unsigned count, int *options, void **values) {
    enum { INFO_LOG = 3, INFO_LOG_BYTES = 4, ERROR_LOG = 5, ERROR_LOG_BYTES = 6, OPTIMIZATION_LEVEL = 7 };
    CALL(context);
    char *log = NULL;
    size_t room = 0;
    if (result == NULL || image == NULL) {
        return INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; i++) {
        uintptr_t number = (uintptr_t)values[i];
        if (options[i] == ERROR_LOG) {
            log = values[i];
        } else if (options[i] == ERROR_LOG_BYTES) {
            room = (uint32_t)number;
        } else if (options[i] == OPTIMIZATION_LEVEL && (uint32_t)number > 4) {
            return INVALID_VALUE;
        } else if (options[i] < 0 || options[i] > 34) {
            return INVALID_VALUE;
        }
    }
    char said[LOG_BYTES] = "";
    int code = load_image(context, image, result, said, sizeof said);
    if (log != NULL && room > 0) {
        snprintf(log, room, "%s", said);
    }
    return code;
}

int cuModuleLoadData(struct module **result, const void *image) {
    return cuModuleLoadDataEx(result, image, 0, NULL, NULL);
}

int cuModuleUnload(struct module *module) {
    CALL(context);
    if (!is_handle(module, A_MODULE, context)) {
        return INVALID_HANDLE;
    }
    int result = complete_all(context);
    module->handle.kind = NOTHING;
    struct module **link = &modules;
    while (*link != module) {
        link = &(*link)->next;
    }
    *link = module->next;
    return result;
}

int cuModuleGetFunction(struct function **result, struct module *module, const char *name) {
    CALL(context);
    if (!is_handle(module, A_MODULE, context)) {
        return INVALID_HANDLE;
    }
    for (struct function *f = module->functions; f != NULL; f = f->next) {
        if (strcmp(f->text->name, name) == 0) {
            *result = f;
            return SUCCESS;
        }
    }
    for (uint32_t i = 0; i < module->text->kernel_count; i++) {
        if (strcmp(module->text->kernels[i].name, name) == 0) {
            struct function *function = new_handle(A_FUNCTION, sizeof *function, context);
            function->module = module;
            function->text = &module->text->kernels[i];
            function->next = module->functions;
            module->functions = function;
            *result = function;
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}
