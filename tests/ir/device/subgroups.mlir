// RUN: sm_60 mlir
// RUN: sm_60 asm
// RUN: gfx90a asm
// RUN: gfx1100 asm

gpu.module @k {
  gpu.func @sum(%x: f32, %m: memref<?xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %s = gpu.subgroup_reduce add %x : (f32) -> f32
    %g = gpu.subgroup_id : index
    memref.store %s, %m[%g] : memref<?xf32>
    gpu.return
  }
}

// SM_60-MLIR-COUNT-5: nvvm.shfl.sync
// SM_60-MLIR-NOT: nvvm.shfl.sync

// SM_60-ASM: shfl.sync.bfly.b32 {{.*}}, 1, 31, -1;
// SM_60-ASM: shfl.sync.bfly.b32 {{.*}}, 16, 31, -1;

// 64 work-items in a subgroup take one more step than 32.
// GFX90A-ASM-COUNT-5: ds_swizzle_b32
// GFX90A-ASM: ds_bpermute_b32
// GFX1100-ASM-COUNT-5: ds_bpermute_b32
// GFX1100-ASM-NOT: ds_bpermute_b32
