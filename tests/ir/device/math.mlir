// RUN: sm_90 llvm
// RUN: sm_90 asm
// RUN: sm_90 asm fast_math=true
// RUN: gfx90a llvm

gpu.module @k {
  gpu.func @f(%x: f32, %i: index, %m: memref<?xf32>) kernel {
    %s = math.sqrt %x : f32
    %e = math.exp %s : f32
    memref.store %e, %m[%i] : memref<?xf32>
    gpu.return
  }
}

// libdevice is linked, specialised and inlined: nothing of it is left to call or to ask.
// SM_90-LLVM-NOT: __nv_
// SM_90-LLVM-NOT: __nvvm_reflect
// SM_90-ASM: sqrt.rn.f32
// SM_90-ASM: ex2.approx
// SM_90-ASM-FAST: sqrt.approx.ftz.f32

// GFX90A-LLVM-NOT: __ocml_
// GFX90A-LLVM: call {{.*}}float @llvm.exp.f32(
