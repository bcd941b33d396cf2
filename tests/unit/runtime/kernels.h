/* How images of these tests write kernels: KERNEL(name) { … }, and IMAGE(kernels) for the table of them. */
#include "cpu/cpu_image.h"

#define UNUSED __attribute__((unused))
#define KERNEL(name)                                                                                          \
    static void name(UNUSED const gb_cpu_launch_info *launch, UNUSED uint64_t first, UNUSED uint64_t last,    \
                     UNUSED char *shared, UNUSED char *dynamic, UNUSED char *contexts)
#define IMAGE(table)                                                                                          \
    gb_cpu_image gpubuild_cpu_image = {                                                                       \
        .magic = GB_CPU_IMAGE_MAGIC, .abi = GB_CPU_IMAGE_ABI, .module = "m", .kernels = table,                \
        .kernel_count = sizeof table / sizeof *table,                                                         \
    };
