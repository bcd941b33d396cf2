/* cpu_subgroup.h: what subgroup operations compute, once all lanes have arrived. */
#ifndef GPUBUILD_CPU_LANES_H
#define GPUBUILD_CPU_LANES_H

#include "cpu/cpu_image.h"

/* One subgroup operation. `active` has a bit for each lane that takes part; the other entries of
 * `value` mean nothing. */
struct gb_lane_exchange {
    uint32_t op; /* enum gb_cpu_lane_op */
    uint32_t active;
    uint32_t value[GB_CPU_SUBGROUP];
};

/* The result for `lane`; `operand` and `clamp` are those it passed to a shuffle, as in PTX. */
uint64_t gb_lane_result(const struct gb_lane_exchange *exchange, uint32_t lane, uint32_t operand,
                        uint32_t clamp);

#endif
