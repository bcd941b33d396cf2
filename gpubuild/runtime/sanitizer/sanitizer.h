/* sanitizer.h: the run-time side of `sanitize:`: errors of checked CPU kernels (docs/how-to/checked.md).
 *
 * Code compiled with checks calls the services below. Findings are kept until the launch ends, so that
 * reports do not depend on which thread was first. */
#ifndef GPUBUILD_SANITIZER_H
#define GPUBUILD_SANITIZER_H

#include "cpu/cpu_image.h"

enum {
    GB_CHECK_EXIT_CODE = 66, /* of a program with findings */
    GB_CHECK_MOST_REPORTS = 100,
    GB_CHECK_MOST_BLOCKS = 16 /* workgroups that a thread runs at a time: a cluster */
};

#define GB_CHECK_NOWHERE UINT32_MAX /* no site */

/* ---- hooks of the launcher ---- */

/* Called for each loaded image. If it is checked, a summary is written when the program ends. */
void gb_check_image(const gb_cpu_image *image);

/* Around each launch of a checked kernel, on the thread that launches. */
void gb_check_launch_begin(const gb_cpu_kernel *kernel);
void gb_check_launch_end(const gb_cpu_kernel *kernel);

/* This thread is about to run workgroups, `blocks` at a time, each with `stride` bytes of memory from
 * `shared` on. */
void gb_check_workgroups(const gb_cpu_launch_info *launch, char *shared, size_t stride, uint32_t blocks);

/* ---- services (cpu/cpu_image.h) ---- */

void gb_check_bounds(gb_cpu_item *item, uint32_t site, uint32_t dimension, uint64_t first, uint64_t count,
                     uint64_t step, uint64_t size);
void gb_check_view(gb_cpu_item *item, uint32_t site, uint32_t dimension, uint64_t first, uint64_t count,
                   uint64_t step, uint64_t size);
void gb_check_access(gb_cpu_item *item, uint32_t site, uint32_t mode, uint64_t address, uint64_t bytes);
void gb_check_meet(gb_cpu_item *item);
void gb_check_wait(gb_cpu_item *item);

/* Of `expected` work-items `arrived` wait at `site`; `absent` waits at `other_site`, or has returned when
 * that is GB_CHECK_NOWHERE. `absent` NULL: the lanes of a subgroup disagree about an operation. */
void gb_check_divergence(const gb_cpu_item *waiting, uint32_t site, uint32_t arrived, uint32_t expected,
                                   const gb_cpu_item *absent, uint32_t other_site);

/* ---- findings (sanitizer/report.c) ---- */

enum gb_check_kind { GB_CHECK_BOUNDS, GB_CHECK_RACE, GB_CHECK_BARRIER, GB_CHECK_UNINITIALIZED, GB_CHECK_HOST_MEMORY,
                     GB_CHECK_KINDS };

/* A work-item, and the operation that it executes. */
struct gb_check_party {
    uint32_t block[3];
    uint32_t item[3];
    uint32_t site;
    uint32_t mode; /* enum gb_check_mode */
};

struct gb_check_finding {
    enum gb_check_kind kind;
    const gb_cpu_kernel *kernel;
    struct gb_where where; /* of the launch */
    uint64_t block; /* linear ids: of several occurrences the one with the lowest is reported */
    uint32_t item;
    struct gb_check_party by;
    struct gb_check_party other; /* its site is GB_CHECK_NOWHERE when there is none */
    bool view;
    uint32_t dimension;
    uint64_t first, count, step, size; /* bounds */
    uint64_t address, bytes;           /* race, uninitialized, host memory */
    bool workgroup_memory;             /* then `address` is an offset in it */
    uint32_t arrived, expected;        /* barrier */
};

void gb_check_note(const struct gb_check_finding *finding);

/* Print what was noted for a kernel's launches. */
void gb_check_flush(const gb_cpu_kernel *kernel);

/* Flush, sum up, and end the program with GB_CHECK_EXIT_CODE. */
_Noreturn void gb_check_end(void);

/* Count a launch, and what it was checked for. */
void gb_check_count_launch(const gb_cpu_kernel *kernel);

/* At the end of the program: register it, once. */
void gb_check_enable(void);

/* ---- races (sanitizer/race_detector.c) ---- */

/* Launches that are checked for races run one at a time, on one thread. */
void gb_check_race_begin(void);
void gb_check_race_end(void);

/* Begin a segment, the part of a workgroup's execution between two barriers, and return its number. With `base` not 0:
 * the part of its subgroups' execution between two waits, within the segment `base`. Numbers increase, also from launch
 * to launch. `block` is the workgroup's linear id. */
uint32_t gb_check_segment(uint64_t block, uint32_t base);

/* Drop the segments that no earlier access names, if there are many. No workgroup may be running. */
void gb_check_drop_segments(void);

/* An earlier access that conflicts with the present one. */
struct gb_check_conflict {
    uint64_t block;
    uint32_t item;
    uint32_t site;
    uint32_t mode;
};

/* Record an access if it is a common one that needs no report; returns whether it was. */
bool gb_check_race_simple(uint64_t address, uint64_t bytes, uint32_t mode, bool workgroup_memory, uint32_t segment,
                          uint32_t item, uint32_t site);

/* Record any other access; returns whether it races with an earlier one. In workgroup memory, whose addresses
 * workgroups use one after the other, only accesses of the same workgroup count. */
bool gb_check_race_access(uint64_t address, uint64_t bytes, uint32_t mode, bool workgroup_memory, uint32_t segment,
                          uint32_t item, uint32_t site, struct gb_check_conflict *conflict);

#endif
