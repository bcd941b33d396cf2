/* cpu_subgroup.c: shuffles, votes, matches and reductions of a subgroup, as PTX defines them. */
#include "cpu/cpu_subgroup.h"

#include <stdbool.h>

static bool is_active(const struct gb_lane_exchange *exchange, uint32_t lane) {
    return lane < GB_CPU_SUBGROUP && (exchange->active >> lane & 1u) != 0;
}

static uint64_t with_flag(uint32_t value, bool flag) {
    return (uint64_t)value | (uint64_t)flag << 32;
}

/* PTX: bits 0 to 4 of `clamp` bound the source lane, bits 8 to 12 cut the subgroup into segments.
 * Reading a lane that does not take part is undefined there; here it gives the lane's own value and
 * counts as out of range, by which reductions know that a subgroup is not full. */
static uint64_t shuffle(const struct gb_lane_exchange *exchange, uint32_t lane, uint32_t operand,
                        uint32_t clamp) {
    uint32_t segment = clamp >> 8 & 31u;
    uint32_t bound = clamp & 31u;
    int highest = (int)((lane & segment) | (bound & ~segment & 31u));
    int lowest = (int)(lane & segment);
    int distance = (int)(operand & 31u);
    int source = (int)lane;
    bool valid = false;
    switch (exchange->op) {
    case GB_CPU_SHUFFLE_UP:
        source -= distance;
        valid = source >= highest;
        break;
    case GB_CPU_SHUFFLE_DOWN:
        source += distance;
        valid = source <= highest;
        break;
    case GB_CPU_SHUFFLE_XOR:
        source ^= distance;
        valid = source <= highest;
        break;
    default:
        source = lowest | (distance & (int)(~segment & 31u));
        valid = source <= highest;
        break;
    }
    valid = valid && source >= 0 && is_active(exchange, (uint32_t)source);
    if (!valid) {
        source = (int)lane;
    }
    return with_flag(exchange->value[source], valid);
}

static uint32_t lanes_equal_to(const struct gb_lane_exchange *exchange, uint32_t value) {
    uint32_t lanes = 0;
    for (uint32_t lane = 0; lane < GB_CPU_SUBGROUP; lane++) {
        if (is_active(exchange, lane) && exchange->value[lane] == value) {
            lanes |= 1u << lane;
        }
    }
    return lanes;
}

static uint32_t ballot(const struct gb_lane_exchange *exchange) {
    return exchange->active & ~lanes_equal_to(exchange, 0);
}

static uint32_t combine(uint32_t op, uint32_t left, uint32_t right) {
    switch (op) {
    case GB_CPU_REDUCE_ADD:
        return left + right;
    case GB_CPU_REDUCE_AND:
        return left & right;
    case GB_CPU_REDUCE_OR:
        return left | right;
    case GB_CPU_REDUCE_XOR:
        return left ^ right;
    case GB_CPU_REDUCE_MIN:
        return (int32_t)left < (int32_t)right ? left : right;
    case GB_CPU_REDUCE_MAX:
        return (int32_t)left > (int32_t)right ? left : right;
    case GB_CPU_REDUCE_UMIN:
        return left < right ? left : right;
    default:
        return left > right ? left : right;
    }
}

static uint32_t reduce(const struct gb_lane_exchange *exchange, uint32_t lane) {
    uint32_t result = exchange->value[lane];
    for (uint32_t other = 0; other < GB_CPU_SUBGROUP; other++) {
        if (other != lane && is_active(exchange, other)) {
            result = combine(exchange->op, result, exchange->value[other]);
        }
    }
    return result;
}

static uint32_t lowest_lane(uint32_t lanes) {
    uint32_t lane = 0;
    while (lane < GB_CPU_SUBGROUP - 1 && (lanes >> lane & 1u) == 0) {
        lane++;
    }
    return lane;
}

uint64_t gb_lane_result(const struct gb_lane_exchange *exchange, uint32_t lane, uint32_t operand,
                        uint32_t clamp) {
    uint32_t value = exchange->value[lane];
    switch (exchange->op) {
    case GB_CPU_SHUFFLE_UP:
    case GB_CPU_SHUFFLE_DOWN:
    case GB_CPU_SHUFFLE_XOR:
    case GB_CPU_SHUFFLE_INDEX:
        return shuffle(exchange, lane, operand, clamp);
    case GB_CPU_VOTE_ALL:
        return ballot(exchange) == exchange->active;
    case GB_CPU_VOTE_ANY:
        return ballot(exchange) != 0;
    case GB_CPU_VOTE_UNIFORM:
        return ballot(exchange) == 0 || ballot(exchange) == exchange->active;
    case GB_CPU_VOTE_BALLOT:
        return ballot(exchange);
    case GB_CPU_MATCH_ANY:
        return lanes_equal_to(exchange, value);
    case GB_CPU_MATCH_ALL: {
        bool same = lanes_equal_to(exchange, value) == exchange->active;
        return with_flag(same ? exchange->active : 0, same);
    }
    case GB_CPU_LANE_SYNC:
        return 0;
    case GB_CPU_ELECT: {
        uint32_t elected = lowest_lane(exchange->active);
        return with_flag(elected, elected == lane);
    }
    default:
        return reduce(exchange, lane);
    }
}
