/* device.c: devices, their properties, and contexts. */
#define _GNU_SOURCE
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const name_of_driver = "stand-in of the CUDA driver (no GPU)";

enum { MOST_CONTEXTS = 64, NOT_THE_ORDINAL = 100 };

static bool initialised;
static struct context *primary[MOST_DEVICES];
static _Thread_local struct context *stack[MOST_CONTEXTS];
static _Thread_local int depth;

/* From the tables of NVIDIA's programming guide. */
static const struct chip chips[] = {
    {5, 0, 49152},  {5, 2, 49152},  {6, 0, 49152},  {6, 1, 49152},  {7, 0, 98304},   {7, 5, 65536},
    {8, 0, 166912}, {8, 6, 101376}, {8, 9, 101376}, {9, 0, 232448}, {10, 0, 232448}, {12, 0, 101376},
};

static const char *setting(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : otherwise;
}

bool backwards(void) { return strcmp(setting("EMU_CUDA_BACKWARDS", "0"), "1") == 0; }
bool early(void) { return strcmp(setting("EMU_CUDA_ORDER", "late"), "early") == 0; }
unsigned seconds_of_launch(void) { return (unsigned)strtoul(setting("EMU_CUDA_SECONDS", "20"), NULL, 10); }

/* The text of chip `index` in the list; NULL beyond its end. */
static const char *listed(int index) {
    const char *list = setting("EMU_CUDA_DEVICES", "7.0");
    for (; index > 0 && list != NULL; index--) {
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return list;
}

int device_count(void) {
    int count = 0;
    while (count < MOST_DEVICES && listed(count) != NULL) {
        count++;
    }
    return count;
}

int chip_of(int ordinal, struct chip *chip) {
    int major = 0, minor = 0;
    if (ordinal < 0 || ordinal >= device_count() || sscanf(listed(ordinal), "%d.%d", &major, &minor) != 2) {
        return INVALID_DEVICE;
    }
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        if (chips[i].major == major && chips[i].minor == minor) {
            *chip = chips[i];
            return SUCCESS;
        }
    }
    return because(INVALID_DEVICE, "nothing is known of a device of compute capability %d.%d", major, minor);
}

struct context *current_context(void) {
    return depth > 0 ? stack[depth - 1] : NULL;
}

/* ---- The API ---- */

int cuInit(unsigned flags) {
    enter();
    initialised = flags == 0;
    leave();
    return flags != 0 ? INVALID_VALUE : device_count() == 0 ? NO_DEVICE : SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = initialised ? device_count() : 0;
    return initialised ? SUCCESS : NOT_INITIALIZED;
}

/* A device is not equal to its ordinal, so that a program that confuses them fails. */
static int ordinal_of(int device, struct chip *chip) {
    return !initialised ? NOT_INITIALIZED : chip_of(device - NOT_THE_ORDINAL, chip);
}

int cuDeviceGet(int *device, int ordinal) {
    struct chip chip;
    *device = ordinal + NOT_THE_ORDINAL;
    return ordinal_of(*device, &chip);
}

int cuDeviceGetName(char *name, int bytes, int device) {
    struct chip chip;
    int result = ordinal_of(device, &chip);
    if (result == SUCCESS && bytes > 0) {
        snprintf(name, (size_t)bytes, "PTX on the host's processor, no GPU");
    }
    return result;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    struct chip chip;
    int result = ordinal_of(device, &chip);
    if (result != SUCCESS) {
        return result;
    }
    switch (attribute) {
    case 75: *value = chip.major; return SUCCESS;
    case 76: *value = chip.minor; return SUCCESS;
    case 97: *value = chip.shared_optin; return SUCCESS;
    default: return because(INVALID_VALUE, "device attribute %d is not supported here", attribute);
    }
}

int cuDevicePrimaryCtxRetain(struct context **result, int device) {
    struct chip chip;
    int code = ordinal_of(device, &chip);
    if (code != SUCCESS) {
        return code;
    }
    enter();
    int ordinal = device - NOT_THE_ORDINAL;
    if (primary[ordinal] == NULL) {
        primary[ordinal] = new_handle(A_CONTEXT, sizeof *primary[ordinal], NULL);
        primary[ordinal]->device = ordinal;
        primary[ordinal]->chip = chip;
    }
    *result = primary[ordinal];
    leave();
    return SUCCESS;
}

int cuCtxPushCurrent_v2(struct context *context) {
    if (!is_handle(context, A_CONTEXT, NULL)) {
        return INVALID_CONTEXT;
    }
    if (depth == MOST_CONTEXTS) {
        because(INVALID_CONTEXT, "%d contexts are pushed: one is not popped?", depth);
        abort();
    }
    stack[depth++] = context;
    return SUCCESS;
}

int cuCtxPopCurrent_v2(struct context **context) {
    if (depth == 0) {
        return INVALID_CONTEXT;
    }
    *context = stack[--depth];
    return SUCCESS;
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {INVALID_CLUSTER_SIZE, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster misconfiguration"},
};

static int error_text(int code, const char **text, bool name) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (errors[i].code == code) {
            *text = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    }
    *text = NULL;
    return INVALID_VALUE;
}

int cuGetErrorName(int code, const char **name) { return error_text(code, name, true); }
int cuGetErrorString(int code, const char **text) { return error_text(code, text, false); }
