/* cuSPARSELt or hipSPARSELt (PREFIX) without a GPU: calls are recorded, and structures that were not initialised are errors (3). Written after the
 * prototypes of cusparseLt.h 0.8, which hipsparselt.h shares. FAKE_SPARSELT is the version, 801 by default; FAKE_NOT_2TO4 makes checks fail. */
#include "fake.h"

typedef struct {
    char kind; /* what it was initialised as */
    int number;
    unsigned char rest[504];
} content;

static int made[128];

static void initialise(content *c, char kind) {
    memset(c, 0xee, sizeof *c);
    c->kind = kind;
    c->number = ++made[(int)kind];
}

#define NEED(c, expected)                                                                                              \
    if ((c)->kind != (expected)) {                                                                                     \
        return 3;                                                                                                      \
    }
#define BEGIN(name, ...)                                                                                               \
    record(TEXT(PREFIX) #name " " __VA_ARGS__);                                                                        \
    FAIL_IF_ORDERED(TEXT(PREFIX) #name);

const char *JOIN(PREFIX, GetErrorName)(int code) {
    return code == 10 ? "CUSPARSE_STATUS_NOT_SUPPORTED" : "CUSPARSE_STATUS_FAKE";
}
int JOIN(PREFIX, Init)(content *h) {
    BEGIN(Init, "")
    initialise(h, 'H');
    return 0;
}
int JOIN(PREFIX, GetVersion)(const content *h, int *version) {
    NEED(h, 'H')
    *version = getenv("FAKE_SPARSELT") != NULL ? atoi(getenv("FAKE_SPARSELT")) : 801;
    return 0;
}
int JOIN(PREFIX, DenseDescriptorInit)(const content *h, content *m, int64_t rows, int64_t cols, int64_t ld, uint32_t alignment,
                                  int type, int order) {
    NEED(h, 'H')
    initialise(m, 'D');
    BEGIN(DenseDescriptorInit, "D%d %ld %ld %ld %u %d %d", m->number, rows, cols, ld, alignment, type, order)
    return 0;
}
int JOIN(PREFIX, StructuredDescriptorInit)(const content *h, content *m, int64_t rows, int64_t cols, int64_t ld,
                                       uint32_t alignment, int type, int order, int sparsity) {
    NEED(h, 'H')
    initialise(m, 'S');
    BEGIN(StructuredDescriptorInit, "S%d %ld %ld %ld %u %d %d %d", m->number, rows, cols, ld, alignment, type, order, sparsity)
    return 0;
}
int JOIN(PREFIX, MatDescriptorDestroy)(content *m) {
    BEGIN(MatDescriptorDestroy, "%c%d", m->kind, m->number)
    m->kind = 0;
    return 0;
}
int JOIN(PREFIX, MatmulDescriptorInit)(const content *h, content *p, int op_a, int op_b, const content *a, const content *b,
                                   const content *c, const content *d, int compute) {
    NEED(h, 'H') NEED(a, 'S') NEED(b, 'D') NEED(c, 'D') NEED(d, 'D')
    initialise(p, 'P');
    BEGIN(MatmulDescriptorInit, "P%d %d,%d S%d D%d D%d D%d %d", p->number, op_a, op_b, a->number, b->number, c->number,
          d->number, compute)
    return 0;
}
int JOIN(PREFIX, MatmulAlgSelectionInit)(const content *h, content *s, const content *p, int number) {
    NEED(h, 'H') NEED(p, 'P')
    initialise(s, 'A');
    BEGIN(MatmulAlgSelectionInit, "A%d P%d %d", s->number, p->number, number)
    return 0;
}
int JOIN(PREFIX, MatmulPlanInit)(const content *h, content *plan, const content *p, const content *s) {
    NEED(h, 'H') NEED(p, 'P') NEED(s, 'A')
    initialise(plan, 'L');
    BEGIN(MatmulPlanInit, "L%d P%d A%d", plan->number, p->number, s->number)
    return 0;
}
int JOIN(PREFIX, MatmulPlanDestroy)(content *plan) {
    NEED(plan, 'L')
    BEGIN(MatmulPlanDestroy, "L%d", plan->number)
    plan->kind = 0;
    return 0;
}
int JOIN(PREFIX, MatmulGetWorkspace)(const content *h, const content *plan, size_t *bytes) {
    NEED(h, 'H') NEED(plan, 'L')
    BEGIN(MatmulGetWorkspace, "L%d", plan->number)
    *bytes = 16;
    return 0;
}
int JOIN(PREFIX, SpMMACompressedSize)(const content *h, const content *plan, size_t *bytes, size_t *buffer) {
    NEED(h, 'H') NEED(plan, 'L')
    BEGIN(SpMMACompressedSize, "L%d", plan->number)
    *bytes = 32, *buffer = 48;
    return 0;
}
int JOIN(PREFIX, SpMMAPrune)(const content *h, const content *p, const void *in, void *out, int how, void *stream) {
    NEED(h, 'H') NEED(p, 'P')
    BEGIN(SpMMAPrune, "P%d %p %p %d %p", p->number, in, out, how, stream)
    return 0;
}
int JOIN(PREFIX, SpMMAPruneCheck)(const content *h, const content *p, const void *in, int *invalid, void *stream) {
    NEED(h, 'H') NEED(p, 'P')
    BEGIN(SpMMAPruneCheck, "P%d %p %p", p->number, in, stream)
    *invalid = getenv("FAKE_NOT_2TO4") != NULL;
    return 0;
}
int JOIN(PREFIX, SpMMACompress)(const content *h, const content *plan, const void *dense, void *compressed, void *buffer,
                            void *stream) {
    NEED(h, 'H') NEED(plan, 'L')
    BEGIN(SpMMACompress, "L%d %p %p %p %p", plan->number, dense, compressed, buffer, stream)
    return 0;
}
int JOIN(PREFIX, Matmul)(const content *h, const content *plan, const void *alpha, const void *a, const void *b,
                     const void *beta, const void *c, void *d, void *workspace, void **streams, int32_t count) {
    NEED(h, 'H') NEED(plan, 'L')
    BEGIN(Matmul, "L%d %g %p %p %g %p %p %p %p %d", plan->number, *(const float *)alpha, a, b, *(const float *)beta, c, d,
          workspace, streams[0], count)
    return 0;
}
