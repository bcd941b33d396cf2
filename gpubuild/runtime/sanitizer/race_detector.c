/* race_detector.c: data races, found from the latest accesses to each piece of memory.
 *
 * Two accesses of a launch race when one writes, not both are atomic, and nothing orders them: they are
 * of different workgroups, or of different work-items of a workgroup between the same two barriers, and if
 * these are of one subgroup, between the same two waits of the subgroup. That depends on work-items and barriers,
 * not on time: launches that are checked run on one thread.
 *
 * Memory is divided into pages, and each page into cells as small as the smallest access to it. A cell keeps the last
 * write, and enough reads and atomic accesses to find one that conflicts with a later access, if there is any: two
 * work-items between the latest two barriers, of two subgroups if possible, and one of another workgroup. */
#define _GNU_SOURCE /* madvise */
#include "sanitizer/sanitizer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PAGE_BITS = 12,
    PAGE_BYTES = 1 << PAGE_BITS,
    RECENT_PAGES = 4096,
    SLAB_BYTES = 1 << 24,
    LARGEST_CELL_BITS = 3, /* 8 bytes */
    ITEM_BITS = 10,
    SITE_BITS = 22,
    FEW_SEGMENTS = 1 << 16 /* kept without checking which of them are in use */
};

/* An access: segment, site and work-item in one number; 0 for none. */
typedef uint64_t record;

/* Accesses that do not conflict with each other. */
struct group {
    record latest;
    /* Between the same two barriers as `latest`: by another subgroup, if there is one; else by another
     * work-item, between the same two waits of their subgroup. */
    record second;
    record other_block;
};

struct details {
    record write;
    struct group reads;
    struct group atomics;
};

/* Most cells are used by one work-item at a time. Others have details. */
struct cell {
    record write; /* HAS_DETAILS: `read` is their address */
    record read;
};

#define HAS_DETAILS UINT64_MAX

struct page {
    uint64_t number; /* 0 for none: page 0 is never mapped */
    uint32_t cell_bits;
    struct cell *cells;
};

static inline struct details *details_of(const struct cell *cell) {
    return (struct details *)(uintptr_t)cell->read;
}

/* A large piece of memory for cells and details. */
struct slab {
    size_t used; /* bytes */
    struct slab *next;
};

/* A part of a workgroup's execution; `base` is the segment that began with the latest barrier. */
struct segment {
    uint64_t block;
    uint32_t base; /* the segment itself before the first wait of a subgroup */
    uint32_t kept; /* while unused segments are dropped: its new number, or 0 */
};

/* The access that is being checked. */
struct access {
    record entry;
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
    size_t enough; /* segments of the launch after which unused ones are dropped */
    struct page *pages;     /* a hash table; number 0 is free */
    size_t page_capacity;   /* a power of two */
    size_t page_count;
    struct slab *slabs;
    struct page *recent_pages[RECENT_PAGES]; /* recently found, by the last bits of their number */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .first_segment = 1, .next_segment = 1, .enough = FEW_SEGMENTS};

/* ---- pages ---- */

