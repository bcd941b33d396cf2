/* opencl_image.c: SPIR-V modules: their kernels and parameters, and how well they suit a device.
 *
 * Numbers are those of the SPIR-V specification (section 3).
 */
#include "opencl/opencl_api.h"

#include <stdlib.h>
#include <string.h>

#define FORMAT "SPIR-V"

enum { MAGIC = 0x07230203, HEADER_WORDS = 5, FLOAT_64 = 10, MOST_BYTES = 1 << 16 };
enum {
    OP_ENTRY_POINT = 15,
    OP_EXECUTION_MODE = 16,
    OP_CAPABILITY = 17,
    OP_TYPE_INT = 21,
    OP_TYPE_FLOAT = 22,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_STRUCT = 30,
    OP_TYPE_POINTER = 32,
    OP_FUNCTION = 54,
    OP_FUNCTION_PARAMETER = 55
};
enum { MODEL_KERNEL = 6, MODE_SUBGROUP_SIZE = 35, CLASS_WORKGROUP = 4, CLASS_FUNCTION = 7 };

/* A type by its id. bytes: of a value as a kernel's argument; 0: not a parameter's type. */
struct type {
    uint32_t bytes, alignment;
    bool pointer, workgroup;
};

struct words {
    const unsigned char *data;
    size_t count;
};

static uint32_t word(const struct words *words, size_t index) {
    return index < words->count ? (uint32_t)gb_read_little_endian(words->data + 4 * index, 4) : 0;
}

bool gb_opencl_recognize(struct gb_image *image) {
    static const unsigned char magic[4] = {0x03, 0x02, 0x23, 0x07};
    if (!gb_image_starts_with(image, magic, sizeof magic)) {
        return false;
    }
    image->format = FORMAT;
    return true;
}

/* A string of `length` words; NULL if it does not end there. */
static char *string_at(const struct words *words, size_t index, size_t length) {
    const char *text = (const char *)words->data + 4 * index;
    if (memchr(text, '\0', 4 * length) == NULL) {
        return NULL;
    }
    return gb_text("%s", text);
}

static struct gb_spirv_kernel *kernel_of(struct gb_spirv_module *module, const uint32_t *ids, uint32_t id) {
    for (size_t i = 0; i < module->kernel_count; i++) {
        if (ids[i] == id) {
            return &module->kernels[i];
        }
    }
    return NULL;
}

static void add_kernel(struct gb_spirv_module *module, uint32_t **ids, uint32_t id, char *name) {
    size_t count = module->kernel_count + 1;
    module->kernels = realloc(module->kernels, count * sizeof *module->kernels);
    *ids = realloc(*ids, count * sizeof **ids);
    if (module->kernels == NULL || *ids == NULL) {
        gb_fatal(NULL, "out of host memory");
    }
    module->kernels[count - 1] = (struct gb_spirv_kernel){.name = name};
    (*ids)[count - 1] = id;
    module->kernel_count = count;
}

static void add_parameter(struct gb_spirv_kernel *kernel, const struct type *type) {
    uint32_t count = kernel->parameter_count + 1;
    kernel->parameters = realloc(kernel->parameters, count * sizeof *kernel->parameters);
    if (kernel->parameters == NULL) {
        gb_fatal(NULL, "out of host memory");
    }
    kernel->parameters[count - 1].kind = type->workgroup ? GB_SPIRV_WORKGROUP
                                         : type->pointer ? GB_SPIRV_POINTER
                                                         : GB_SPIRV_VALUE;
    kernel->parameters[count - 1].bytes = type->bytes;
    kernel->parameter_count = count;
}

/* The type of a struct whose members' ids are `count` words at `at`. */
static struct type struct_of(const struct words *words, size_t at, size_t count, const struct type *types, uint32_t bound) {
    struct type whole = {.bytes = 0, .alignment = 1};
    for (size_t i = 0; i < count; i++) {
        uint32_t id = word(words, at + i);
        const struct type member = id < bound ? types[id] : (struct type){0};
        if (member.alignment == 0 || member.bytes > MOST_BYTES || whole.bytes > MOST_BYTES) {
            return (struct type){0};
        }
        whole.bytes = (whole.bytes + member.alignment - 1) / member.alignment * member.alignment + member.bytes;
        whole.alignment = member.alignment > whole.alignment ? member.alignment : whole.alignment;
    }
    whole.bytes = (whole.bytes + whole.alignment - 1) / whole.alignment * whole.alignment;
    return whole;
}

