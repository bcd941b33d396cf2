/* cpu_workgroup.h: the fibers tier: work-items that can wait for each other, run by one thread. */
#ifndef GPUBUILD_CPU_TEAM_H
#define GPUBUILD_CPU_TEAM_H

#include "cpu/cpu_image.h"

/* The work-items of one workgroup, or of all workgroups of a cluster that has a cluster barrier. */
struct gb_cpu_team;

struct gb_cpu_team *gb_cpu_team_create(void);
void gb_cpu_team_destroy(struct gb_cpu_team *team);

/* Get ready for workgroups of a launch, `blocks` at a time. Workgroup i of those has its static memory at
 * shared + i * stride and its dynamic memory at dynamic + i * stride. */
void gb_cpu_team_begin(struct gb_cpu_team *team, const gb_cpu_launch_info *launch, uint32_t blocks, char *shared,
                       char *dynamic, size_t stride);

/* Run the workgroups with these linear ids, as many as were begun with, to their end. */
void gb_cpu_team_run(struct gb_cpu_team *team, const uint64_t *block_ids);

/* The address behind the stack of a work-item that runs in a team. */
const char *gb_cpu_team_stack_end(const gb_cpu_item *item);

/* The services of cpu/cpu_image.h that make a work-item wait. */
void gb_cpu_barrier(gb_cpu_item *item, uint32_t site);
void gb_cpu_cluster_barrier(gb_cpu_item *item, uint32_t site);
uint64_t gb_cpu_lanes(gb_cpu_item *item, uint32_t site, uint32_t op, uint32_t mask, uint32_t value,
                      uint32_t lane, uint32_t clamp);

/* What site `site` of the kernel's module is called in messages (cpu/cpu_module.c). */
const char *gb_cpu_site_name(const gb_cpu_kernel *kernel, uint32_t site);
/* The module a kernel belongs to (cpu/cpu_module.c). */
const char *gb_cpu_kernel_module(const gb_cpu_kernel *kernel);

#endif
