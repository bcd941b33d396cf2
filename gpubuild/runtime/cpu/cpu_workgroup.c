/* cpu_workgroup.c: the fibers tier. Work-items are fibers of one thread; one runs until it must wait.
 *
 * Invariant: a work-item is in `ready` exactly when its state is READY. The last work-item to arrive releases the others.
 * When none is ready and one waits, the kernel is wrong, and the program ends with a message that names a waiting
 * work-item, the barrier, and a work-item that did not reach it. */
#include "cpu/cpu_device.h"
#include "sanitizer/sanitizer.h"

#include <stdlib.h>
#include <string.h>

enum state { READY, AT_BARRIER, AT_CLUSTER_BARRIER, AT_LANES, DONE };

struct work_item {
    gb_cpu_item item; /* first: kernels and services have only its address */
    struct gb_cpu_team *team;
    struct gb_fiber fiber;
    uint32_t index; /* in the team */
    uint32_t state;
    uint32_t site; /* of the operation at which it waits */
    uint32_t op, mask, value, operand, clamp;
    uint64_t result;
};

struct gb_cpu_team {
    struct work_item *items;
    uint64_t *ready; /* a bit for each work-item */
    uint32_t capacity;
    uint32_t count;     /* running work-items */
    uint32_t per_block; /* work-items in a workgroup */
    uint32_t blocks;
    uint32_t done;
    uint32_t at_cluster_barrier;
    uint32_t *at_barrier; /* arrivals, for each workgroup */
    uint32_t running;
    const gb_cpu_launch_info *launch;
    struct gb_fiber_stacks stacks;
    struct gb_fiber home; /* the thread's own stack */
};

static _Thread_local struct gb_cpu_team *active_team; /* for a fiber's first step only */

struct gb_cpu_team *gb_cpu_team_create(void) {
    return gb_allocate(sizeof(struct gb_cpu_team));
}

void gb_cpu_team_destroy(struct gb_cpu_team *team) {
    gb_fiber_stacks_free(&team->stacks);
    free(team->items);
    free(team->ready);
    free(team->at_barrier);
    free(team);
}

static void reserve(struct gb_cpu_team *team, uint32_t count, size_t bytes) {
    size_t least = GB_FIBER_STACK_BYTES;
    gb_fiber_stacks_reserve(&team->stacks, count, bytes > least ? bytes : least);
    if (count <= team->capacity) {
        return;
    }
    free(team->items);
    free(team->ready);
    free(team->at_barrier);
    team->items = gb_allocate(count * sizeof *team->items);
    team->ready = gb_allocate((count + 63) / 64 * sizeof *team->ready);
    team->at_barrier = gb_allocate(count * sizeof *team->at_barrier);
    team->capacity = count;
}

const gb_cpu_item *gb_cpu_team_running(const struct gb_cpu_team *team) {
    return &team->items[team->running].item;
}

/* ---- scheduling ---- */

static void make_ready(struct gb_cpu_team *team, struct work_item *member) {
    member->state = READY;
    team->ready[member->index / 64] |= UINT64_C(1) << member->index % 64;
}

static void make_wait(struct gb_cpu_team *team, struct work_item *member, enum state state, uint32_t site) {
    member->state = state;
    member->site = site;
    team->ready[member->index / 64] &= ~(UINT64_C(1) << member->index % 64);
}

/* The next ready work-item after `from`, around the end; NULL when there is none. */
static struct work_item *next_ready(struct gb_cpu_team *team, uint32_t from) {
    uint32_t words = (team->count + 63) / 64;
    uint32_t word = from / 64;
    uint64_t bits = team->ready[word] & ~(((UINT64_C(2) << from % 64) - 1));
    for (uint32_t step = 0; step <= words; step++) {
        if (bits != 0) {
            return &team->items[word * 64 + (uint32_t)__builtin_ctzll(bits)];
        }
        word = word + 1 == words ? 0 : word + 1;
        bits = team->ready[word];
    }
    return NULL;
}

/* ---- kernels that break the rules ---- */

static char *site_of(const struct work_item *member) {
    return gb_site_text(gb_cpu_site_name(member->item.kernel, member->site));
}

static bool same_wait(const struct work_item *a, const struct work_item *b) {
    return b->state == a->state && b->site == a->site;
}

