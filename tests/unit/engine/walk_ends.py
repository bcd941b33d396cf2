"""Operations that end a walk through a kernel, and some like them that do not."""

# ruff: noqa: E501  (programs inside strings)

from __future__ import annotations

# Who comes there may meet others, or never come back: what others wait for is not told. With functions.
UNTOLD = {
    "amdgpu.lds_barrier": "",
    "func.call @unknown() : () -> ()": "func.func private @unknown()",
    "llvm.call @llvm.nvvm.barrier0() : () -> ()": "llvm.func @llvm.nvvm.barrier0()",
    'llvm.call_intrinsic "llvm.nvvm.barrier.cta.sync.aligned.all"(%i1) : (i32) -> ()': "",
    'llvm.call_intrinsic "llvm.trap"() : () -> ()': "",
    'llvm.inline_asm "bar.sync 0;", "" : () -> ()': "",
    "llvm.intr.trap": "",
    "nvvm.bar.warp.sync %i1 : i32": "",
    "nvvm.barrier": "",
    "nvvm.barrier.arrive id = %i1 number_of_threads = %i32": "",
    "rocdl.barrier": "",
    "rocdl.s.barrier": "",
    "rocdl.s.barrier.signal id = -1\nrocdl.s.barrier.wait id = -1": "",
}
# These come back, and nobody meets there.
HARMLESS = {
    "func.call @own() : () -> ()": "func.func @own() { return }",
    "%f = arith.uitofp %i1 : i32 to f32\nllvm.call @__nv_sinf(%f) : (f32) -> f32": "llvm.func @__nv_sinf(f32) -> f32",
    'llvm.call_intrinsic "llvm.nvvm.read.ptx.sreg.warpid"() : () -> i32': "",
}
