/* cpu/cpu_print.c: printf, assertions, barriers that some miss, and time for kernels. */
#define _POSIX_C_SOURCE 200809L
#include "cpu/cpu_print.h"

#include "cpu/cpu_workgroup.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

int gb_cpu_print(gb_cpu_item *item, const char *format, ...) {
    (void)item;
    va_list arguments;
    va_start(arguments, format);
    int printed = vprintf(format, arguments); /* locks the stream, so one call stays in one piece */
    va_end(arguments);
    return printed;
}

void gb_cpu_assert_fail(gb_cpu_item *item, const char *message, const char *file, uint32_t line,
                        uint32_t column) {
    const gb_cpu_kernel *kernel = item->kernel;
    const struct gb_where where = {.module = gb_cpu_kernel_module(kernel), .kernel = kernel->name, .device = "cpu"};
    const uint32_t *block = item->block_id;
    const uint32_t *id = item->thread_id;
    if (file[0] == '-' || file[0] == '(') { /* text without the user's locations */
        gb_fatal(&where, "assertion failed: %s, in workgroup (%u, %u, %u), work-item (%u, %u, %u)", message, block[0],
                 block[1], block[2], id[0], id[1], id[2]);
    }
    gb_fatal(&where, "%s:%u:%u: assertion failed: %s, in workgroup (%u, %u, %u), work-item (%u, %u, %u)", file, line,
             column, message, block[0], block[1], block[2], id[0], id[1], id[2]);
}

void gb_cpu_diverged(gb_cpu_item *item, uint32_t site, uint64_t bits, uint32_t lanes) {
    const unsigned char *comes = (const unsigned char *)(uintptr_t)bits;
    const uint32_t *size = item->block_dim;
    uint32_t items = size[0] * size[1] * size[2];
    uint32_t group = lanes == 0 ? items : lanes;
    uint32_t arrived = 0, expected = 0, absent = 0;
    for (uint32_t first = 0; first < items && (arrived == 0 || arrived == expected); first += group) {
        arrived = 0;
        expected = items - first < group ? items - first : group;
        for (uint32_t i = expected; i-- > 0;) {
            arrived += comes[first + i];
            absent = comes[first + i] == 0 ? first + i : absent;
        }
    }
    const gb_cpu_kernel *kernel = item->kernel;
    const struct gb_where where = {.module = gb_cpu_kernel_module(kernel), .kernel = kernel->name, .device = "cpu"};
    const uint32_t *block = item->block_id;
    gb_fatal(&where,
             "in workgroup (%u, %u, %u) %u of %u work-items wait at %s, but work-item (%u, %u, %u) does not reach it; "
             "all work-items must execute the same barriers",
             block[0], block[1], block[2], arrived, expected, gb_site_text(gb_cpu_site_name(kernel, site)), absent % size[0],
             absent / size[0] % size[1], absent / size[0] / size[1]);
}

uint64_t gb_cpu_time_ns(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
