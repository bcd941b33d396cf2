/* mlir_utils/element.h: the element types that the print and verify functions know. */
#ifndef GPUBUILD_RT_ELEMENT_H
#define GPUBUILD_RT_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Elements are read through memcpy: a memref's data may be packed at any address. */
struct gb_element {
    size_t bytes;
    void (*print)(FILE *, const void *element); /* as C++ streams print it */
    bool (*same)(const void *actual, const void *expected);
};

extern const struct gb_element gb_element_i8, gb_element_i16, gb_element_i32, gb_element_i64, gb_element_index,
    gb_element_f16, gb_element_bf16, gb_element_f32, gb_element_f64, gb_element_c32, gb_element_c64;

float gb_float_of_f16(uint16_t bits);
float gb_float_of_bf16(uint16_t bits);

#endif
