/* cpu_sparse.c: sparse matrices on the CPU, by the interface of cuSPARSE (core/device.h) whose handle is the stream.
 *
 * Plain loops on one thread. Products are summed as doubles, whatever the compute type, and rounded once. Products with a
 * dense matrix are work of the stream; those of two sparse matrices wait for it, since the caller needs their size.
 */
#include "core/device.h"
#include "cpu/cpu_device.h"

#include <math.h>
#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of an interface that is given */

enum { INDEX_16U = 1, INDEX_32I = 2, INDEX_64I = 3 };
enum { NON_TRANSPOSE = 0, TRANSPOSE = 1, CONJUGATE_TRANSPOSE = 2 };

enum format {
    DENSE,      /* row by row */
    STRUCTURED, /* dense, with at most two entries in every four columns of a row */
    COO,        /* the row and column of each entry */
    BLOCKS,     /* rows of blocks, each row by row; CSR has 1 x 1 blocks */
};

/* Vectors are matrices of one column. */
struct matrix {
    enum format format;
    bool by_column; /* of BLOCKS: columns of blocks */
    int64_t rows, cols;
    int64_t entries; /* of BLOCKS: blocks */
    int64_t block_rows, block_cols;
    int64_t step;         /* of COO: indices from one entry to the next */
    const void *starts;   /* of COO: row indices */
    const void *indices;
    void *values;
    int start_type, index_type, type;
};

/* ---- Elements ---- */

struct number {
    double re, im;
};

static int real_type(int type) {
    return type == GB_C_32F ? GB_R_32F : type == GB_C_64F ? GB_R_64F : type;
}

/* f16 has 10 bits of fraction, bf16 7. */
static double of_half(uint16_t bits, int fraction_bits) {
    int bias = (1 << (14 - fraction_bits)) - 1;
    int exponent = bits >> fraction_bits & (2 * bias + 1);
    int fraction = bits & ((1 << fraction_bits) - 1);
    double value = exponent == 0              ? ldexp(fraction, 1 - bias - fraction_bits)
                   : exponent <= 2 * bias     ? ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits)
                   : fraction == 0            ? (double)INFINITY
                                              : (double)NAN;
    return (bits & 0x8000) != 0 ? -value : value;
}

/* To nearest, ties to even. */
static uint16_t to_half(double value, int fraction_bits) {
    int bias = (1 << (14 - fraction_bits)) - 1;
    int infinity = (2 * bias + 1) << fraction_bits;
    int least = 1 - bias - fraction_bits; /* the exponent of the last bit of the least numbers */
    int bits = infinity;
    if (value != value) {
        bits |= 1 << (fraction_bits - 1);
    } else if (isfinite(value)) {
        int exponent = least;
        (void)frexp(value, &exponent);
        exponent -= fraction_bits + 1;
        exponent = value == 0 || exponent < least ? least : exponent;
        double units = nearbyint(ldexp(fabs(value), -exponent));
        double rounded = ldexp(exponent - least, fraction_bits) + units; /* `units` carries into the exponent */
        bits = rounded < infinity ? (int)rounded : infinity;
    }
    return (uint16_t)(signbit(value) ? bits | 0x8000 : bits);
}

#define ELEMENT(type, at) (((type *)values)[at])

static double load_real(const void *values, int type, int64_t at) {
    switch (type) {
    case GB_R_32F:
        return (double)ELEMENT(const float, at);
    case GB_R_64F:
        return ELEMENT(const double, at);
    case GB_R_16F:
        return of_half(ELEMENT(const uint16_t, at), 10);
    case GB_R_16BF:
        return of_half(ELEMENT(const uint16_t, at), 7);
    case GB_R_8I:
        return ELEMENT(const int8_t, at);
    case GB_R_32I:
        return ELEMENT(const int32_t, at);
    default:
        gb_fatal(NULL, "the CPU has no sparse matrices with elements of cudaDataType %d: allowed are f16, bf16, f32, f64, i8, i32, "
                       "complex<f32> and complex<f64>", type);
    }
}

