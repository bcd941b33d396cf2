// RUN: sm_60 expand-matrices
// RUN: sm_90 expand-matrices
// RUN: gfx900 expand-matrices
// RUN: gfx90a expand-matrices
// RUN: gfx1100 expand-matrices
// RUN: cpu expand-matrices

!a = !gpu.mma_matrix<16x16xf16, "AOp">
!b = !gpu.mma_matrix<16x16xf16, "BOp">
!c = !gpu.mma_matrix<16x16xf16, "COp">
gpu.module @k {
  // In place: each lane has stored before others load again, and loaded before others store.
  gpu.func @squares(%m: memref<16x16xf16>, %n: index) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %z = arith.constant 0.0 : f16
    scf.for %i = %c0 to %n step %c1 {
      %A = gpu.subgroup_mma_load_matrix %m[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf16> -> !a
      %B = gpu.subgroup_mma_load_matrix %m[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf16> -> !b
      %C = gpu.subgroup_mma_constant_matrix %z : !c
      %D = gpu.subgroup_mma_compute %A, %B, %C : !a, !b -> !c
      gpu.subgroup_mma_store_matrix %D, %m[%c0, %c0] {leadDimension = 16 : index} : !c, memref<16x16xf16>
    }
    gpu.return
  }
}

// 32 lanes hold 1x8 elements of the result each, 64 hold 1x4. No access may pass the point where lanes
// wait. Sums are in f32.
// SM_60: scf.for
// SM_60: nvvm.bar.warp.sync
// SM_60-NOT: vector.store
// SM_60: vector.load {{.*}}, vector<16xf16>
// SM_60: vector.load {{.*}}, vector<8xf16>
// SM_60: arith.mulf {{.*}} fastmath<contract> : vector<8xf32>
// SM_60: arith.addf {{.*}} fastmath<contract> : vector<8xf32>
// SM_60: arith.truncf {{.*}} : vector<1x8xf32> to vector<1x8xf16>
// SM_60: nvvm.bar.warp.sync
// SM_60-NOT: vector.load
// SM_60: vector.store {{.*}}, vector<8xf16>
// SM_60-NOT: = gpu.subgroup_mma

// With units for the shapes and types, nothing is to be done.
// SM_90-COUNT-2: gpu.subgroup_mma_load_matrix
// SM_90: gpu.subgroup_mma_compute
// SM_90: gpu.subgroup_mma_store_matrix

// Lanes of AMD GPUs go in step: only the compiler must not move accesses.
// GFX900: llvm.fence syncscope("wavefront") release
// GFX900-NEXT: llvm.call_intrinsic "llvm.amdgcn.wave.barrier"()
// GFX900-NEXT: llvm.fence syncscope("wavefront") acquire
// GFX900-NOT: vector.store
// GFX900: vector.load {{.*}}, vector<4xf16>
// GFX900: arith.mulf {{.*}} : vector<4xf32>
// GFX900: llvm.fence syncscope("wavefront") release
// GFX900: llvm.fence syncscope("wavefront") acquire
// GFX900-NOT: vector.load
// GFX900: vector.store {{.*}}, vector<4xf16>

// MFMA: lane l has four elements of row l % 16 of A and of the result. The instruction computes the
// transposed product, so its first factor is B.
// GFX90A: scf.for
// GFX90A: llvm.call_intrinsic "llvm.amdgcn.wave.barrier"()
// GFX90A: [[A:%.*]] = vector.load {{.*}}, vector<4xf16>
// GFX90A: vector.insert [[A]], {{.*}} [0] : vector<4xf16> into vector<1x4xf16>
// GFX90A-COUNT-4: vector.load {{.*}}, vector<1xf16>
// GFX90A: arith.extf {{.*}} : vector<1x4xf16> to vector<1x4xf32>
// GFX90A: [[LEFT:%.*]] = vector.extract {{.*}}[0] : vector<4xf16> from vector<1x4xf16>
// GFX90A: [[RIGHT:%.*]] = vector.extract {{.*}}[0] : vector<4xf16> from vector<1x4xf16>
// GFX90A: amdgpu.mfma 16x16x16 [[RIGHT]] * [[LEFT]] + {{.*}} : vector<4xf16>, vector<4xf16>, vector<4xf32>
// GFX90A: arith.truncf {{.*}} : vector<1x4xf32> to vector<1x4xf16>
// GFX90A: llvm.call_intrinsic "llvm.amdgcn.wave.barrier"()
// GFX90A: vector.store {{.*}}, vector<4xf16>

// WMMA: both halves of a subgroup have all columns of A, and each half has eight columns of the result.
// GFX1100: vector.load {{.*}}, vector<16xf16>
// GFX1100-COUNT-16: vector.load {{.*}}, vector<1xf16>
// GFX1100: amdgpu.wmma 16x16x16 {{.*}} : vector<16xf16>, vector<16xf16>, vector<8xf32>
// GFX1100: vector.store {{.*}}, vector<8xf16>

// CPU: nvvm.bar.warp.sync {{.*}} {gpubuild.for = "gpu.subgroup_mma_load_matrix"}
// CPU: arith.mulf {{.*}} : vector<8xf32>
// CPU: nvvm.bar.warp.sync {{.*}} {gpubuild.for = "gpu.subgroup_mma_store_matrix"}
