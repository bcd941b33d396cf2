/* cpu/cpu_fiber_x86_64.S: void gb_fiber_switch_x86_64(void **from, void *to), System V ABI.
 *
 * Saves what a callee must preserve (six registers, the x87 control word, MXCSR) on the present
 * stack, stores its stack pointer in *from, and restores the same from stack `to`.
 * gb_fiber_start builds the first frame: entry begins with rsp ≡ 8 (mod 16), as after a call. */
#if defined(__x86_64__)
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
#endif
    .section .note.GNU-stack,"",@progbits
