/* initialized.c: which bytes of workgroup memory were written. */
#include "sanitizer/sanitizer.h"

#include <stdlib.h>
#include <string.h>

void gb_check_bytes_reset(struct gb_check_bytes *bytes, size_t count) {
    if (count > bytes->capacity) {
        free(bytes->written);
        bytes->written = gb_allocate(count);
        bytes->capacity = count;
    } else if (count > 0) {
        memset(bytes->written, 0, count);
    }
}

bool gb_check_bytes_all(const struct gb_check_bytes *bytes, uint64_t offset, uint64_t count) {
    return memchr(bytes->written + offset, 0, count) == NULL;
}

void gb_check_bytes_set(struct gb_check_bytes *bytes, uint64_t offset, uint64_t count) {
    memset(bytes->written + offset, 1, count);
}
