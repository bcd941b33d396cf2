/* opencl_api.h: the part of OpenCL's ABI that the runtime uses, so that no header is needed; and the declarations that
 * this folder shares.
 *
 * Names and numbers are those of cl.h and cl_ext.h (OpenCL 3.0, cl_intel_unified_shared_memory).
 */
#ifndef GPUBUILD_RT_OPENCL_API_H
#define GPUBUILD_RT_OPENCL_API_H

#include "core/image.h"

typedef int gb_cl_result;

enum {
    CL_SUCCESS = 0,
    CL_INVALID_OPERATION = -59,
    CL_DEVICE_TYPE_CPU = 2,
    CL_DEVICE_TYPE_GPU = 4,
    CL_DEVICE_TYPE_ACCELERATOR = 8,

    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_NAME = 0x102B,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    CL_DEVICE_SVM_CAPABILITIES = 0x1053,
    CL_DEVICE_IL_VERSION = 0x105B,
    CL_DEVICE_SUB_GROUP_SIZES_INTEL = 0x4108,

    CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
    CL_DEVICE_SVM_FINE_GRAIN_BUFFER = 1 << 1,
    CL_DEVICE_SVM_FINE_GRAIN_SYSTEM = 1 << 2,
    CL_MEM_READ_WRITE = 1 << 0,
    CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10,

    CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
    CL_COMPLETE = 0,
    CL_QUEUE_PROPERTIES = 0x1093,
    CL_QUEUE_PROFILING_ENABLE = 1 << 1,
    CL_PROFILING_COMMAND_END = 0x1283,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,

    CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM = 0x11B7,
    CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL = 0x4200,
    CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL = 0x4201,
    CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL = 0x4202
};

#define GB_CL_WAIT uint32_t wait_count, void *const *waits, void **event

/* X(member, symbol, result type, parameters) */
#define GB_CL_REQUIRED(X)                                                                                              \
    X(platforms, clGetPlatformIDs, gb_cl_result, (uint32_t count, void **, uint32_t *found))                           \
    X(devices, clGetDeviceIDs, gb_cl_result, (void *platform, uint64_t type, uint32_t count, void **, uint32_t *found)) \
    X(device_info, clGetDeviceInfo, gb_cl_result, (void *device, uint32_t what, size_t bytes, void *, size_t *got))    \
    X(extension, clGetExtensionFunctionAddressForPlatform, void *, (void *platform, const char *name))                 \
    X(context_create, clCreateContext, void *,                                                                         \
      (const intptr_t *properties, uint32_t count, void *const *devices, void *callback, void *data, gb_cl_result *))  \
    X(queue_create, clCreateCommandQueueWithProperties, void *,                                                        \
      (void *context, void *device, const uint64_t *properties, gb_cl_result *))                                       \
    X(flush, clFlush, gb_cl_result, (void *queue))                                                                     \
    X(finish, clFinish, gb_cl_result, (void *queue))                                                                   \
    X(program_create, clCreateProgramWithIL, void *, (void *context, const void *, size_t bytes, gb_cl_result *))      \
    X(program_build, clBuildProgram, gb_cl_result,                                                                     \
      (void *program, uint32_t count, void *const *devices, const char *options, void *callback, void *data))          \
    X(program_build_info, clGetProgramBuildInfo, gb_cl_result,                                                         \
      (void *program, void *device, uint32_t what, size_t bytes, void *, size_t *got))                                 \
    X(program_release, clReleaseProgram, gb_cl_result, (void *program))                                                \
    X(kernel_create, clCreateKernel, void *, (void *program, const char *name, gb_cl_result *))                        \
    X(kernel_release, clReleaseKernel, gb_cl_result, (void *kernel))                                                   \
    X(kernel_limit, clGetKernelWorkGroupInfo, gb_cl_result,                                                            \
      (void *kernel, void *device, uint32_t what, size_t bytes, void *, size_t *got))                                  \
    X(set_argument, clSetKernelArg, gb_cl_result, (void *kernel, uint32_t index, size_t bytes, const void *value))     \
    X(set_svm_pointer, clSetKernelArgSVMPointer, gb_cl_result, (void *kernel, uint32_t index, const void *address))    \
    X(set_kernel_info, clSetKernelExecInfo, gb_cl_result, (void *kernel, uint32_t what, size_t bytes, const void *))   \
    X(launch, clEnqueueNDRangeKernel, gb_cl_result,                                                                    \
      (void *queue, void *kernel, uint32_t dimensions, const size_t *offset, const size_t *global, const size_t *local, \
       GB_CL_WAIT))                                                                                                    \
    X(marker, clEnqueueMarkerWithWaitList, gb_cl_result, (void *queue, GB_CL_WAIT))                                    \
    X(barrier, clEnqueueBarrierWithWaitList, gb_cl_result, (void *queue, GB_CL_WAIT))                                  \
    X(wait, clWaitForEvents, gb_cl_result, (uint32_t count, void *const *events))                                      \
    X(event_time, clGetEventProfilingInfo, gb_cl_result,                                                               \
      (void *event, uint32_t what, size_t bytes, void *, size_t *got))                                                 \
    X(event_info, clGetEventInfo, gb_cl_result, (void *event, uint32_t what, size_t bytes, void *, size_t *got))       \
    X(event_retain, clRetainEvent, gb_cl_result, (void *event))                                                        \
    X(event_release, clReleaseEvent, gb_cl_result, (void *event))                                                      \
    X(svm_allocate, clSVMAlloc, void *, (void *context, uint64_t flags, size_t bytes, uint32_t alignment))             \
    X(svm_free, clSVMFree, void, (void *context, void *address))                                                       \
    X(svm_copy, clEnqueueSVMMemcpy, gb_cl_result,                                                                      \
      (void *queue, uint32_t blocking, void *to, const void *from, size_t bytes, GB_CL_WAIT))                          \
    X(svm_fill, clEnqueueSVMMemFill, gb_cl_result,                                                                     \
      (void *queue, void *to, const void *pattern, size_t pattern_bytes, size_t bytes, GB_CL_WAIT))

