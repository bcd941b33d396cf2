/* race_detector.c: data races, found from the latest accesses to each piece of memory.
 *
 * Two accesses of a launch race when one writes, not both are atomic, and nothing orders them: they are
 * of different workgroups, or of different work-items of a workgroup between the same two barriers, and if
 * these are of one subgroup, between the same two waits of the subgroup. That depends on work-items and barriers,
 * not on time: launches that are checked run on one thread.
 *
 * A cell keeps the last write, and enough reads and atomic accesses to find one that a
 * later access is in conflict with, if there is any: two work-items between the latest two barriers, of two
 * subgroups if there are, and one of another workgroup. */
#include "sanitizer/sanitizer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGEST_CELL_BITS = 3, /* 8 bytes */
    ITEM_BITS = 10,
    SITE_BITS = 22
};

/* A part of a workgroup's execution; `base` is the segment that began with the latest barrier. */
struct segment {
    uint64_t block;
    uint32_t base; /* the segment itself before the first wait of a subgroup */
};

/* The access that is being checked. */
struct access {
    gb_check_entry entry;
    uint32_t segment;
    uint32_t base;
    uint64_t block;
    uint32_t item;
    uint32_t mode;
    bool workgroup_memory;
};

static struct {
    pthread_mutex_t lock;
    struct segment *segments; /* of the launch */
    size_t capacity;
    uint32_t first_segment; /* of the launch */
    uint32_t next_segment;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .first_segment = 1, .next_segment = 1};

/* ---- launches and segments ---- */

/* In a child of fork, where another thread's launch may have changed the state and will never release the lock. The memory
 * is lost; accesses of launches that have ended do not matter. */
static void forget_all(void) {
    pthread_mutex_init(&state.lock, NULL);
    gb_check_lose_pages();
    state.segments = NULL;
    state.capacity = 0;
    state.first_segment = state.next_segment = 1;
}

__attribute__((constructor)) static void guard(void) {
    pthread_atfork(NULL, NULL, forget_all);
}

void gb_check_race_begin(void) {
    pthread_mutex_lock(&state.lock);
    state.first_segment = state.next_segment;
}

/* Launches are in order with each other and with the host. Cells need not be cleared: segments of earlier launches do
 * not matter. */
void gb_check_race_end(void) {
    if (state.next_segment > UINT32_MAX / 2) {
        gb_check_forget_pages();
        state.next_segment = 1;
    }
    pthread_mutex_unlock(&state.lock);
}

static uint32_t segment_of(gb_check_entry e) {
    return (uint32_t)(e >> 32);
}

uint32_t gb_check_segment(uint64_t block, uint32_t base) {
    size_t index = state.next_segment - state.first_segment;
    if (state.next_segment == UINT32_MAX) {
        gb_fatal(NULL, "a launch has too many workgroups and barriers to be checked for races");
    }
    if (index >= state.capacity) {
        size_t capacity = 2 * index + 1024;
        struct segment *grown = gb_allocate(capacity * sizeof *grown);
        if (state.segments != NULL) {
            memcpy(grown, state.segments, index * sizeof *grown);
        }
        free(state.segments);
        state.segments = grown;
        state.capacity = capacity;
    }
    state.segments[index] = (struct segment){.block = block, .base = base != 0 ? base : state.next_segment};
    return state.next_segment++;
}

/* ---- entries ---- */

static uint32_t item_of(gb_check_entry e) {
    return (uint32_t)e & ((1u << ITEM_BITS) - 1);
}

static inline const struct segment *find_segment(uint32_t segment) {
    return &state.segments[segment - state.first_segment];
}

static uint64_t block_of(gb_check_entry e) {
    return find_segment(segment_of(e))->block;
}

static inline bool same_subgroup(gb_check_entry a, gb_check_entry b) {
    return item_of(a) / GB_CPU_SUBGROUP == item_of(b) / GB_CPU_SUBGROUP;
}

/* Whether an entry can matter to the access at all: it is of this launch, and not of what another workgroup
 * had in the same memory. */
static bool is_live(gb_check_entry e, const struct access *now) {
    return segment_of(e) >= state.first_segment &&
           (!now->workgroup_memory || segment_of(e) == now->segment || block_of(e) == now->block);
}