/* Zeroed memory of a slab, for which the system has large pages. */
static void *allocate(size_t bytes) {
    if (state.slabs == NULL || state.slabs->used + bytes > SLAB_BYTES) {
        struct slab *slab =
            mmap(NULL, SLAB_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (slab == MAP_FAILED) {
            gb_fatal(NULL, "no memory to check for races: it takes four times what kernels access, and more for bytes");
        }
        (void)madvise(slab, SLAB_BYTES, MADV_HUGEPAGE);
        slab->used = sizeof *slab;
        slab->next = state.slabs;
        state.slabs = slab;
    }
    state.slabs->used += bytes;
    return (char *)state.slabs + state.slabs->used - bytes;
}

static struct page *table_slot(uint64_t number) {
    size_t at = (size_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (state.page_capacity - 1);
    while (state.pages[at].number != 0 && state.pages[at].number != number) {
        at = (at + 1) & (state.page_capacity - 1);
    }
    return &state.pages[at];
}

static void grow_table(void) {
    struct page *old = state.pages;
    size_t count = state.page_capacity;
    state.page_capacity = count == 0 ? 1024 : 2 * count;
    state.pages = gb_allocate(state.page_capacity * sizeof *state.pages);
    for (size_t i = 0; i < count; i++) {
        if (old[i].number != 0) {
            *table_slot(old[i].number) = old[i];
        }
    }
    free(old);
    memset(state.recent_pages, 0, sizeof state.recent_pages);
}

/* The page of a number; a new one has cells of 1 << `cell_bits` bytes. */
static struct page *find_page(uint64_t number, uint32_t cell_bits) {
    struct page **recent = &state.recent_pages[number % RECENT_PAGES];
    if (*recent != NULL && (*recent)->number == number) {
        return *recent;
    }
    if (2 * state.page_count >= state.page_capacity) {
        grow_table();
    }
    struct page *page = table_slot(number);
    if (page->number == 0) {
        *page = (struct page){.number = number, .cell_bits = cell_bits};
        page->cells = allocate(((size_t)PAGE_BYTES >> cell_bits) * sizeof *page->cells);
        state.page_count++;
    }
    *recent = page;
    return page;
}

/* Divide the cells of a page, each into parts with the same history. */
static void divide_page(struct page *page, uint32_t cell_bits) {
    size_t parts = (size_t)1 << (page->cell_bits - cell_bits);
    size_t count = (size_t)PAGE_BYTES >> page->cell_bits;
    struct cell *cells = allocate(count * parts * sizeof *cells);
    for (size_t i = 0; i < count * parts; i++) {
        struct cell *from = &page->cells[i / parts];
        cells[i] = *from;
        if (from->write == HAS_DETAILS && i % parts != 0) {
            struct details *copy = allocate(sizeof *copy);
            *copy = *details_of(from);
            cells[i].read = (uint64_t)(uintptr_t)copy;
        }
    }
    page->cells = cells; /* the old ones stay in their slab */
    page->cell_bits = cell_bits;
}

static void free_pages(void) {
    while (state.slabs != NULL) {
        struct slab *next = state.slabs->next;
        munmap(state.slabs, SLAB_BYTES);
        state.slabs = next;
    }
    free(state.pages);
    state.pages = NULL;
    state.page_capacity = state.page_count = 0;
    memset(state.recent_pages, 0, sizeof state.recent_pages);
}

/* ---- launches and segments ---- */

/* In a child of fork, where another thread's launch may have changed the state and will never release the lock. The memory
 * is lost; accesses of launches that have ended do not matter. */
static void forget_all(void) {
    memset(&state, 0, sizeof state);
    pthread_mutex_init(&state.lock, NULL);
    state.first_segment = state.next_segment = 1;
    state.enough = FEW_SEGMENTS;
}

__attribute__((constructor)) static void guard(void) {
    pthread_atfork(NULL, NULL, forget_all);
}

void gb_check_race_begin(void) {
    gb_lock(&state.lock);
    state.first_segment = state.next_segment;
    state.enough = FEW_SEGMENTS;
}

/* Launches are in order with each other and with the host. Cells need not be cleared: segments of earlier launches do
 * not matter. */
void gb_check_race_end(void) {
    if (state.next_segment > UINT32_MAX / 2) {
        free_pages();
        state.next_segment = 1;
    }
    gb_unlock(&state.lock);
}

static uint32_t segment_of(record e) {
    return (uint32_t)(e >> 32);
}

/* ---- unused segments ---- */

static void visit_group(struct group *group, void visit(record *)) {
    visit(&group->latest);
    visit(&group->second);
    visit(&group->other_block);
}

static void visit_records(void visit(record *)) {
    for (size_t i = 0; i < state.page_capacity; i++) {
        const struct page *page = &state.pages[i];
        for (size_t c = 0; page->number != 0 && c < (size_t)PAGE_BYTES >> page->cell_bits; c++) {
            struct cell *cell = &page->cells[c];
            if (cell->write == HAS_DETAILS) {
                struct details *details = details_of(cell);
                visit(&details->write);
                visit_group(&details->reads, visit);
                visit_group(&details->atomics, visit);
            } else {
                visit(&cell->write);
                visit(&cell->read);
            }
        }
    }
}

/* The segment of a record, if it is of this launch. */
static struct segment *known_segment(record e) {
    return segment_of(e) >= state.first_segment ? &state.segments[segment_of(e) - state.first_segment] : NULL;
}

static void keep_segment(record *e) {
    struct segment *segment = known_segment(*e);
    if (segment != NULL) {
        segment->kept = 1;
        state.segments[segment->base - state.first_segment].kept = 1;
    }
}

static void renumber_segment(record *e) {
    const struct segment *segment = known_segment(*e);
    if (segment != NULL) {
        *e = (uint64_t)segment->kept << 32 | (uint32_t)*e;
    }
}

/* While no workgroup runs, a segment matters only if a record names it. So the memory of a launch depends on the memory
 * that its kernel accesses, not on its grid. The order of segments stays. */
void gb_check_drop_segments(void) {
    size_t count = state.next_segment - state.first_segment;
    if (count < state.enough) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        state.segments[i].kept = 0;
    }
    visit_records(keep_segment);
    uint32_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (state.segments[i].kept != 0) {
            state.segments[i].kept = state.first_segment + kept++;
        }
    }
    visit_records(renumber_segment);
    for (size_t i = 0; i < count; i++) { /* all bases before the first segment moves */
        state.segments[i].base = state.segments[state.segments[i].base - state.first_segment].kept;
    }
    for (size_t i = 0; i < count; i++) {
        if (state.segments[i].kept != 0) {
            state.segments[state.segments[i].kept - state.first_segment] = state.segments[i];
        }
    }
    state.next_segment = state.first_segment + kept;
    state.enough = 2 * (size_t)kept > FEW_SEGMENTS ? 2 * (size_t)kept : FEW_SEGMENTS;
}