/* Functions of cl_intel_unified_shared_memory. */
#define GB_CL_USM(X)                                                                                                   \
    X(allocate_device, clDeviceMemAllocINTEL, void *,                                                                  \
      (void *context, void *device, const uint64_t *properties, size_t bytes, uint32_t alignment, gb_cl_result *))     \
    X(allocate_shared, clSharedMemAllocINTEL, void *,                                                                  \
      (void *context, void *device, const uint64_t *properties, size_t bytes, uint32_t alignment, gb_cl_result *))     \
    X(release, clMemBlockingFreeINTEL, gb_cl_result, (void *context, void *address))                                   \
    X(set_pointer, clSetKernelArgMemPointerINTEL, gb_cl_result, (void *kernel, uint32_t index, const void *address))   \
    X(copy, clEnqueueMemcpyINTEL, gb_cl_result,                                                                        \
      (void *queue, uint32_t blocking, void *to, const void *from, size_t bytes, GB_CL_WAIT))                          \
    X(fill, clEnqueueMemFillINTEL, gb_cl_result,                                                                       \
      (void *queue, void *to, const void *pattern, size_t pattern_bytes, size_t bytes, GB_CL_WAIT))

#define GB_CL_MEMBER(member, symbol, result, parameters) result(*member) parameters;
struct gb_cl_api {
    GB_CL_REQUIRED(GB_CL_MEMBER)
};
struct gb_cl_usm {
    GB_CL_USM(GB_CL_MEMBER)
};
#undef GB_CL_MEMBER

/* ---- opencl_image.c ---- */

/* A parameter of a kernel. */
enum gb_spirv_parameter { GB_SPIRV_VALUE, GB_SPIRV_POINTER, GB_SPIRV_WORKGROUP };

struct gb_spirv_kernel {
    char *name;
    uint32_t subgroup_size; /* 0: any */
    uint32_t parameter_count;
    struct {
        enum gb_spirv_parameter kind;
        uint32_t bytes; /* of a value */
    } *parameters;
};

struct gb_spirv_module {
    unsigned major, minor;
    bool f64;               /* uses doubles */
    uint32_t subgroup_size; /* that a kernel requires; 0: none does */
    size_t kernel_count;
    struct gb_spirv_kernel *kernels;
};

/* Read a SPIR-V module. Nothing in it is trusted. Returns false for a damaged one. */
bool gb_spirv_read(const struct gb_image *image, struct gb_spirv_module *module);
void gb_spirv_release(struct gb_spirv_module *module);

bool gb_opencl_recognize(struct gb_image *image);

/* What a device can run. */
struct gb_opencl_features {
    char *versions; /* CL_DEVICE_IL_VERSION: "SPIR-V_1.2 SPIR-V_1.3" */
    bool f64;
    size_t subgroup_sizes[16]; /* closed by 0; none: unknown */
};

struct gb_fit gb_opencl_fit(const struct gb_image *image, const struct gb_opencl_features *features);

/* ---- opencl_find.c ---- */

extern struct gb_cl_api gb_cl; /* filled by gb_opencl_find */

/* A device and what it has. */
struct gb_opencl_facts {
    void *platform, *handle;
    char *name;
    uint64_t svm;
    bool has_usm;
    const char *options; /* for the device's compiler */
    struct gb_cl_usm usm;
    struct gb_opencl_features features;
};

/* Find a device by its number: its platform and handle. Returns false, and the reason in *why (free() it), if there is
 * none that GPUBUILD_DEVICE allows. */
bool gb_opencl_find(int ordinal, struct gb_opencl_facts *facts, char **why);

/* Ask for all else. Returns false for a device whose memory cannot be used. */
bool gb_opencl_describe(struct gb_opencl_facts *facts);

const char *gb_opencl_result_name(gb_cl_result result);

#endif
