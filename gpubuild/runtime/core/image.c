/* image.c: the images in the argument of mgpuModuleLoad: containers, or one bare object.
 *
 * The layout of a container is LLVM's (llvm/Object/OffloadBinary.h): a 32-byte header, entries of
 * 40 bytes, a string table and the image, every offset relative to the header, all little-endian.
 * Version 1 holds one entry; version 2 counts its entries in the header and adds the value's size
 * to each string. Containers follow one another, padded to 8 bytes.
 */
#define _GNU_SOURCE /* memmem */
#include "core/image.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 32,
    ENTRY_BYTES = 40,
    STRING_BYTES_V1 = 16,
    STRING_BYTES_V2 = 24,
    ELF_HEADER_BYTES = 64
};

static const unsigned char container_magic[4] = {0x10, 0xff, 0x10, 0xad};

uint64_t gb_read_little_endian(const unsigned char *bytes, unsigned count) {
    uint64_t value = 0;
    for (unsigned i = count; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static bool starts_with(const void *data, size_t size, const void *magic, size_t length) {
    return size >= length && memcmp(data, magic, length) == 0;
}

/* Whether `length` bytes at `offset` lie inside `size` bytes. */
static bool inside(uint64_t offset, uint64_t length, uint64_t size) {
    return offset <= size && length <= size - offset;
}

/* ---- formats ---- */

bool gb_image_starts_with(const struct gb_image *image, const void *magic, size_t length) {
    return starts_with(image->data, image->size, magic, length);
}

int gb_image_elf_machine(const struct gb_image *image) {
    bool elf = gb_image_starts_with(image, "\177ELF\2\1", 6) && image->size >= ELF_HEADER_BYTES;
    return elf ? (int)gb_read_little_endian((const unsigned char *)image->data + 18, 2) : -1;
}

/* AMD's target ids have more than letters and digits. */
static void copy_chip(char chip[GB_CHIP_BYTES], const char *text, size_t size) {
    size_t n = 0;
    while (n < size && n + 1 < GB_CHIP_BYTES && text[n] != '\0' &&
           strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+:.", text[n]) != NULL) {
        chip[n] = text[n];
        n++;
    }
    chip[n] = '\0';
}

void gb_image_set_chip(struct gb_image *image, const char *text, size_t size) {
    if (image->chip[0] == '\0') {
        copy_chip(image->chip, text, size);
    }
}

void gb_image_find_chip(struct gb_image *image, const char *marker, size_t skipped) {
    const char *found = image->chip[0] == '\0' ? memmem(image->data, image->size, marker, strlen(marker)) : NULL;
    if (found != NULL) {
        found += skipped;
        gb_image_set_chip(image, found, image->size - (size_t)(found - (const char *)image->data));
    }
}

/* Vendor and format from the bytes themselves; the chip too, unless it is known already. */
static void recognize(struct gb_image *image) {
    image->format = "unknown format";
    image->vendor = 0;
    while (image->vendor != GB_VENDOR_UNKNOWN && !gb_vendor_calls(image->vendor)->recognize(image)) {
        image->vendor++;
    }
}

/* ---- containers ---- */

/* The string at `offset` of a container, or NULL if it does not end inside the container. */
static const char *string_at(const unsigned char *base, uint64_t size, uint64_t offset) {
    if (offset >= size || memchr(base + offset, '\0', (size_t)(size - offset)) == NULL) {
        return NULL;
    }
    return (const char *)base + offset;
}

static bool parse_entry(const unsigned char *base, uint64_t size, uint64_t entry_offset, uint64_t version,
                        struct gb_image *image, const char **why) {
    const unsigned char *entry = base + entry_offset;
    uint64_t strings = gb_read_little_endian(entry + 8, 8);
    uint64_t count = gb_read_little_endian(entry + 16, 8);
    uint64_t image_offset = gb_read_little_endian(entry + 24, 8);
    uint64_t image_size = gb_read_little_endian(entry + 32, 8);
    uint64_t stride = version == 1 ? STRING_BYTES_V1 : STRING_BYTES_V2;
    if (!inside(image_offset, image_size, size)) {
        *why = "an image lies outside its container";
        return false;
    }
    if (count > size / stride || !inside(strings, count * stride, size)) {
        *why = "a string table lies outside its container";
        return false;
    }
    *image = (struct gb_image){
        .data = base + image_offset, .size = (size_t)image_size, .module = "", .target = "", .kernels = ""};
    for (uint64_t i = 0; i < count; i++) {
        const unsigned char *pair = base + strings + i * stride;
        const char *key = string_at(base, size, gb_read_little_endian(pair, 8));
        const char *value = string_at(base, size, gb_read_little_endian(pair + 8, 8));
        if (key == NULL || value == NULL) {
            *why = "a string runs past the end of its container";
            return false;
        }
        if (strcmp(key, "arch") == 0) {
            copy_chip(image->chip, value, strlen(value));
        } else if (strcmp(key, "gpubuild.features") == 0) {
            image->features = value;
        } else if (strcmp(key, "gpubuild.sanitize") == 0) {
            image->checked = true;
        } else if (strcmp(key, "gpubuild.module") == 0) {
            image->module = value;
        } else if (strcmp(key, "gpubuild.target") == 0) {
            image->target = value;
        } else if (strcmp(key, "gpubuild.kernels") == 0) {
            image->kernels = value;
        }
    }
    recognize(image);
    return true;
}

/* One container at `base`, of at most `size` bytes. Returns its own size, 0 with *why when malformed. */
static uint64_t parse_container(const unsigned char *base, size_t size, struct gb_image **images, size_t *count,
                                const char **why) {
    if (size < HEADER_BYTES) {
        *why = "a container's header is cut off";
        return 0;
    }
    uint64_t version = gb_read_little_endian(base + 4, 4);
    uint64_t own_size = gb_read_little_endian(base + 8, 8);
    uint64_t entries_offset = gb_read_little_endian(base + 16, 8);
    uint64_t entries = version == 1 ? 1 : gb_read_little_endian(base + 24, 8);
    if (version < 1 || version > 2) {
        *why = "a container's version is neither 1 nor 2";
        return 0;
    }
    if (own_size < HEADER_BYTES || own_size > size) {
        *why = "a container is cut off: its size is larger than the image";
        return 0;
    }
    if (entries > own_size / ENTRY_BYTES || !inside(entries_offset, entries * ENTRY_BYTES, own_size)) {
        *why = "an entry lies outside its container";
        return 0;
    }
    struct gb_image *grown = realloc(*images, (*count + (size_t)entries + 1) * sizeof **images);
    if (grown == NULL) {
        *why = "out of host memory";
        return 0;
    }
    *images = grown;
    for (uint64_t i = 0; i < entries; i++) {
        if (!parse_entry(base, own_size, entries_offset + i * ENTRY_BYTES, version, &grown[*count], why)) {
            return 0;
        }
        (*count)++;
    }
    return own_size;
}

static size_t parse_containers(const unsigned char *bytes, size_t size, struct gb_image **images, char **why) {
    size_t count = 0;
    size_t offset = 0;
    const char *reason = NULL;
    while (offset < size && reason == NULL) {
        if (starts_with(bytes + offset, size - offset, container_magic, sizeof container_magic)) {
            offset += (size_t)parse_container(bytes + offset, size - offset, images, &count, &reason);
        } else if (bytes[offset] == 0) {
            offset++; /* a linker's padding between sections of the same name */
        } else {
            reason = "something that is not a container follows one";
        }
    }
    if (reason != NULL || count == 0) {
        *why = gb_text("malformed OffloadBinary at byte %zu of %zu: %s", offset, size,
                       reason != NULL ? reason : "no entries");
        free(*images);
        *images = NULL;
        return 0;
    }
    return count;
}

size_t gb_images_parse(const void *data, size_t size, struct gb_image **images, char **why) {
    *images = NULL;
    *why = NULL;
    if (data == NULL || size == 0) {
        *why = gb_text("the image is empty");
        return 0;
    }
    if (starts_with(data, size, container_magic, sizeof container_magic)) {
        return parse_containers(data, size, images, why);
    }
    struct gb_image bare = {.data = data, .size = size, .module = "", .target = "", .kernels = ""};
    recognize(&bare);
    if (bare.vendor == GB_VENDOR_UNKNOWN) {
        const unsigned char *b = data;
        *why = gb_text("the image is of no known format (%zu bytes, the first are %02x %02x %02x %02x); known are "
                       "OffloadBinary, cubin, fatbin, PTX, hsaco and ELF shared objects of the host",
                       size, b[0], size > 1 ? b[1] : 0u, size > 2 ? b[2] : 0u, size > 3 ? b[3] : 0u);
        return 0;
    }
    *images = gb_allocate(sizeof bare);
    **images = bare;
    return 1;
}

/* gpubuild writes the list (engine/backends/gpu_compile.py): no white space, keys in alphabetical order. */
int gb_image_parameters(const struct gb_image *image, const char *kernel) {
    char *key = gb_text("\"name\":\"%s\",\"parameters\":", kernel);
    const char *found = strstr(image->kernels, key);
    const char *number = found != NULL ? found + strlen(key) : "";
    free(key);
    return number[0] >= '0' && number[0] <= '9' ? (int)strtol(number, NULL, 10) : -1;
}