static void store_real(void *values, int type, int64_t at, double value) {
    switch (type) {
    case GB_R_32F:
        ELEMENT(float, at) = (float)value;
        break;
    case GB_R_64F:
        ELEMENT(double, at) = value;
        break;
    case GB_R_16F:
        ELEMENT(uint16_t, at) = to_half(value, 10);
        break;
    case GB_R_16BF:
        ELEMENT(uint16_t, at) = to_half(value, 7);
        break;
    case GB_R_8I:
        ELEMENT(int8_t, at) = (int8_t)(int64_t)value;
        break;
    default:
        ELEMENT(int32_t, at) = (int32_t)(int64_t)value;
    }
}

static struct number load(const struct matrix *matrix, int64_t at) {
    int real = real_type(matrix->type);
    if (real == matrix->type) {
        return (struct number){load_real(matrix->values, real, at), 0};
    }
    return (struct number){load_real(matrix->values, real, 2 * at), load_real(matrix->values, real, 2 * at + 1)};
}

static void store(const struct matrix *matrix, int64_t at, struct number value) {
    int real = real_type(matrix->type);
    if (real == matrix->type) {
        store_real(matrix->values, real, at, value.re);
    } else {
        store_real(matrix->values, real, 2 * at, value.re);
        store_real(matrix->values, real, 2 * at + 1, value.im);
    }
}

static struct number conjugate(struct number value, int mode) {
    return (struct number){value.re, mode == CONJUGATE_TRANSPOSE ? -value.im : value.im};
}

static void add_product(struct number *sum, struct number a, struct number b) {
    sum->re += a.re * b.re - a.im * b.im;
    sum->im += a.re * b.im + a.im * b.re;
}

/* ---- Entries ---- */

static int64_t index_at(const void *values, int type, int64_t at) {
    return type == INDEX_64I   ? ELEMENT(const int64_t, at)
           : type == INDEX_32I ? ELEMENT(const int32_t, at)
                               : ELEMENT(const uint16_t, at);
}

/* Called for each entry of a matrix or its transpose; `at` is the position of its value. */
typedef void visit(void *context, int64_t row, int64_t col, int64_t at);

struct visitor {
    const struct matrix *matrix;
    int mode;
    visit *call;
    void *context;
};

static void visit_entry(const struct visitor *to, int64_t row, int64_t col, int64_t at) {
    const struct matrix *matrix = to->matrix;
    bool transposed = to->mode != NON_TRANSPOSE;
    if (row < 0 || row >= matrix->rows || col < 0 || col >= matrix->cols) {
        gb_fatal(NULL, "entry %lld of a sparse matrix is in row %lld and column %lld; the matrix has %lld rows and %lld columns",
                 (long long)at, (long long)row, (long long)col, (long long)matrix->rows, (long long)matrix->cols);
    }
    to->call(to->context, transposed ? col : row, transposed ? row : col, at);
}

static void visit_blocks(const struct visitor *to) {
    const struct matrix *m = to->matrix;
    int64_t count = m->by_column ? m->cols : m->rows / m->block_rows;
    for (int64_t block_row = 0; block_row < count; block_row++) {
        int64_t first = index_at(m->starts, m->start_type, block_row);
        int64_t last = index_at(m->starts, m->start_type, block_row + 1);
        if (first < 0 || last < first || last > m->entries) {
            gb_fatal(NULL, "row or column %lld of a sparse matrix has entries %lld to %lld, but the matrix has %lld",
                     (long long)block_row, (long long)first, (long long)last, (long long)m->entries);
        }
        for (int64_t k = first; k < last; k++) {
            int64_t other = index_at(m->indices, m->index_type, k);
            for (int64_t at = 0; at < m->block_rows * m->block_cols; at++) {
                int64_t row = block_row * m->block_rows + at / m->block_cols;
                int64_t col = other * m->block_cols + at % m->block_cols;
                visit_entry(to, m->by_column ? col : row, m->by_column ? row : col,
                            k * m->block_rows * m->block_cols + at);
            }
        }
    }
}

