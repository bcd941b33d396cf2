/* cpu_fiber_switch.S: gb_fiber_switch_ARCHITECTURE(void **from, void *to) saves what a callee must preserve on the present
 * stack, stores its stack pointer in *from, and restores the same from stack `to`. gb_fiber_start builds the first frame. */
#if defined(__x86_64__)
/* System V ABI: six registers, the x87 control word, MXCSR. Entry begins with rsp ≡ 8 (mod 16), as after a call. */
    .text
    .globl gb_fiber_switch_x86_64
    .hidden gb_fiber_switch_x86_64
    .type gb_fiber_switch_x86_64, @function
    .p2align 4
gb_fiber_switch_x86_64:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .cfi_endproc
    .size gb_fiber_switch_x86_64, .-gb_fiber_switch_x86_64
    .section .note.GNU-stack,"",@progbits
#elif defined(__aarch64__)
/* AAPCS64: x19 to x30, the low halves of v8 to v15, FPCR. The x30 of the first frame is the entry. */
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
    .section .note.GNU-stack,"",%progbits
#endif
