/* opencl_find.c: the OpenCL loader, the devices that it lists, and what they have.
 *
 * The loader is opened at the first use.
 */
#include "core/device.h"
#include "opencl/opencl_api.h"

#include <stdlib.h>
#include <string.h>

struct gb_cl_api gb_cl;
/* Used only under core/module.c's lock. */
static bool ready;
static uint32_t device_count;
static struct {
    void *platform, *handle;
    uint64_t type;
} found[GB_MAX_DEVICES];

const char *gb_opencl_result_name(gb_cl_result result) {
    static const struct {
        gb_cl_result result;
        const char *name;
    } names[] = {
        {-1, "CL_DEVICE_NOT_FOUND"},
        {-2, "CL_DEVICE_NOT_AVAILABLE"},
        {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
        {-5, "CL_OUT_OF_RESOURCES"},
        {-6, "CL_OUT_OF_HOST_MEMORY"},
        {-11, "CL_BUILD_PROGRAM_FAILURE"},
        {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
        {-30, "CL_INVALID_VALUE"},
        {-34, "CL_INVALID_CONTEXT"},
        {-36, "CL_INVALID_COMMAND_QUEUE"},
        {-42, "CL_INVALID_BINARY"},
        {-46, "CL_INVALID_KERNEL_NAME"},
        {-49, "CL_INVALID_ARG_INDEX"},
        {-50, "CL_INVALID_ARG_VALUE"},
        {-51, "CL_INVALID_ARG_SIZE"},
        {-52, "CL_INVALID_KERNEL_ARGS"},
        {-54, "CL_INVALID_WORK_GROUP_SIZE"},
        {-55, "CL_INVALID_WORK_ITEM_SIZE"},
        {-58, "CL_INVALID_EVENT"},
        {-59, "CL_INVALID_OPERATION"},
        {-61, "CL_INVALID_BUFFER_SIZE"},
        {-63, "CL_INVALID_GLOBAL_WORK_SIZE"},
        {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].result == result) {
            return names[i].name;
        }
    }
    return "an error";
}

static void add_devices(void *platform, uint64_t type) {
    void *handles[GB_MAX_DEVICES];
    uint32_t count = 0;
    if (gb_cl.devices(platform, type, GB_MAX_DEVICES, handles, &count) != CL_SUCCESS) {
        return; /* it has none of the type */
    }
    for (uint32_t i = 0; i < count && i < GB_MAX_DEVICES && device_count < GB_MAX_DEVICES; i++) {
        char versions[1024] = "";
        /* A device without SPIR-V has no versions. */
        if (gb_cl.device_info(handles[i], CL_DEVICE_IL_VERSION, sizeof versions, versions, NULL) == CL_SUCCESS &&
            strstr(versions, "SPIR-V") != NULL) {
            found[device_count].platform = platform;
            found[device_count].handle = handles[i];
            found[device_count++].type = type;
        }
    }
}

static bool open_library(char **why) {
    static const char *const names[] = {"libOpenCL.so.1", NULL};
    static const uint64_t types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ACCELERATOR, CL_DEVICE_TYPE_CPU};
    if (ready) {
        return true;
    }
    void *library = gb_library_open(names, why);
    if (library == NULL) {
        return false;
    }
#define TAKE(member, symbol, result, parameters)                                                                       \
    gb_library_symbol(library, #symbol, &gb_cl.member);                                                                \
    if (gb_cl.member == NULL) {                                                                                        \
        *why = gb_text("libOpenCL.so.1 has no function " #symbol ": OpenCL 2.1 or newer is needed");                   \
        return false;                                                                                                  \
    }
    GB_CL_REQUIRED(TAKE)
#undef TAKE
    void *platforms[GB_MAX_DEVICES];
    uint32_t count = 0;
    gb_cl_result result = gb_cl.platforms(GB_MAX_DEVICES, platforms, &count);
    if (result != CL_SUCCESS) {
        *why = gb_text("clGetPlatformIDs failed with %s (%d): no OpenCL driver is installed",
                       gb_opencl_result_name(result), result);
        return false;
    }
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++) {
        for (uint32_t i = 0; i < count && i < GB_MAX_DEVICES; i++) {
            add_devices(platforms[i], types[type]);
        }
    }
    ready = true;
    return true;
}

static char *device_text(void *device, uint32_t what) {
    size_t bytes = 0;
    if (gb_cl.device_info(device, what, 0, NULL, &bytes) != CL_SUCCESS) {
        return gb_text("%s", "");
    }
    char *text = gb_allocate(bytes + 1);
    gb_cl.device_info(device, what, bytes, text, NULL);
    return text;
}

static uint64_t device_number(void *device, uint32_t what) {
    uint64_t number = 0;
    return gb_cl.device_info(device, what, sizeof number, &number, NULL) == CL_SUCCESS ? number : 0;
}

static bool take_usm(struct gb_opencl_facts *facts) {
    bool all = true;
#define TAKE(member, symbol, result, parameters)                                                                       \
    *(void **)&facts->usm.member = gb_cl.extension(facts->platform, #symbol);                                          \
    all = all && facts->usm.member != NULL;
    GB_CL_USM(TAKE)
#undef TAKE
    return all;
}

bool gb_opencl_find(int ordinal, struct gb_opencl_facts *facts, char **why) {
    if (!open_library(why)) {
        return false;
    }
    if (ordinal < 0 || (uint32_t)ordinal >= device_count) {
        *why = gb_text("there is no opencl:%d; OpenCL finds %u device%s that take SPIR-V", ordinal, device_count,
                       device_count == 1 ? "" : "s");
        return false;
    }
    if (gb_settings()->vendor != GB_VENDOR_OPENCL && found[ordinal].type != CL_DEVICE_TYPE_GPU) {
        *why = gb_text("opencl:%d is no GPU; it is used with GPUBUILD_DEVICE=opencl:%d", ordinal, ordinal);
        return false;
    }
    *facts = (struct gb_opencl_facts){.platform = found[ordinal].platform, .handle = found[ordinal].handle};
    return true;
}

bool gb_opencl_describe(struct gb_opencl_facts *facts) {
    void *handle = facts->handle;
    facts->svm = device_number(handle, CL_DEVICE_SVM_CAPABILITIES);
    char *extensions = device_text(handle, CL_DEVICE_EXTENSIONS);
    facts->has_usm = strstr(extensions, "cl_intel_unified_shared_memory") != NULL && take_usm(facts);
    free(extensions);
    if (!facts->has_usm && facts->svm == 0) {
        return false;
    }
    facts->features.versions = device_text(handle, CL_DEVICE_IL_VERSION);
    facts->features.f64 = device_number(handle, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
    enum { SIZES = sizeof facts->features.subgroup_sizes / sizeof facts->features.subgroup_sizes[0] };
    gb_cl.device_info(handle, CL_DEVICE_SUB_GROUP_SIZES_INTEL, (SIZES - 1) * sizeof(size_t),
                      facts->features.subgroup_sizes, NULL);
    bool rounds = (device_number(handle, CL_DEVICE_SINGLE_FP_CONFIG) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
    facts->options = rounds ? "-cl-fp32-correctly-rounded-divide-sqrt" : "";
    facts->name = device_text(handle, CL_DEVICE_NAME);
    return true;
}