/* Whether `a` waits for `b`: they share a subgroup, a workgroup or a cluster. */
static bool waits_for(const struct gb_cpu_team *team, const struct work_item *a, const struct work_item *b) {
    if (a->state == AT_CLUSTER_BARRIER) {
        return true;
    }
    if (a->index / team->per_block != b->index / team->per_block) {
        return false;
    }
    if (a->state != AT_LANES) {
        return true;
    }
    uint32_t lane = b->item.linear_id % GB_CPU_SUBGROUP;
    return a->item.linear_id / GB_CPU_SUBGROUP == b->item.linear_id / GB_CPU_SUBGROUP && (a->mask >> lane & 1u) != 0;
}

static _Noreturn void report_deadlock(struct gb_cpu_team *team) {
    const struct work_item *waiting = NULL;
    for (uint32_t i = 0; i < team->count && waiting == NULL; i++) {
        waiting = team->items[i].state != DONE ? &team->items[i] : NULL;
    }
    if (waiting == NULL) {
        abort(); /* called only when a work-item waits */
    }
    uint32_t arrived = 0, expected = 0;
    const struct work_item *absent = NULL;
    for (uint32_t i = 0; i < team->count; i++) {
        const struct work_item *other = &team->items[i];
        if (!waits_for(team, waiting, other)) {
            continue;
        }
        expected++;
        if (same_wait(waiting, other)) {
            arrived++;
        } else if (absent == NULL || (absent->state != DONE && other->state == DONE)) {
            absent = other;
        }
    }
    const gb_cpu_kernel *kernel = waiting->item.kernel;
    const struct gb_where where = gb_cpu_where(kernel);
    const uint32_t *block = waiting->item.block_id;
    if ((kernel->flags & GB_CPU_KERNEL_CHECK_BARRIER) != 0) {
        gb_check_divergence(&waiting->item, waiting->site, arrived, expected, absent != NULL ? &absent->item : NULL,
                            absent == NULL || absent->state == DONE ? GB_CHECK_NOWHERE : absent->site);
        /* No work-item of these workgroups can continue: abort them and run the next ones. */
        gb_fiber_switch(&team->items[team->running].fiber, &team->home);
    }
    char *problem;
    if (absent == NULL) {
        problem = gb_text("%s", " with different operands; all lanes of a subgroup operation must pass the same mask");
    } else {
        const uint32_t *id = absent->item.thread_id;
        bool done = absent->state == DONE;
        problem = gb_text(", but work-item (%u, %u, %u) %s%s; all work-items must execute the same barriers", id[0], id[1], id[2],
                          done ? "returned without reaching it" : "waits at ", done ? "" : site_of(absent));
    }
    gb_fatal(&where, "in workgroup (%u, %u, %u) %u of %u work-items wait at %s%s", block[0], block[1], block[2], arrived,
             expected, site_of(waiting), problem);
}

/* Run other work-items; returns when `member` is ready and scheduled again. */
static void suspend(struct gb_cpu_team *team, struct work_item *member) {
    struct work_item *next = next_ready(team, member->index);
    if (next == NULL) {
        report_deadlock(team);
    }
    if (next != member) {
        team->running = next->index;
        gb_fiber_switch(&member->fiber, &next->fiber);
    }
}

/* ---- barriers ---- */

static struct work_item *member_of(gb_cpu_item *item) {
    return (struct work_item *)item;
}

/* Release members [first, last), which have all arrived, or report that they are at different barriers: the dialect
 * requires each barrier to be executed by all or none. */
static void release(struct gb_cpu_team *team, uint32_t first, uint32_t last) {
    for (uint32_t i = first + 1; i < last; i++) {
        if (!same_wait(&team->items[first], &team->items[i])) {
            report_deadlock(team);
        }
    }
    for (uint32_t i = first; i < last; i++) {
        make_ready(team, &team->items[i]);
    }
}

const char *gb_cpu_team_stack_end(const gb_cpu_item *item) {
    const struct work_item *member = (const struct work_item *)item;
    return gb_fiber_stack_end(&member->team->stacks, member->index);
}

void gb_cpu_barrier(gb_cpu_item *item, uint32_t site) {
    struct work_item *member = member_of(item);
    struct gb_cpu_team *team = member->team;
    uint32_t block = member->index / team->per_block;
    make_wait(team, member, AT_BARRIER, site);
    if (++team->at_barrier[block] == team->per_block) {
        team->at_barrier[block] = 0;
        release(team, block * team->per_block, (block + 1) * team->per_block);
    }
    suspend(team, member);
}

