/* shadow_memory.c: a hash table of the pages of cells. */
#define _GNU_SOURCE /* madvise */
#include "sanitizer/sanitizer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLAB_BYTES = 1 << 24 };

struct slab {
    size_t used; /* bytes */
    struct slab *next;
};

/* Changed by one thread at a time, which holds the lock of sanitizer/race_detector.c. */
static struct {
    struct gb_check_page *pages; /* a hash table; number 0 is free */
    size_t capacity;             /* a power of two */
    size_t count;
    struct slab *slabs;
} state;

struct gb_check_page *gb_check_recent_pages[GB_CHECK_RECENT_PAGES];

/* Cells come in large pieces of memory, for which the system has large pages. */
static struct gb_check_cell *new_cells(size_t count) {
    size_t bytes = count * sizeof(struct gb_check_cell);
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
    struct gb_check_cell *cells = (struct gb_check_cell *)((char *)state.slabs + state.slabs->used);
    state.slabs->used += bytes;
    return cells;
}

static struct gb_check_page *table_slot(uint64_t number) {
    size_t at = (size_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (state.capacity - 1);
    while (state.pages[at].number != 0 && state.pages[at].number != number) {
        at = (at + 1) & (state.capacity - 1);
    }
    return &state.pages[at];
}

static void grow_table(void) {
    struct gb_check_page *old = state.pages;
    size_t count = state.capacity;
    state.capacity = count == 0 ? 1024 : 2 * count;
    state.pages = gb_allocate(state.capacity * sizeof *state.pages);
    for (size_t i = 0; i < count; i++) {
        if (old[i].number != 0) {
            *table_slot(old[i].number) = old[i];
        }
    }
    free(old);
    memset(gb_check_recent_pages, 0, sizeof gb_check_recent_pages);
}

struct gb_check_page *gb_check_find_page(uint64_t number, uint32_t cell_bits) {
    struct gb_check_page **recent = &gb_check_recent_pages[number % GB_CHECK_RECENT_PAGES];
    if (*recent != NULL && (*recent)->number == number) {
        return *recent;
    }
    if (2 * state.count >= state.capacity) {
        grow_table();
    }
    struct gb_check_page *page = table_slot(number);
    if (page->number == 0) {
        *page = (struct gb_check_page){.number = number, .cell_bits = cell_bits};
        page->cells = new_cells((size_t)GB_CHECK_PAGE_BYTES >> cell_bits);
        state.count++;
    }
    *recent = page;
    return page;
}

void gb_check_divide(struct gb_check_page *page, uint32_t cell_bits) {
    size_t parts = (size_t)1 << (page->cell_bits - cell_bits);
    size_t count = (size_t)GB_CHECK_PAGE_BYTES >> page->cell_bits;
    struct gb_check_cell *cells = new_cells(count * parts);
    for (size_t i = 0; i < count * parts; i++) {
        struct gb_check_cell *from = &page->cells[i / parts];
        cells[i] = *from;
        if (from->write == GB_CHECK_HAS_DETAILS && i % parts != 0) {
            struct gb_check_details *copy = gb_allocate(sizeof *copy);
            *copy = *gb_check_details_of(from);
            cells[i].read = (uint64_t)(uintptr_t)copy;
        }
    }
    page->cells = cells; /* the old ones stay in their slab */
    page->cell_bits = cell_bits;
}

void gb_check_forget_pages(void) {
    for (size_t i = 0; i < state.capacity; i++) {
        struct gb_check_page *page = &state.pages[i];
        if (page->number == 0) {
            continue;
        }
        for (size_t c = 0; c < (size_t)GB_CHECK_PAGE_BYTES >> page->cell_bits; c++) {
            if (page->cells[c].write == GB_CHECK_HAS_DETAILS) {
                free((void *)(uintptr_t)page->cells[c].read);
            }
        }
    }
    while (state.slabs != NULL) {
        struct slab *next = state.slabs->next;
        munmap(state.slabs, SLAB_BYTES);
        state.slabs = next;
    }
    free(state.pages);
    state.pages = NULL;
    state.capacity = state.count = 0;
    memset(gb_check_recent_pages, 0, sizeof gb_check_recent_pages);
}

void gb_check_lose_pages(void) {
    memset(&state, 0, sizeof state);
    memset(gb_check_recent_pages, 0, sizeof gb_check_recent_pages);
}