/* Read one instruction of `length` words at `at`. Returns false if it is damaged. */
static bool read_instruction(const struct words *words, size_t at, size_t length, struct type *types, uint32_t bound,
                             struct gb_spirv_module *module, uint32_t **ids, struct gb_spirv_kernel **current) {
    uint32_t first = word(words, at + 1), second = word(words, at + 2), third = word(words, at + 3);
    switch (word(words, at) & 0xffff) {
    case OP_CAPABILITY:
        module->f64 = module->f64 || first == FLOAT_64;
        return true;
    case OP_ENTRY_POINT: {
        char *name = length > 3 && first == MODEL_KERNEL ? string_at(words, at + 3, length - 3) : NULL;
        if (name != NULL) {
            add_kernel(module, ids, second, name);
        }
        return name != NULL;
    }
    case OP_EXECUTION_MODE: {
        struct gb_spirv_kernel *kernel = kernel_of(module, *ids, first);
        if (kernel != NULL && second == MODE_SUBGROUP_SIZE && length > 3) {
            kernel->subgroup_size = module->subgroup_size = third;
        }
        return true;
    }
    case OP_TYPE_INT:
    case OP_TYPE_FLOAT:
        if (first >= bound || second > 64) {
            return false;
        }
        types[first].bytes = types[first].alignment = second / 8;
        return true;
    case OP_TYPE_VECTOR:
        if (first >= bound || second >= bound || third > 16) {
            return false;
        }
        types[first].bytes = types[second].bytes * (third == 3 ? 4 : third); /* three elements take the room of four */
        types[first].alignment = types[first].bytes;
        return true;
    case OP_TYPE_STRUCT:
        if (first >= bound || length < 2) {
            return false;
        }
        types[first] = struct_of(words, at + 2, length - 2, types, bound);
        return true;
    case OP_TYPE_POINTER:
        if (first >= bound) {
            return false;
        }
        if (second == CLASS_FUNCTION) { /* as a parameter: to a copy of the value */
            types[first] = third < bound ? types[third] : (struct type){0};
            return true;
        }
        types[first] =
            (struct type){.bytes = 8, .alignment = 8, .pointer = true, .workgroup = second == CLASS_WORKGROUP};
        return true;
    case OP_FUNCTION:
        *current = kernel_of(module, *ids, second);
        return true;
    case OP_FUNCTION_PARAMETER:
        if (first >= bound) {
            return false;
        }
        if (*current != NULL) {
            add_parameter(*current, &types[first]);
        }
        return true;
    default:
        return true;
    }
}

bool gb_spirv_read(const struct gb_image *image, struct gb_spirv_module *module) {
    const struct words words = {.data = image->data, .count = image->size / 4};
    *module = (struct gb_spirv_module){0};
    uint32_t bound = word(&words, 3);
    if (words.count < HEADER_WORDS || word(&words, 0) != MAGIC || bound > words.count) {
        return false;
    }
    module->major = word(&words, 1) >> 16 & 0xff;
    module->minor = word(&words, 1) >> 8 & 0xff;
    struct type *types = gb_allocate((size_t)bound * sizeof *types);
    uint32_t *ids = NULL; /* of the kernels' functions */
    struct gb_spirv_kernel *current = NULL;
    bool right = true;
    for (size_t at = HEADER_WORDS; right && at < words.count;) {
        size_t length = word(&words, at) >> 16;
        right = length > 0 && length <= words.count - at &&
                read_instruction(&words, at, length, types, bound, module, &ids, &current);
        at += length;
    }
    free(types);
    free(ids);
    if (!right) {
        gb_spirv_release(module);
    }
    return right;
}

void gb_spirv_release(struct gb_spirv_module *module) {
    for (size_t i = 0; i < module->kernel_count; i++) {
        free(module->kernels[i].name);
        free(module->kernels[i].parameters);
    }
    free(module->kernels);
    *module = (struct gb_spirv_module){0};
}

/* ---- choice ---- */

static bool has_size(const size_t *sizes, size_t wanted) {
    while (*sizes != 0 && *sizes != wanted) {
        sizes++;
    }
    return *sizes != 0;
}

struct gb_fit gb_opencl_fit(const struct gb_image *image, const struct gb_opencl_features *features) {
    if (image->vendor != GB_VENDOR_OPENCL) {
        return gb_unfit("not a SPIR-V image");
    }
    struct gb_spirv_module module;
    if (!gb_spirv_read(image, &module)) {
        return gb_unfit("a damaged SPIR-V module");
    }
    char *version = gb_text("SPIR-V_%u.%u", module.major, module.minor);
    /* Of equal versions: on Intel's devices, which list their sizes of subgroups, the one for such a chip. */
    bool intel_device = features->subgroup_sizes[0] != 0;
    bool intel_image = image->chip[0] != '\0' && strncmp(image->chip, "spirv", 5) != 0;
    struct gb_fit fit = gb_fit(200 * module.major + 2 * module.minor + (intel_device == intel_image));
    if (strstr(features->versions, version) == NULL) {
        fit = gb_unfit("needs another version of SPIR-V");
    } else if (module.f64 && !features->f64) {
        fit = gb_unfit("uses f64, which the device does not have");
    } else if (module.subgroup_size != 0 && features->subgroup_sizes[0] != 0 &&
               !has_size(features->subgroup_sizes, module.subgroup_size)) {
        fit = gb_unfit("needs subgroups of another size");
    }
    free(version);
    gb_spirv_release(&module);
    return fit;
}