static void visit_dense(const struct visitor *to) {
    const struct matrix *m = to->matrix;
    for (int64_t row = 0; row < m->rows; row++) {
        int in_group = 0;
        for (int64_t col = 0; col < m->cols; col++) {
            int64_t at = row * m->cols + col;
            struct number value = load(m, at);
            in_group = (col % 4 == 0 ? 0 : in_group) + (value.re != 0 || value.im != 0);
            if (m->format == STRUCTURED && in_group > 2) {
                gb_fatal(NULL, "row %lld of a 2:4 matrix has more than two entries in columns %lld to %lld\n"
                               "  what to do: zero the others, or let gpu.create_2to4_spmat {PRUNE} do so",
                         (long long)row, (long long)(col / 4 * 4), (long long)(col / 4 * 4 + 3));
            }
            visit_entry(to, row, col, at);
        }
    }
}

static void each(const struct matrix *matrix, int mode, visit *call, void *context) {
    const struct visitor to = {matrix, mode, call, context};
    if (matrix->format == BLOCKS) {
        visit_blocks(&to);
    } else if (matrix->format != COO) {
        visit_dense(&to);
    }
    for (int64_t k = 0; matrix->format == COO && k < matrix->entries; k++) {
        visit_entry(&to, index_at(matrix->starts, matrix->index_type, k * matrix->step),
                    index_at(matrix->indices, matrix->index_type, k * matrix->step), k);
    }
}

static int64_t rows_of(const struct matrix *matrix, int mode) {
    return mode == NON_TRANSPOSE ? matrix->rows : matrix->cols;
}

static int64_t cols_of(const struct matrix *matrix, int mode) {
    return mode == NON_TRANSPOSE ? matrix->cols : matrix->rows;
}

/* ---- Creating matrices ---- */

static int make(void **made, struct matrix content) {
    if (content.rows < 0 || content.cols < 0 || content.entries < 0 || content.block_rows < 0 || content.block_cols < 0) {
        gb_fatal(NULL, "a matrix has a negative size: %lld x %lld, %lld entries", (long long)content.rows, (long long)content.cols,
                 (long long)content.entries);
    }
    struct matrix *matrix = gb_allocate(sizeof *matrix);
    *matrix = content;
    *made = matrix;
    return 0;
}

static int destroy(void *matrix) {
    free(matrix);
    return 0;
}

static int create_vector(void **made, int64_t size, void *values, int type) {
    return make(made, (struct matrix){.rows = size, .cols = 1, .values = values, .type = type});
}

static int create_dense(void **made, int64_t rows, int64_t cols, int64_t stride, void *values, int type, int order) {
    return make(made, (struct matrix){.rows = rows, .cols = cols, .values = values, .type = type});
}

static int create_coo(void **made, int64_t rows, int64_t cols, int64_t entries, void *row_indices, void *col_indices,
                      void *values, int index_type, int base, int type) {
    return make(made, (struct matrix){.format = COO, .rows = rows, .cols = cols, .entries = entries, .step = 1,
                                      .starts = row_indices, .indices = col_indices, .values = values,
                                      .index_type = index_type, .type = type});
}

static int create_coo_aos(void **made, int64_t rows, int64_t cols, int64_t entries, void *indices, void *values,
                          int index_type, int base, int type) {
    int bytes = index_type == INDEX_64I ? 8 : index_type == INDEX_32I ? 4 : 2;
    return make(made, (struct matrix){.format = COO, .rows = rows, .cols = cols, .entries = entries, .step = 2,
                                      .starts = indices, .indices = (char *)indices + bytes, .values = values,
                                      .index_type = index_type, .type = type});
}

