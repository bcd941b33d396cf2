/* cpu/cpu_print.h: services that do not make a work-item wait. */
#ifndef GPUBUILD_CPU_PRINT_H
#define GPUBUILD_CPU_PRINT_H

#include "cpu/cpu_image.h"

/* gpu.printf: one call is one piece of output, on the program's stdout. */
int gb_cpu_print(gb_cpu_item *item, const char *format, ...);

/* cf.assert: ends the program with the message, kernel, workgroup and work-item. */
void gb_cpu_assert_fail(gb_cpu_item *item, const char *message, const char *file, uint32_t line,
                        uint32_t column);

/* A clock that never goes back, in nanoseconds. */
void gb_cpu_diverged(gb_cpu_item *item, uint32_t site, uint64_t bits, uint32_t lanes);
uint64_t gb_cpu_time_ns(void);

#endif
