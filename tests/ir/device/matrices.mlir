// RUN: sm_60 llvm
// RUN: sm_60 asm
// RUN: gfx90a llvm
// RUN: gfx90a asm
// RUN: gfx1100 llvm
// RUN: gfx1100 asm

!a = !gpu.mma_matrix<16x16xf32, "AOp">
!b = !gpu.mma_matrix<16x16xf32, "BOp">
!c = !gpu.mma_matrix<16x16xf32, "COp">
gpu.module @k {
  // In place: each lane has stored before others load again, and loaded before others store.
  gpu.func @squares(%m: memref<16x16xf32>, %n: index) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant 0.0 : f32
    scf.for %i = %c0 to %n step %c1 {
      %A = gpu.subgroup_mma_load_matrix %m[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf32> -> !a
      %B = gpu.subgroup_mma_load_matrix %m[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf32> -> !b
      %C = gpu.subgroup_mma_constant_matrix %z : !c
      %D = gpu.subgroup_mma_compute %A, %B, %C : !a, !b -> !c
      gpu.subgroup_mma_store_matrix %D, %m[%c0, %c0] {leadDimension = 16 : index} : !c, memref<16x16xf32>
    }
    gpu.return
  }
}

// 32 lanes hold 1x8 each, 64 hold 1x4. No access may pass the point where lanes wait.
// SM_60-LLVM: call void @llvm.nvvm.bar.warp.sync(i32 -1)
// SM_60-LLVM-NOT: store
// SM_60-LLVM: load <8 x float>
// SM_60-LLVM-NOT: store
// SM_60-LLVM: call void @llvm.nvvm.bar.warp.sync(i32 -1)
// SM_60-LLVM-NOT: = load
// SM_60-LLVM: store <8 x float>
// SM_60-ASM: bar.warp.sync
// SM_60-ASM: fma.rn.f32
// SM_60-ASM: bar.warp.sync
// SM_60-ASM: st.{{(global|b32|f32)}}

// GFX90A-LLVM: fence syncscope("wavefront") release
// GFX90A-LLVM-NEXT: call void @llvm.amdgcn.wave.barrier()
// GFX90A-LLVM-NEXT: fence syncscope("wavefront") acquire
// GFX90A-LLVM-NOT: store
// GFX90A-LLVM: load <4 x float>
// GFX90A-LLVM-NOT: store
// GFX90A-LLVM: fence syncscope("wavefront") release
// GFX90A-LLVM-NEXT: call void @llvm.amdgcn.wave.barrier()
// GFX90A-LLVM-NEXT: fence syncscope("wavefront") acquire
// GFX90A-LLVM-NOT: = load
// GFX90A-LLVM: store <4 x float>
// GFX90A-ASM: global_load_dwordx4
// GFX90A-ASM: fma
// GFX90A-ASM: global_store_dwordx4
// GFX90A-ASM-NOT: global_load

// GFX1100-LLVM: fence syncscope("wavefront") release
// GFX1100-LLVM: load <8 x float>
// GFX1100-LLVM: fence syncscope("wavefront") release
// GFX1100-LLVM: store <8 x float>
// GFX1100-ASM: global_load_b128
// GFX1100-ASM: fma
// GFX1100-ASM: global_store_b128