/* Whether nothing orders the two. */
static bool is_concurrent(gb_check_entry e, const struct access *now) {
    if (segment_of(e) == now->segment) {
        return item_of(e) != now->item;
    }
    if (segment_of(e) < state.first_segment) {
        return false;
    }
    const struct segment *other = find_segment(segment_of(e));
    if (other->block != now->block) {
        return !now->workgroup_memory;
    }
    return other->base == now->base && !same_subgroup(e, now->entry);
}

static gb_check_entry concurrent_in(const struct gb_check_group *group, const struct access *now) {
    if (is_concurrent(group->latest, now)) {
        return group->latest;
    }
    if (is_concurrent(group->second, now)) {
        return group->second;
    }
    return is_concurrent(group->other_block, now) ? group->other_block : 0;
}

static void add(struct gb_check_group *group, const struct access *now) {
    gb_check_entry latest = group->latest;
    if (!is_live(latest, now)) {
        *group = (struct gb_check_group){.latest = now->entry};
    } else if (find_segment(segment_of(latest))->base == now->base) {
        bool apart = group->second != 0 && !same_subgroup(latest, group->second);
        if (!same_subgroup(latest, now->entry)) {
            group->second = apart ? group->second : now->entry;
        } else if (segment_of(latest) != now->segment) {
            group->latest = now->entry; /* behind a wait of its subgroup */
            group->second = apart ? group->second : 0;
        } else if (item_of(latest) != now->item && group->second == 0) {
            group->second = now->entry;
        }
    } else {
        if (block_of(latest) != now->block) {
            group->other_block = latest;
        }
        group->latest = now->entry;
        group->second = 0;
    }
}

/* ---- cells ---- */

static struct gb_check_details *add_details(struct gb_check_cell *cell) {
    struct gb_check_details *details = gb_allocate(sizeof *details);
    details->write = cell->write;
    details->reads.latest = cell->read;
    cell->write = GB_CHECK_HAS_DETAILS;
    cell->read = (uint64_t)(uintptr_t)details;
    return details;
}

struct conflict {
    gb_check_entry entry; /* 0 for none */
    uint32_t mode;
};

static struct conflict conflict_with(const struct gb_check_details *details, const struct access *now) {
    struct conflict found = {.entry = details->write, .mode = GB_CHECK_WRITE};
    if (!is_concurrent(found.entry, now)) {
        found.entry = 0;
    }
    if (found.entry == 0 && now->mode != GB_CHECK_READ) {
        found = (struct conflict){.entry = concurrent_in(&details->reads, now), .mode = GB_CHECK_READ};
    }
    if (found.entry == 0 && now->mode != GB_CHECK_ATOMIC) {
        found = (struct conflict){.entry = concurrent_in(&details->atomics, now), .mode = GB_CHECK_ATOMIC};
    }
    return found;
}

static struct conflict touch_details(struct gb_check_details *details, const struct access *now) {
    struct conflict found = conflict_with(details, now);
    if (now->mode == GB_CHECK_READ) {
        add(&details->reads, now);
    } else if (now->mode == GB_CHECK_ATOMIC) {
        add(&details->atomics, now);
    } else {
        /* What is in conflict with an earlier access is so with this one, or the two were reported. */
        *details = (struct gb_check_details){.write = now->entry};
    }
    return found;
}

static struct conflict touch(struct gb_check_cell *cell, const struct access *now) {
    struct conflict found = {.entry = 0};
    if (cell->write == GB_CHECK_HAS_DETAILS) {
        return touch_details(gb_check_details_of(cell), now);
    }
    if (now->mode == GB_CHECK_ATOMIC) {
        return touch_details(add_details(cell), now);
    }
    if (is_concurrent(cell->write, now)) {
        found = (struct conflict){.entry = cell->write, .mode = GB_CHECK_WRITE};
    }
    if (now->mode == GB_CHECK_WRITE) {
        if (found.entry == 0 && is_concurrent(cell->read, now)) {
            found = (struct conflict){.entry = cell->read, .mode = GB_CHECK_READ};
        }
        *cell = (struct gb_check_cell){.write = now->entry};
    } else if (is_concurrent(cell->read, now)) {
        add(&add_details(cell)->reads, now);
    } else {
        cell->read = now->entry;
    }
    return found;
}

/* ---- accesses ---- */

static uint32_t alignment_bits(uint64_t address, uint64_t bytes) {
    uint64_t both = address | bytes | 1u << LARGEST_CELL_BITS;
    return (uint32_t)__builtin_ctzll(both);
}

