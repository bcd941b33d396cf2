// RUN: sm_60 expand-matrices
// RUN: sm_90 expand-matrices
// RUN: gfx90a expand-matrices
// RUN: cpu expand-matrices

gpu.module @k {
  gpu.func @f(%m: memref<16x16xf16>, %r: memref<16x16xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %c0 = arith.constant 0 : index
    %z = arith.constant 0.0 : f32
    %A = gpu.subgroup_mma_load_matrix %m[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
    %B = gpu.subgroup_mma_load_matrix %m[%c0, %c0] {leadDimension = 16 : index} : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
    %C = gpu.subgroup_mma_constant_matrix %z : !gpu.mma_matrix<16x16xf32, "COp">
    %D = gpu.subgroup_mma_compute %A, %B, %C : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp"> -> !gpu.mma_matrix<16x16xf32, "COp">
    gpu.subgroup_mma_store_matrix %D, %r[%c0, %c0] {leadDimension = 16 : index} : !gpu.mma_matrix<16x16xf32, "COp">, memref<16x16xf32>
    gpu.return
  }
}

// 32 lanes hold 1x8 elements of the result each, 64 hold 1x4. No lane reads what another still writes.
// SM_60-NOT: = gpu.subgroup_mma
// SM_60: vector.load {{.*}} : memref<{{.*}}xf16{{.*}}>, vector<16xf16>
// SM_60: vector.load {{.*}}, vector<8xf16>
// SM_60: arith.mulf {{.*}} fastmath<contract> : vector<8xf32>
// SM_60: arith.addf {{.*}} fastmath<contract> : vector<8xf32>
// SM_60: vector.store {{.*}}, vector<8xf32>

// With units for the shapes and types, nothing is to be done.
// SM_90-COUNT-2: gpu.subgroup_mma_load_matrix
// SM_90: gpu.subgroup_mma_compute
// SM_90: gpu.subgroup_mma_store_matrix

// GFX90A: vector.load {{.*}}, vector<4xf16>
// GFX90A: arith.mulf {{.*}} : vector<4xf32>
// GFX90A: vector.store {{.*}}, vector<4xf32>

// CPU: arith.mulf {{.*}} : vector<8xf32>
// CPU-NOT: = gpu.subgroup_mma
