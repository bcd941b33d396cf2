/* nvidia_matrices.c: wmma. The ISA does not define which lane has which elements, so any choice is right that is equal for
 * all fragments of a kind. */
#include "matrices.h"

/* The element of the matrix that element `n` of a lane's fragment is. A fragment larger than a lane's part repeats it. */
static uint32_t index_of(uint32_t lane, uint32_t n, uint32_t total) {
    uint32_t part = total / 32;
    return lane * part + n % part;
}

static size_t offset(uint32_t at, uint32_t columns, uint32_t stride, uint32_t by_column) {
    uint32_t row = at / columns, column = at % columns;
    return by_column ? (size_t)column * stride + row : (size_t)row * stride + column;
}

void nv_wmma_load(unsigned char *fragment, uint32_t count, const unsigned char *from, uint32_t stride, uint32_t kind,
                  uint32_t rows, uint32_t columns, uint32_t by_column) {
    for (uint32_t n = 0; n < count; n++) {
        uint32_t at = index_of(emu_lane(), n, rows * columns);
        memcpy(fragment + n * bytes_of(kind), from + offset(at, columns, stride, by_column) * bytes_of(kind),
               bytes_of(kind));
    }
}

void nv_wmma_store(const unsigned char *fragment, uint32_t count, unsigned char *into, uint32_t stride, uint32_t kind,
                   uint32_t rows, uint32_t columns, uint32_t by_column) {
    for (uint32_t n = 0; n < count; n++) {
        uint32_t at = index_of(emu_lane(), n, rows * columns);
        memcpy(into + offset(at, columns, stride, by_column) * bytes_of(kind), fragment + n * bytes_of(kind),
               bytes_of(kind));
    }
}

/* in: m, n, k, the kind of A and B, of C, of D, and the room of a fragment; from in[8] on those of A, B and C. */
static void multiply(struct emu_request *const *requests, uint64_t set) {
    static double a[256], b[256], c[256];
    const uint64_t *shape = requests[0]->in;
    uint32_t m = (uint32_t)shape[0], n = (uint32_t)shape[1], k = (uint32_t)shape[2];
    uint32_t kinds[] = {(uint32_t)shape[3], (uint32_t)shape[3], (uint32_t)shape[4]};
    uint32_t totals[] = {m * k, k * n, m * n};
    double *matrices[] = {a, b, c};
    (void)set;
    for (uint32_t lane = 0; lane < 32; lane++) {
        const unsigned char *fragments = (const unsigned char *)&requests[lane]->in[8];
        for (int which = 0; which < 3; which++) {
            for (uint32_t at = 0; at < totals[which] / 32; at++) {
                matrices[which][index_of(lane, at, totals[which])] =
                    element(fragments + requests[0]->in[6] * (uint32_t)which + at * bytes_of(kinds[which]),
                            kinds[which]);
            }
        }
    }
    for (uint32_t lane = 0; lane < 32; lane++) {
        for (uint32_t at = 0; at < totals[2] / 32; at++) {
            uint32_t index = index_of(lane, at, totals[2]), row = index / n, column = index % n;
            double sum = c[index];
            for (uint32_t i = 0; i < k; i++) {
                sum += a[row * k + i] * b[i * n + column];
            }
            put((unsigned char *)requests[lane]->out + at * bytes_of((uint32_t)shape[5]), (uint32_t)shape[5], sum);
        }
    }
}

/* `fragments` holds A, B and C, `room` bytes for each. */
void nv_wmma_multiply(const void *fragments, uint32_t room, void *result, uint32_t bytes, uint32_t shape,
                      uint32_t kinds, uint32_t site, uint32_t depth) {
    struct emu_request request = {
        .kind = "wmma.mma.sync", .action = multiply, .members = UINT32_MAX, .converged = true,
        .in = {shape >> 16, shape >> 8 & 255, shape & 255, kinds >> 16, kinds >> 8 & 255, kinds & 255, room},
    };
    if (emu_live_lanes() != UINT32_MAX) {
        emu_fail("wmma.mma.sync by part of a subgroup");
    }
    memcpy(&request.in[8], fragments, 3 * room);
    emu_converge(&request, site, depth);
    memcpy(result, request.out, bytes);
}
