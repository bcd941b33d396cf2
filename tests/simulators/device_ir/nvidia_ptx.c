/* nvidia_ptx.c: what instructions of PTX do that LLVM has no instruction for: addresses, bits, and ends. */
#include "core_state.h"

#include <string.h>

/* ---- addresses ---- */

void *nv_address(uint64_t address, uint32_t bytes) {
    if (address & (bytes - 1)) {
        emu_fail("%u bytes at address %#llx, which is not aligned to as many", bytes, (unsigned long long)address);
    }
    return (void *)(uintptr_t)address;
}

static bool inside(const struct emu_memory *memory, uint64_t size, uint64_t address, uint32_t bytes) {
    uint64_t first = (uint64_t)(uintptr_t)memory->address;
    return memory->address != NULL && address >= first && address + bytes <= first + size;
}

void *nv_shared_address(uint64_t address, uint32_t bytes) {
    bool found = inside(&emu.launch->dynamic, emu.launch->dynamic_bytes, address, bytes);
    for (uint32_t i = 0; !found && i < emu.launch->shared_count; i++) {
        found = inside(&emu.launch->shared[i], emu.launch->shared[i].bytes, address, bytes);
    }
    if (!found) {
        emu_fail("%u bytes at shared address %#llx, where the workgroup has no memory", bytes,
                 (unsigned long long)(address - (uint64_t)(uintptr_t)emu.launch->dynamic.address));
    }
    return nv_address(address, bytes);
}

/* ---- ends ---- */

_Noreturn void nv_trap(void) {
    emu_fail("trap");
}

void nv_exit(void) {
    emu.self->state = ENDED;
    gb_fiber_switch(&emu.self->fiber, &emu.scheduler);
}

/* ---- bits ---- */

/* The place of the highest bit that is not the sign's, or all ones; with `shift`, how far it is from the top. */
uint32_t nv_bfind(uint64_t value, uint32_t bits, uint32_t is_signed, uint32_t shift) {
    if (is_signed && (int64_t)value < 0) {
        value = ~value;
    }
    if (bits == 32) {
        value &= UINT32_MAX;
    }
    if (value == 0) {
        return UINT32_MAX;
    }
    uint32_t place = 63u - (uint32_t)__builtin_clzll(value);
    return shift ? bits - 1 - place : place;
}

/* Bits from `start` on, `length` of them, both of their lower 8 bits; beyond the top there are signs. */
uint64_t nv_bfe(uint64_t value, uint32_t start, uint32_t length, uint32_t bits, uint32_t is_signed) {
    uint32_t first = start & 255, count = length & 255, top = bits - 1;
    uint64_t sign = 0, result = 0;
    if (is_signed && count != 0) {
        uint32_t last = first + count - 1 < top ? first + count - 1 : top;
        sign = value >> last & 1;
    }
    for (uint32_t i = 0; i < bits; i++) {
        uint64_t bit = i < count && first + i <= top ? value >> (first + i) & 1 : sign;
        result |= bit << i;
    }
    return result;
}

uint64_t nv_bfi(uint64_t field, uint64_t into, uint32_t start, uint32_t length, uint32_t bits) {
    uint32_t first = start & 255, count = length & 255;
    for (uint32_t i = 0; i < count && first + i < bits; i++) {
        uint64_t place = 1ull << (first + i);
        into = (field >> i & 1) ? into | place : into & ~place;
    }
    return into;
}

static uint32_t replicated(uint32_t byte) {
    return byte & 0x80 ? 0xFF : 0;
}

uint32_t nv_prmt(uint32_t a, uint32_t b, uint32_t selection, uint32_t mode) {
    static const unsigned char PLACES[6][4][4] = { /* by mode and the lower two bits; byte 0 first */
        {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}, /* f4e */
        {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}, /* b4e */
        {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}, /* rc8 */
        {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}, /* ecl */
        {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}, /* ecr */
        {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}, /* rc16 */
    };
    uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t which = mode == 0 ? selection >> (4 * i) & 15 : PLACES[mode - 1][selection & 3][i];
        uint32_t byte = (uint32_t)(bytes >> (8 * (which & 7))) & 255;
        result |= (which & 8 ? replicated(byte) : byte) << (8 * i);
    }
    return result;
}

/* Bit by bit what `table` says of the three bits, those of `a` above. */
uint32_t nv_lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
        result |= (table >> row & 1) << i;
    }
    return result;
}

/* The place of the n-th set bit from `base` on, upwards or, where `offset` is negative, downwards. */
uint32_t nv_fns(uint32_t mask, uint32_t base, uint32_t offset) {
    int32_t wanted = (int32_t)offset, step = wanted < 0 ? -1 : 1, left = wanted < 0 ? -wanted : wanted;
    if (wanted == 0) {
        return base < 32 && mask >> base & 1 ? base : UINT32_MAX;
    }
    for (int32_t place = (int32_t)base; place >= 0 && place < 32; place += step) {
        if ((mask >> place & 1) && --left == 0) {
            return (uint32_t)place;
        }
    }
    return UINT32_MAX;
}

static int32_t part(uint32_t value, uint32_t number, uint32_t bits, bool is_signed) {
    uint32_t field = value >> (number * bits) & ((1u << bits) - 1);
    return is_signed && field >> (bits - 1) ? (int32_t)field - (1 << bits) : (int32_t)field;
}

/* dp4a, or, by `half`, dp2a of the lower or the upper two bytes of `b`. */
uint32_t nv_dot(uint32_t a, uint32_t b, uint32_t c, uint32_t signs, uint32_t half) {
    for (uint32_t i = 0; i < (half ? 2 : 4); i++) {
        int64_t left = part(a, i, half ? 16 : 8, signs & 1);
        c += (uint32_t)(left * part(b, half == 2 ? i + 2 : i, 8, signs & 2));
    }
    return c;
}