void gb_cpu_cluster_barrier(gb_cpu_item *item, uint32_t site) {
    struct work_item *member = member_of(item);
    struct gb_cpu_team *team = member->team;
    make_wait(team, member, AT_CLUSTER_BARRIER, site);
    if (++team->at_cluster_barrier == team->count) {
        team->at_cluster_barrier = 0;
        release(team, 0, team->count);
    }
    suspend(team, member);
}

/* ---- subgroups: shuffles, votes, matches and reductions, as PTX defines them ---- */

/* One subgroup operation. `active` has a bit for each lane that takes part; other entries of `value` are unused. */
struct lane_exchange {
    uint32_t op; /* enum gb_cpu_lane_op */
    uint32_t active;
    uint32_t value[GB_CPU_SUBGROUP];
};

static bool is_active(const struct lane_exchange *exchange, uint32_t lane) {
    return lane < GB_CPU_SUBGROUP && (exchange->active >> lane & 1u) != 0;
}

static uint64_t with_flag(uint32_t value, bool flag) {
    return (uint64_t)value | (uint64_t)flag << 32;
}

/* PTX: bits 0 to 4 of `clamp` bound the source lane, bits 8 to 12 cut the subgroup into segments.
 * Reading a lane that does not take part is undefined there; here it gives the lane's own value and
 * counts as out of range, by which reductions know that a subgroup is not full. */
static uint64_t shuffle(const struct lane_exchange *exchange, uint32_t lane, uint32_t operand,
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

static uint32_t lanes_equal_to(const struct lane_exchange *exchange, uint32_t value) {
    uint32_t lanes = 0;
    for (uint32_t lane = 0; lane < GB_CPU_SUBGROUP; lane++) {
        if (is_active(exchange, lane) && exchange->value[lane] == value) {
            lanes |= 1u << lane;
        }
    }
    return lanes;
}

static uint32_t ballot(const struct lane_exchange *exchange) {
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

static uint32_t reduce(const struct lane_exchange *exchange, uint32_t lane) {
    uint32_t result = exchange->value[lane];
    for (uint32_t other = 0; other < GB_CPU_SUBGROUP; other++) {
        if (other != lane && is_active(exchange, other)) {
            result = combine(exchange->op, result, exchange->value[other]);
        }
    }
    return result;
}

/* The result for `lane`; `operand` and `clamp` are those it passed to a shuffle, as in PTX. */
static uint64_t lane_result(const struct lane_exchange *exchange, uint32_t lane, uint32_t operand,
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
        uint32_t elected = (uint32_t)__builtin_ctz(exchange->active); /* of a lane that is active itself */
        return with_flag(elected, elected == lane);
    }
    default:
        return reduce(exchange, lane);
    }
}

/* The lanes of `member`'s subgroup: address of lane 0, and a bit for each lane that exists. */
static struct work_item *subgroup_of(struct gb_cpu_team *team, struct work_item *member, uint32_t *lanes) {
    uint32_t first = member->item.linear_id / GB_CPU_SUBGROUP * GB_CPU_SUBGROUP;
    uint32_t left = team->per_block - first;
    *lanes = left >= GB_CPU_SUBGROUP ? UINT32_MAX : (1u << left) - 1u;
    return member - (member->item.linear_id - first);
}

/* Complete the operation that `member` waits in, once every lane of its mask that has not returned
 * waits in the same one. */
static void try_lanes(struct gb_cpu_team *team, struct work_item *member) {
    uint32_t lanes;
    struct work_item *subgroup = subgroup_of(team, member, &lanes);
    struct lane_exchange exchange = {.op = member->op};
    for (uint32_t lane = 0; lane < GB_CPU_SUBGROUP; lane++) {
        if ((member->mask & lanes) >> lane & 1u) {
            struct work_item *other = &subgroup[lane];
            if (other->state == DONE) {
                continue;
            }
            if (!same_wait(member, other) || other->mask != member->mask || other->op != member->op) {
                return;
            }
            exchange.active |= 1u << lane;
            exchange.value[lane] = other->value;
        }
    }
    for (uint32_t lane = 0; lane < GB_CPU_SUBGROUP; lane++) {
        if (exchange.active >> lane & 1u) {
            struct work_item *other = &subgroup[lane];
            other->result = lane_result(&exchange, lane, other->operand, other->clamp);
            make_ready(team, other);
        }
    }
}