static int create_csr(void **made, int64_t rows, int64_t cols, int64_t entries, void *starts, void *indices, void *values,
                      int start_type, int index_type, int base, int type) {
    return make(made, (struct matrix){.format = BLOCKS, .rows = rows, .cols = cols, .entries = entries, .block_rows = 1,
                                      .block_cols = 1, .starts = starts, .indices = indices, .values = values,
                                      .start_type = start_type, .index_type = index_type, .type = type});
}

static int create_csc(void **made, int64_t rows, int64_t cols, int64_t entries, void *starts, void *indices, void *values,
                      int start_type, int index_type, int base, int type) {
    create_csr(made, rows, cols, entries, starts, indices, values, start_type, index_type, base, type);
    ((struct matrix *)*made)->by_column = true;
    return 0;
}

static int create_bsr(void **made, int64_t rows, int64_t cols, int64_t blocks, int64_t block_rows, int64_t block_cols,
                      void *starts, void *indices, void *values, int start_type, int index_type, int base, int type,
                      int order) {
    if (block_rows < 1 || block_cols < 1) {
        gb_fatal(NULL, "a block of a sparse matrix is empty: %lld x %lld", (long long)block_rows, (long long)block_cols);
    }
    create_csr(made, rows * block_rows, cols * block_cols, blocks, starts, indices, values, start_type, index_type, base,
               type);
    ((struct matrix *)*made)->block_rows = block_rows;
    ((struct matrix *)*made)->block_cols = block_cols;
    return 0;
}

static int get_size(void *matrix, int64_t *rows, int64_t *cols, int64_t *entries) {
    const struct matrix *m = matrix;
    *rows = m->rows;
    *cols = m->cols;
    *entries = m->entries;
    return 0;
}

static int set_pointers(void *matrix, void *starts, void *indices, void *values) {
    struct matrix *m = matrix;
    m->starts = starts;
    m->indices = indices;
    m->values = values;
    return 0;
}

/* ---- Products with dense matrices ---- */

/* Work with copies of the matrices, which the program may destroy at once. */
struct product {
    struct gb_cpu_work work;
    void (*act)(struct product *);
    struct matrix a, b, c;
    int mode_a, mode_b;
    struct number *sums;
    struct gb_where where;
};

static struct number element(const struct matrix *dense, int mode, int64_t row, int64_t col) {
    return conjugate(load(dense, mode == NON_TRANSPOSE ? row * dense->cols + col : col * dense->cols + row), mode);
}

/* Add a(row, inner) * b(inner, :) to the sums of a row. */
static void add_to_row(void *context, int64_t row, int64_t inner, int64_t at) {
    const struct product *self = context;
    struct number value = conjugate(load(&self->a, at), self->mode_a);
    for (int64_t col = 0; col < self->c.cols; col++) {
        add_product(&self->sums[row * self->c.cols + col], value, element(&self->b, self->mode_b, inner, col));
    }
}

static void multiply(struct product *self) {
    int64_t count = self->c.rows * self->c.cols;
    self->sums = gb_allocate((size_t)count * sizeof *self->sums);
    each(&self->a, self->mode_a, add_to_row, self);
    for (int64_t at = 0; at < count; at++) {
        struct number sum = self->sums[at], before = load(&self->c, at);
        store(&self->c, at, (struct number){before.re + sum.re, before.im + sum.im});
    }
    free(self->sums);
}

/* Add the product of a row and a column to an entry. */
static void add_to_entry(void *context, int64_t row, int64_t col, int64_t at) {
    const struct product *self = context;
    struct number sum = load(&self->c, at);
    for (int64_t inner = 0; inner < cols_of(&self->a, self->mode_a); inner++) {
        add_product(&sum, element(&self->a, self->mode_a, row, inner), element(&self->b, self->mode_b, inner, col));
    }
    store(&self->c, at, sum);
}