uint32_t gb_check_segment(uint64_t block, uint32_t base) {
    size_t index = state.next_segment - state.first_segment;
    if (state.next_segment == UINT32_MAX) {
        gb_fatal(NULL, "a launch has too many workgroups and barriers to be checked for races");
    }
    if (index >= state.capacity) {
        state.capacity = 2 * index + 1024;
        state.segments = realloc(state.segments, state.capacity * sizeof *state.segments);
        if (state.segments == NULL) {
            gb_fatal(NULL, "out of host memory");
        }
    }
    state.segments[index] = (struct segment){.block = block, .base = base != 0 ? base : state.next_segment};
    return state.next_segment++;
}

/* ---- entries ---- */

static uint32_t item_of(record e) {
    return (uint32_t)e & ((1u << ITEM_BITS) - 1);
}

static inline const struct segment *find_segment(uint32_t segment) {
    return &state.segments[segment - state.first_segment];
}

static uint64_t block_of(record e) {
    return find_segment(segment_of(e))->block;
}

static inline bool same_subgroup(record a, record b) {
    return item_of(a) / GB_CPU_SUBGROUP == item_of(b) / GB_CPU_SUBGROUP;
}

/* Whether an access matters to the present one: it is of this launch, and in workgroup memory of the same workgroup. */
static bool is_live(record e, const struct access *now) {
    return segment_of(e) >= state.first_segment &&
           (!now->workgroup_memory || segment_of(e) == now->segment || block_of(e) == now->block);
}

/* Whether nothing orders the two. */
static bool is_concurrent(record e, const struct access *now) {
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

static record concurrent_in(const struct group *group, const struct access *now) {
    if (is_concurrent(group->latest, now)) {
        return group->latest;
    }
    if (is_concurrent(group->second, now)) {
        return group->second;
    }
    return is_concurrent(group->other_block, now) ? group->other_block : 0;
}

static void add(struct group *group, const struct access *now) {
    record latest = group->latest;
    if (!is_live(latest, now)) {
        *group = (struct group){.latest = now->entry};
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

static struct details *add_details(struct cell *cell) {
    struct details *details = allocate(sizeof *details);
    details->write = cell->write;
    details->reads.latest = cell->read;
    cell->write = HAS_DETAILS;
    cell->read = (uint64_t)(uintptr_t)details;
    return details;
}

struct conflict {
    record entry; /* 0 for none */
    uint32_t mode;
};

static struct conflict conflict_with(const struct details *details, const struct access *now) {
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

static struct conflict touch_details(struct details *details, const struct access *now) {
    struct conflict found = conflict_with(details, now);
    if (now->mode == GB_CHECK_READ) {
        add(&details->reads, now);
    } else if (now->mode == GB_CHECK_ATOMIC) {
        add(&details->atomics, now);
    } else {
        /* Later conflicts with earlier accesses are also conflicts with this one, or the two were reported. */
        *details = (struct details){.write = now->entry};
    }
    return found;
}

static struct conflict touch(struct cell *cell, const struct access *now) {
    struct conflict found = {.entry = 0};
    if (cell->write == HAS_DETAILS) {
        return touch_details(details_of(cell), now);
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
        *cell = (struct cell){.write = now->entry};
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

/* Whether an access is certainly not concurrent with `mine`; the workgroup is not considered. */
static inline bool is_harmless(record e, record mine, bool workgroup_memory) {
    const record site_mask = (record)((1u << SITE_BITS) - 1) << ITEM_BITS;
    if (((e ^ mine) & ~site_mask) == 0) {
        return true; /* of the same work-item, in the same segment */
    }
    /* Lower numbers than that of the latest barrier are of accesses before it, or of a workgroup that has ended. */
    return segment_of(e) < (workgroup_memory ? find_segment(segment_of(mine))->base : state.first_segment);
}

/* Reads and writes of a whole cell for which nothing is reported or kept beyond one entry: nearly
 * all of a correct kernel. Returns whether the access was one of these. */
static inline bool is_simple(uint64_t address, uint64_t bytes, uint32_t mode, bool workgroup_memory,
                             record mine) {
    const struct page *page = state.recent_pages[(address >> PAGE_BITS) % RECENT_PAGES];
    if (page == NULL || page->number != address >> PAGE_BITS || bytes != (uint64_t)1 << page->cell_bits ||
        (address & (bytes - 1)) != 0 || mode == GB_CHECK_ATOMIC) {
        return false;
    }
    struct cell *cell = &page->cells[(address & (PAGE_BYTES - 1)) >> page->cell_bits];
    if (cell->write == HAS_DETAILS) {
        const struct details *details = details_of(cell);
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
        *cell = (struct cell){.write = mine};
    }
    return true;
}

static inline record entry_of(uint32_t segment, uint32_t item, uint32_t site) {
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
        struct page *page = find_page(at >> PAGE_BITS, bits);
        if (page->cell_bits > bits) {
            divide_page(page, bits);
        }
        uint64_t end = (at | (PAGE_BYTES - 1)) + 1;
        end = end < address + bytes ? end : address + bytes;
        for (; at < end; at += (uint64_t)1 << page->cell_bits) {
            struct conflict here = touch(&page->cells[(at & (PAGE_BYTES - 1)) >> page->cell_bits], &now);
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
