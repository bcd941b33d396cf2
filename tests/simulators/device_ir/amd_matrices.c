/* amd_matrices.c: products of 16 x 16 elements, with the layouts that AMD's matrix instruction calculator prints. */
#include "matrices.h"

enum { SIZE = 16, ROOM = 64, FIRST = 8 };

/* A, B or C of a lane; FIRST words describe the instruction: depth, kinds of A, B and of the result. */
static const unsigned char *fragment(const struct emu_request *request, uint32_t which) {
    return (const unsigned char *)&request->in[FIRST] + which * (uint32_t)ROOM;
}

static void multiply(struct emu_request *const *requests, uint64_t set) {
    static double a[SIZE][32], b[32][SIZE];
    const uint64_t *shape = requests[__builtin_ctzll(set)]->in;
    uint32_t lanes = emu_subgroup_size(), depth = (uint32_t)shape[0], result = (uint32_t)shape[3];
    uint32_t kinds[] = {(uint32_t)shape[1], (uint32_t)shape[2]};
    /* MFMA: each 16 lanes have their part of the depth. WMMA: each lane has all of it, and 16 to 31 the same as 0 to 15. */
    uint32_t part = lanes == 64 ? depth / 4 : depth;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        for (uint32_t i = 0; i < part; i++) {
            uint32_t k = lanes == 64 ? lane / SIZE * part + i : i;
            double of_a = element(fragment(requests[lane], 0) + i * bytes_of(kinds[0]), kinds[0]);
            double of_b = element(fragment(requests[lane], 1) + i * bytes_of(kinds[1]), kinds[1]);
            if (lanes == 32 && lane >= SIZE && (a[lane % SIZE][k] != of_a || b[k][lane % SIZE] != of_b)) {
                requests[lane]->out[EMU_MOST_WORDS - 1] = 1;
            }
            a[lane % SIZE][k] = of_a;
            b[k][lane % SIZE] = of_b;
        }
    }
    uint32_t groups = lanes / SIZE, count = SIZE / groups;
    for (uint32_t lane = 0; lane < lanes; lane++) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row = lanes == 32 || result == F64 ? i * groups + lane / SIZE : lane / SIZE * count + i;
            double sum = element(fragment(requests[lane], 2) + i * bytes_of(result), result);
            for (uint32_t k = 0; k < depth; k++) {
                sum += a[row][k] * b[k][lane % SIZE];
            }
            put((unsigned char *)requests[lane]->out + i * bytes_of(result), result, sum);
        }
    }
}

/* `fragments` holds A, B and C, ROOM bytes for each; `controls` is 0 unless the instruction permutes or saturates. */
void amd_multiply(const void *fragments, void *product, uint32_t bytes, uint32_t k, uint32_t kind_a, uint32_t kind_b,
                  uint32_t kind_result, uint32_t controls, uint32_t site, uint32_t depth) {
    uint64_t all = UINT64_MAX >> (64 - emu_subgroup_size());
    struct emu_request request = {
        .kind = "matrix multiplication", .action = multiply, .members = all, .converged = true,
        .in = {k, kind_a, kind_b, kind_result},
    };
    if (emu_live_lanes() != all) {
        emu_fail("matrix multiplication by part of a subgroup");
    }
    if (controls != 0) {
        emu_fail("matrix multiplication with controls that are unknown here");
    }
    memcpy(&request.in[FIRST], fragments, 3 * (size_t)ROOM);
    emu_converge(&request, site, depth);
    if (request.out[EMU_MOST_WORDS - 1]) {
        emu_fail("matrix multiplication of factors that differ between the halves of a subgroup");
    }
    memcpy(product, request.out, bytes);
}