static void sample(struct product *self) {
    each(&self->c, NON_TRANSPOSE, add_to_entry, self);
}

/* Keep the two largest of every four columns. */
static void prune(struct product *self) {
    for (int64_t at = 0; at < self->a.rows * self->a.cols; at++) {
        int64_t col = at % self->a.cols, first = at - col % 4, rest = self->a.cols - (col - col % 4);
        struct number value = load(&self->a, at);
        int larger = 0;
        for (int64_t other = first; other < first + (rest < 4 ? rest : 4); other++) {
            struct number compared = load(&self->a, other);
            double difference = hypot(compared.re, compared.im) - hypot(value.re, value.im);
            larger += difference > 0 || (difference == 0 && other < at);
        }
        if (larger >= 2) {
            store(&self->a, at, (struct number){0, 0});
        }
    }
}

static void run(struct gb_cpu_work *work) {
    struct product *self = (struct product *)work;
    const struct gb_where *before = gb_enter(&self->where);
    gb_cpu_slot_acquire();
    self->act(self);
    gb_cpu_slot_release();
    gb_enter(before);
}

static struct product *new_product(void (*act)(struct product *)) {
    struct product *self = gb_cpu_work_make(sizeof *self, run);
    self->act = act;
    self->where = *gb_inside();
    return self;
}

static void check_sizes(const struct matrix *a, int mode_a, const struct matrix *b, int mode_b, const struct matrix *c) {
    if (rows_of(a, mode_a) != c->rows || cols_of(a, mode_a) != rows_of(b, mode_b) || cols_of(b, mode_b) != c->cols) {
        gb_fatal(NULL, "the sizes of a product do not match: %lld x %lld times %lld x %lld into %lld x %lld",
                 (long long)rows_of(a, mode_a), (long long)cols_of(a, mode_a), (long long)rows_of(b, mode_b),
                 (long long)cols_of(b, mode_b), (long long)c->rows, (long long)c->cols);
    }
}

static int submit(void *stream, void (*act)(struct product *), int mode_a, int mode_b, const struct matrix *a,
                  const struct matrix *b, const struct matrix *c) {
    check_sizes(a, mode_a, b, mode_b, c);
    if (a->format == STRUCTURED && mode_a != NON_TRANSPOSE) {
        gb_fatal(NULL, "a 2:4 matrix cannot be transposed: its groups of four are in rows");
    }
    struct product *self = new_product(act);
    self->mode_a = mode_a;
    self->mode_b = mode_b;
    self->a = *a;
    self->b = *b;
    self->c = *c;
    gb_cpu_stream_submit(stream, &self->work);
    return 0;
}

static int spmv(GB_SPARSE_VECTOR_PRODUCT, void *buffer) {
    return submit(handle, multiply, mode, NON_TRANSPOSE, a, x, y);
}

static int spmm(GB_SPARSE_PRODUCT, void *buffer) {
    return submit(handle, multiply, mode_a, mode_b, a, b, c);
}

static int sddmm(GB_SPARSE_PRODUCT, void *buffer) {
    return submit(handle, sample, mode_a, mode_b, a, b, c);
}

static int vector_product_bytes(GB_SPARSE_VECTOR_PRODUCT, size_t *bytes) {
    *bytes = 0;
    return 0;
}

static int product_bytes(GB_SPARSE_PRODUCT, size_t *bytes) {
    *bytes = 0;
    return 0;
}

/* ---- Products of two sparse matrices ---- */

struct entry {
    int64_t row, col;
    struct number value;
};

/* By row, and by column within a row. */
struct entries {
    struct entry *all;
    int64_t count, room;
};

static void append(struct entries *to, struct entry entry) {
    if (to->count == to->room) {
        to->room = 2 * to->room + 16;
        to->all = realloc(to->all, (size_t)to->room * sizeof *to->all);
        if (to->all == NULL) {
            gb_fatal(NULL, "out of host memory: %lld entries of a sparse matrix", (long long)to->room);
        }
    }
    to->all[to->count++] = entry;
}