/* Whether an entry surely is not concurrent with what `mine` does; for other workgroups' it does not look. */
static inline bool is_harmless(gb_check_entry e, gb_check_entry mine, bool workgroup_memory) {
    const gb_check_entry site_mask = (gb_check_entry)((1u << SITE_BITS) - 1) << ITEM_BITS;
    if (((e ^ mine) & ~site_mask) == 0) {
        return true; /* the same work-item's, in the same segment */
    }
    /* What has a lower number than the latest barrier is behind it, or another workgroup's, which is gone. */
    return segment_of(e) < (workgroup_memory ? find_segment(segment_of(mine))->base : state.first_segment);
}

/* Reads and writes of a whole cell for which nothing is reported or kept beyond one entry: nearly
 * all of a correct kernel. Returns whether the access was one of these. */
static inline bool is_simple(uint64_t address, uint64_t bytes, uint32_t mode, bool workgroup_memory,
                             gb_check_entry mine) {
    const struct gb_check_page *page = gb_check_recent_pages[(address >> GB_CHECK_PAGE_BITS) % GB_CHECK_RECENT_PAGES];
    if (page == NULL || page->number != address >> GB_CHECK_PAGE_BITS || bytes != (uint64_t)1 << page->cell_bits ||
        (address & (bytes - 1)) != 0 || mode == GB_CHECK_ATOMIC) {
        return false;
    }
    struct gb_check_cell *cell = &page->cells[(address & (GB_CHECK_PAGE_BYTES - 1)) >> page->cell_bits];
    if (cell->write == GB_CHECK_HAS_DETAILS) {
        const struct gb_check_details *details = gb_check_details_of(cell);
        return mode == GB_CHECK_READ && segment_of(details->reads.latest) == segment_of(mine) &&
               details->reads.second != 0 &&
               (same_subgroup(details->reads.latest, mine) ||
                !same_subgroup(details->reads.latest, details->reads.second)) &&
               is_harmless(details->write, mine, workgroup_memory) &&
               is_harmless(details->atomics.latest, mine, workgroup_memory);
    }
    if (!is_harmless(cell->write, mine, workgroup_memory) || !is_harmless(cell->read, mine, workgroup_memory)) {
        return false;
    }
    if (mode == GB_CHECK_READ) {
        cell->read = mine;
    } else {
        *cell = (struct gb_check_cell){.write = mine};
    }
    return true;
}

static inline gb_check_entry entry_of(uint32_t segment, uint32_t item, uint32_t site) {
    return (uint64_t)segment << 32 | (uint64_t)site << ITEM_BITS | (item & ((1u << ITEM_BITS) - 1));
}

bool gb_check_race_simple(uint64_t address, uint64_t bytes, uint32_t mode, bool workgroup_memory, uint32_t segment,
                          uint32_t item, uint32_t site) {
    return is_simple(address, bytes, mode, workgroup_memory, entry_of(segment, item, site));
}

bool gb_check_race_access(uint64_t address, uint64_t bytes, uint32_t mode, bool workgroup_memory, uint32_t segment,
                          uint32_t item, uint32_t site, struct gb_check_conflict *conflict) {
    const struct access now = {
        .entry = entry_of(segment, item, site),
        .segment = segment,
        .base = find_segment(segment)->base,
        .block = find_segment(segment)->block,
        .item = item,
        .mode = mode,
        .workgroup_memory = workgroup_memory,
    };
    uint32_t bits = alignment_bits(address, bytes);
    struct conflict found = {.entry = 0};
    for (uint64_t at = address; at < address + bytes;) {
        struct gb_check_page *page = gb_check_find_page(at >> GB_CHECK_PAGE_BITS, bits);
        if (page->cell_bits > bits) {
            gb_check_divide(page, bits);
        }
        uint64_t end = (at | (GB_CHECK_PAGE_BYTES - 1)) + 1;
        end = end < address + bytes ? end : address + bytes;
        for (; at < end; at += (uint64_t)1 << page->cell_bits) {
            struct conflict here = touch(&page->cells[(at & (GB_CHECK_PAGE_BYTES - 1)) >> page->cell_bits], &now);
            if (found.entry == 0) {
                found = here;
            }
        }
    }
    if (found.entry == 0) {
        return false;
    }
    *conflict = (struct gb_check_conflict){
        .block = block_of(found.entry),
        .item = item_of(found.entry),
        .site = (uint32_t)(found.entry >> ITEM_BITS) & ((1u << SITE_BITS) - 1),
        .mode = found.mode,
    };
    return true;
}