uint64_t gb_cpu_lanes(gb_cpu_item *item, uint32_t site, uint32_t op, uint32_t mask, uint32_t value,
                      uint32_t lane, uint32_t clamp) {
    struct work_item *member = member_of(item);
    struct gb_cpu_team *team = member->team;
    if ((mask >> item->linear_id % GB_CPU_SUBGROUP & 1u) == 0) {
        return value; /* outside of its own mask: undefined in PTX, and no lane waits for it */
    }
    member->op = op;
    member->mask = mask;
    member->value = value;
    member->operand = lane;
    member->clamp = clamp;
    make_wait(team, member, AT_LANES, site);
    try_lanes(team, member);
    suspend(team, member);
    return member->result;
}

/* ---- a work-item from start to end ---- */

/* Complete operations in which lanes waited for `member`. */
static void leave_subgroup(struct gb_cpu_team *team, struct work_item *member) {
    uint32_t lanes;
    struct work_item *subgroup = subgroup_of(team, member, &lanes);
    for (uint32_t lane = 0; lane < GB_CPU_SUBGROUP; lane++) {
        if ((lanes >> lane & 1u) != 0 && subgroup[lane].state == AT_LANES) {
            try_lanes(team, &subgroup[lane]);
        }
    }
}

static void fiber_main(void) {
    struct gb_cpu_team *team = active_team;
    struct work_item *member = &team->items[team->running];
    member->item.kernel->item(team->launch->params, &member->item);
    make_wait(team, member, DONE, 0);
    team->done++;
    leave_subgroup(team, member);
    struct work_item *next = next_ready(team, member->index);
    if (next == NULL && team->done != team->count) {
        report_deadlock(team);
    }
    if (next != NULL) {
        team->running = next->index;
    }
    gb_fiber_switch(&member->fiber, next != NULL ? &next->fiber : &team->home);
    abort(); /* nothing switches to a work-item that is done */
}

void gb_cpu_team_begin(struct gb_cpu_team *team, const gb_cpu_launch_info *launch, uint32_t blocks, char *shared,
                       char *dynamic, size_t stride) {
    const uint32_t *dim = launch->block_dim;
    team->launch = launch;
    team->per_block = dim[0] * dim[1] * dim[2];
    team->blocks = blocks;
    team->count = team->per_block * blocks;
    reserve(team, team->count, GB_CPU_STACK_BYTES(launch->kernel->flags));
    memset(team->ready, 0, (team->count + 63) / 64 * sizeof *team->ready);
    for (uint32_t index = 0; index < team->count; index++) {
        struct work_item *member = &team->items[index];
        uint32_t block = index / team->per_block;
        uint32_t linear = index % team->per_block;
        memset(member, 0, sizeof *member);
        memcpy(member->item.block_dim, launch->block_dim, sizeof launch->block_dim);
        memcpy(member->item.grid_dim, launch->grid_dim, sizeof launch->grid_dim);
        memcpy(member->item.cluster_dim, launch->cluster_dim, sizeof launch->cluster_dim);
        member->item.thread_id[0] = linear % dim[0];
        member->item.thread_id[1] = linear / dim[0] % dim[1];
        member->item.thread_id[2] = linear / dim[0] / dim[1];
        member->item.linear_id = linear;
        member->item.shared = shared + block * stride;
        member->item.dynamic = dynamic + block * stride;
        member->item.dynamic_bytes = launch->dynamic_bytes;
        member->item.kernel = launch->kernel;
        member->team = team;
        member->index = index;
    }
}

void gb_cpu_team_run(struct gb_cpu_team *team, const uint64_t *block_ids) {
    const uint32_t *grid = team->launch->grid_dim;
    team->done = 0;
    team->at_cluster_barrier = 0;
    memset(team->at_barrier, 0, team->blocks * sizeof *team->at_barrier);
    struct work_item *member = team->items;
    for (uint32_t block = 0; block < team->blocks; block++) {
        uint64_t id = block_ids[block];
        const uint32_t position[3] = {(uint32_t)(id % grid[0]), (uint32_t)(id / grid[0] % grid[1]),
                                      (uint32_t)(id / grid[0] / grid[1])};
        for (uint32_t i = 0; i < team->per_block; i++, member++) {
            memcpy(member->item.block_id, position, sizeof position);
            make_ready(team, member);
            gb_fiber_start(&member->fiber, &team->stacks, member->index, fiber_main);
        }
    }
    active_team = team;
    team->running = 0;
    gb_fiber_switch(&team->home, &team->items[0].fiber);
}