static int compare_entries(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    return a->row != b->row ? (a->row > b->row) - (a->row < b->row) : (a->col > b->col) - (a->col < b->col);
}

/* Sort the entries from `start` on. */
static void sort(struct entries *entries, int64_t start) {
    if (entries->count > start) {
        qsort(entries->all + start, (size_t)(entries->count - start), sizeof *entries->all, compare_entries);
    }
}

struct reading {
    const struct matrix *matrix;
    int mode;
    struct entries entries;
};

static void read_entry(void *context, int64_t row, int64_t col, int64_t at) {
    struct reading *self = context;
    append(&self->entries, (struct entry){row, col, conjugate(load(self->matrix, at), self->mode)});
}

static struct entries entries_of(const struct matrix *matrix, int mode) {
    struct reading self = {.matrix = matrix, .mode = mode};
    each(matrix, mode, read_entry, &self);
    sort(&self.entries, 0);
    return self.entries;
}

/* The position of the first entry of `row` or a later one. */
static int64_t position_of_row(const struct entries *entries, int64_t row) {
    int64_t first = 0, last = entries->count;
    while (first < last) {
        int64_t middle = first + (last - first) / 2;
        if (entries->all[middle].row < row) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first;
}

/* Sort the entries from `start` on, and add up those of equal columns. */
static void combine(struct entries *entries, int64_t start) {
    sort(entries, start);
    int64_t end = start;
    for (int64_t k = start; k < entries->count; k++) {
        struct entry entry = entries->all[k];
        if (end > start && entries->all[end - 1].col == entry.col) {
            entries->all[end - 1].value.re += entry.value.re;
            entries->all[end - 1].value.im += entry.value.im;
        } else {
            entries->all[end++] = entry;
        }
    }
    entries->count = end;
}

static struct entries multiply_entries(const struct entries *a, const struct entries *b) {
    struct entries product = {0};
    for (int64_t i = 0; i < a->count;) {
        int64_t row = a->all[i].row, start = product.count;
        for (; i < a->count && a->all[i].row == row; i++) {
            int64_t inner = a->all[i].col;
            for (int64_t j = position_of_row(b, inner); j < b->count && b->all[j].row == inner; j++) {
                struct entry entry = {row, b->all[j].col, {0, 0}};
                add_product(&entry.value, a->all[i].value, b->all[j].value);
                append(&product, entry);
            }
        }
        combine(&product, start);
    }
    return product;
}

static int create_product(void **made) {
    *made = gb_allocate(sizeof(struct entries));
    return 0;
}

static int destroy_product(void *product) {
    free(((struct entries *)product)->all);
    free(product);
    return 0;
}

static int estimate(GB_SPARSE_PRODUCT, void *product, size_t *bytes, void *buffer) {
    *bytes = 1; /* so that the program allocates a buffer, which tells the calls of `compute` apart */
    return 0;
}

static int compute(GB_SPARSE_PRODUCT, void *product, size_t *bytes, void *buffer) {
    struct matrix *result = c;
    *bytes = 1;
    if (buffer == NULL) {
        return 0;
    }
    check_sizes(a, mode_a, b, mode_b, result);
    if (result->format != BLOCKS || result->by_column || result->block_rows * result->block_cols != 1) {
        gb_fatal(NULL, "a product of sparse matrices needs a result made by gpu.create_csr");
    }
    gb_cpu_stream_synchronize(handle);
    gb_cpu_slot_acquire();
    struct entries left = entries_of(a, mode_a), right = entries_of(b, mode_b), *computed = product;
    free(computed->all);
    *computed = multiply_entries(&left, &right);
    result->entries = computed->count;
    free(left.all);
    free(right.all);
    gb_cpu_slot_release();
    return 0;
}

static void store_index(const void *indices, int type, int64_t at, int64_t index) {
    void *values = (void *)indices; /* of the program's memory, which is not constant */
    if (type == INDEX_64I) {
        ELEMENT(int64_t, at) = index;
    } else if (type == INDEX_32I) {
        ELEMENT(int32_t, at) = (int32_t)index;
    } else {
        ELEMENT(uint16_t, at) = (uint16_t)index;
    }
}

static int copy(GB_SPARSE_PRODUCT, void *product) {
    const struct matrix *result = c;
    const struct entries *entries = product;
    if (entries->count != result->entries) {
        gb_fatal(NULL, "the product of sparse matrices was not computed for this matrix");
    }
    if (result->starts == NULL || (result->entries > 0 && (result->indices == NULL || result->values == NULL))) {
        gb_fatal(NULL, "a product of sparse matrices has no memory: gpu.set_csr_pointers sets it");
    }
    gb_cpu_stream_synchronize(handle);
    for (int64_t row = 0; row <= result->rows; row++) {
        store_index(result->starts, result->start_type, row, position_of_row(entries, row));
    }
    for (int64_t k = 0; k < entries->count; k++) {
        store_index(result->indices, result->index_type, k, entries->all[k].col);
        store(result, k, entries->all[k].value);
    }
    return 0;
}

static const struct gb_sparse_calls calls = {
    .CreateDnVec = create_vector,
    .DestroyDnVec = destroy,
    .CreateDnMat = create_dense,
    .DestroyDnMat = destroy,
    .CreateCoo = create_coo,
    .CreateCooAoS = create_coo_aos,
    .CreateCsr = create_csr,
    .CreateCsc = create_csc,
    .CreateBsr = create_bsr,
    .DestroySpMat = destroy,
    .SpMatGetSize = get_size,
    .CsrSetPointers = set_pointers,
    .SpMV_bufferSize = vector_product_bytes,
    .SpMV = spmv,
    .SpMM_bufferSize = product_bytes,
    .SpMM = spmm,
    .SDDMM_bufferSize = product_bytes,
    .SDDMM = sddmm,
    .SpGEMM_createDescr = create_product,
    .SpGEMM_destroyDescr = destroy_product,
    .SpGEMM_workEstimation = estimate,
    .SpGEMM_compute = compute,
    .SpGEMM_copy = copy,
};

/* ---- 2:4 matrices ---- */

static void *create_structured(struct gb_device *device, int64_t rows, int64_t cols, void *values, int type, bool sparse,
                               const struct gb_where *where) {
    void *made = NULL;
    make(&made, (struct matrix){.format = sparse ? STRUCTURED : DENSE, .rows = rows, .cols = cols, .values = values,
                                .type = type});
    return made;
}

static void destroy_structured(struct gb_device *device, void *matrix, const struct gb_where *where) {
    free(matrix);
}

static void prepare_structured(struct gb_device *device, const struct gb_structured_product *p, enum gb_prune pruned,
                               int64_t bytes[3], void *stream, const struct gb_where *where) {
    bytes[0] = bytes[1] = bytes[2] = 0;
    if (pruned != GB_PRUNE_NOT) {
        struct product *self = new_product(prune);
        self->a = *(struct matrix *)p->a;
        gb_cpu_stream_submit(stream, &self->work);
    }
}

static void multiply_structured(struct gb_device *device, const struct gb_structured_product *p, void *workspace,
                                void *compressed, void *buffer, void *stream, const struct gb_where *where) {
    submit(stream, multiply, p->mode_a, p->mode_b, p->a, p->b, p->c);
}

static const struct gb_structured_calls structured = {
    .create = create_structured,
    .destroy = destroy_structured,
    .prepare = prepare_structured,
    .multiply = multiply_structured,
};

const struct gb_sparse_vendor gb_cpu_sparse = {.calls = &calls, .structured = &structured};
