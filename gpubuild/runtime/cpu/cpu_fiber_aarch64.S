/* cpu/cpu_fiber_aarch64.S: void gb_fiber_switch_aarch64(void **from, void *to), AAPCS64.
 *
 * Saves what a callee must preserve (x19 to x30, the low halves of v8 to v15) and FPCR on the present
 * stack, stores its stack pointer in *from, and restores the same from stack `to`.
 * gb_fiber_start builds the first frame, whose x30 is the entry. */
#if defined(__aarch64__)
    .text
    .globl gb_fiber_switch_aarch64
    .hidden gb_fiber_switch_aarch64
    .type gb_fiber_switch_aarch64, %function
    .p2align 4
gb_fiber_switch_aarch64:
    .cfi_startproc
    sub sp, sp, #176
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mrs x9, fpcr
    str x9, [sp, #160]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    ldr x9, [sp, #160]
    msr fpcr, x9
    add sp, sp, #176
    ret
    .cfi_endproc
    .size gb_fiber_switch_aarch64, .-gb_fiber_switch_aarch64
#endif
    .section .note.GNU-stack,"",%progbits
