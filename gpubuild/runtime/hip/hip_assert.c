/* hip_assert.c: the message of a failed assertion in a kernel on an AMD GPU.
 *
 * The kernel writes a message that HIP should print, and traps. HIP up to ROCm 7 then ends the process with abort() from a
 * thread of its own before it prints. Therefore modules with assertions get the address of a record in host memory. The
 * first failed assertion fills it in, and a handler of SIGABRT prints its message.
 */
#define _GNU_SOURCE /* memmem */
#include "hip/hip_api.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "0:0:"; /* of a format in the metadata amdhsa.printf; 16 digits, the name, and a comma follow */
static const char marker[] = "assertion failed: ";
enum { NAME_DIGITS = 16, HEAD_BYTES = sizeof prefix - 1 + NAME_DIGITS + 1 };

/* amd_messages.ll of the engine writes it. */
struct record {
    _Atomic uint32_t state; /* 0: empty, 1: being written, 2: complete */
    uint64_t format;
    uint32_t numbers[6];
};
_Static_assert(sizeof(struct record) <= GB_HIP_RECORD_BYTES, "a record must fit");

struct format {
    struct format *next;
    uint64_t name;
    char text[];
};

static struct record *shared;
static _Atomic(struct format *) formats;
static struct sigaction before;

/* ---- In the handler: async-signal-safe functions only ---- */

static void print_number(uint32_t number) {
    char digits[10];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    gb_write_bytes(digits + at, sizeof digits - at);
}

/* A format has %u for each number, and %% for %. */
static void print_format(const char *text, const uint32_t *numbers) {
    size_t used = 0;
    for (const char *at = text; *at != '\0';) {
        size_t plain = strcspn(at, "%");
        gb_write_bytes(at, plain);
        at += plain;
        if (*at == '%' && at[1] == 'u' && used < 6) {
            print_number(numbers[used++]);
            at += 2;
        } else if (*at == '%') {
            gb_write_bytes("%", 1);
            at += at[1] == '%' ? 2 : 1;
        }
    }
}

static void on_abort(int number) {
    if (shared != NULL && atomic_load(&shared->state) == 2) {
        for (const struct format *format = atomic_load(&formats); format != NULL; format = format->next) {
            if (format->name == shared->format) {
                print_format(format->text, shared->numbers);
                break;
            }
        }
    }
    sigaction(SIGABRT, &before, NULL);
    raise(number);
}

/* ---- When a module is loaded ---- */

/* The length of a MessagePack string that begins at `at`, from the bytes before it. */
static size_t string_bytes(const unsigned char *data, const unsigned char *at) {
    if (at - data >= 2 && at[-2] == 0xD9) {
        return at[-1];
    }
    if (at - data >= 3 && at[-3] == 0xDA) {
        return (size_t)at[-2] << 8 | at[-1];
    }
    return 0;
}

static void keep(const unsigned char *entry, size_t bytes) {
    char digits[NAME_DIGITS + 1] = {0};
    memcpy(digits, entry + sizeof prefix - 1, NAME_DIGITS);
    struct format *format = gb_allocate(sizeof *format + bytes - HEAD_BYTES + 1);
    format->name = strtoull(digits, NULL, 16);
    memcpy(format->text, entry + HEAD_BYTES, bytes - HEAD_BYTES);
    format->text[bytes - HEAD_BYTES] = '\0';
    format->next = atomic_load(&formats);
    while (!atomic_compare_exchange_weak(&formats, &format->next, format)) {
    }
}

bool gb_hip_keep_assertions(const void *image, size_t size) {
    const unsigned char *data = image, *end = data + size;
    bool found = false;
    for (const unsigned char *at = data; (at = memmem(at, (size_t)(end - at), prefix, sizeof prefix - 1)) != NULL;
         at += sizeof prefix - 1) {
        size_t bytes = string_bytes(data, at);
        if (bytes > HEAD_BYTES && bytes <= (size_t)(end - at) && memmem(at, bytes, marker, sizeof marker - 1) != NULL) {
            keep(at, bytes);
            found = true;
        }
    }
    return found;
}

void gb_hip_watch(void *memory) {
    memset(memory, 0, GB_HIP_RECORD_BYTES);
    shared = memory;
    struct sigaction handler = {.sa_handler = on_abort};
    sigemptyset(&handler.sa_mask);
    sigaction(SIGABRT, &handler, &before);
}
