/* shadow_memory.h: the latest accesses to each piece of memory, for race_detector.c.
 *
 * Memory is divided into pages, and each page into cells as small as the smallest access to it. */
#ifndef GPUBUILD_CPU_CHECK_CELLS_H
#define GPUBUILD_CPU_CHECK_CELLS_H

#include <stddef.h>
#include <stdint.h>

enum { GB_CHECK_PAGE_BITS = 12, GB_CHECK_PAGE_BYTES = 1 << GB_CHECK_PAGE_BITS, GB_CHECK_RECENT_PAGES = 4096 };

/* An access: segment, site and work-item in one number; 0 for none. */
typedef uint64_t gb_check_entry;

/* Accesses that do not exclude each other. */
struct gb_check_group {
    gb_check_entry latest;
    /* Between the same two barriers as `latest`: by another subgroup, if there is one; else by another
     * work-item, between the same two waits of their subgroup. */
    gb_check_entry second;
    gb_check_entry other_block;
};

struct gb_check_details {
    gb_check_entry write;
    struct gb_check_group reads;
    struct gb_check_group atomics;
};

/* Most cells are used by one work-item at a time. Others have details. */
struct gb_check_cell {
    gb_check_entry write; /* GB_CHECK_HAS_DETAILS: `read` is their address */
    gb_check_entry read;
};

#define GB_CHECK_HAS_DETAILS UINT64_MAX

struct gb_check_page {
    uint64_t number; /* 0 for none: page 0 is never mapped */
    uint32_t cell_bits;
    struct gb_check_cell *cells;
};

/* Pages that were asked for lately, by the last bits of their number. */
extern struct gb_check_page *gb_check_recent_pages[GB_CHECK_RECENT_PAGES];

/* The page of a number; a new one has cells of 1 << `cell_bits` bytes. Fatal when memory runs out. */
struct gb_check_page *gb_check_find_page(uint64_t number, uint32_t cell_bits);

/* Divide the cells of a page, each into parts with the same history. */
void gb_check_divide(struct gb_check_page *page, uint32_t cell_bits);

static inline struct gb_check_details *gb_check_details_of(const struct gb_check_cell *cell) {
    return (struct gb_check_details *)(uintptr_t)cell->read;
}

/* Call `visit` with every entry, empty ones too. */
void gb_check_each_entry(void visit(gb_check_entry *));

/* Free all pages. */
void gb_check_forget_pages(void);

/* In a child of fork, where they may be half changed: start again without them. */
void gb_check_lose_pages(void);

#endif
