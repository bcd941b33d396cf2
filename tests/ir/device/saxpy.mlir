// RUN: sm_60 mlir
// RUN: sm_60 llvm
// RUN: sm_60 asm
// RUN: sm_90 asm
// RUN: sm_90 asm fast_math=true
// RUN: gfx90a mlir
// RUN: gfx90a llvm
// RUN: gfx90a asm

gpu.module @k {
  gpu.func @saxpy(%a: f32, %x: memref<?xf32>, %y: memref<?xf32>) kernel
      attributes {known_block_size = array<i32: 128, 1, 1>} {
    %i = gpu.global_id x
    %xi = memref.load %x[%i] : memref<?xf32>
    %yi = memref.load %y[%i] : memref<?xf32>
    %m = arith.mulf %a, %xi : f32
    %s = arith.addf %m, %yi : f32
    memref.store %s, %y[%i] : memref<?xf32>
    gpu.return
  }
}

// A kernel's memref becomes pointer, aligned pointer, offset, sizes, strides.
// SM_60-MLIR: llvm.func @saxpy(%{{.*}}: f32, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64,
// SM_60-MLIR-SAME: nvvm.kernel
// SM_60-MLIR: nvvm.read.ptx.sreg.ctaid.x
// SM_60-MLIR-NOT: unrealized_conversion_cast

// SM_60-LLVM: target triple = "nvptx64-nvidia-cuda"
// SM_60-LLVM: define ptx_kernel void @saxpy(
// SM_60-LLVM-NOT: fadd fast

// SM_60-ASM: .version 7.8
// SM_60-ASM: .target sm_60
// SM_60-ASM: .visible .entry saxpy(
// SM_60-ASM: .maxntid 128
// Without fast_math a product is rounded before it is added.
// SM_60-ASM: mul.rn.f32
// SM_60-ASM: add.rn.f32

// SM_90-ASM: .version 7.8
// SM_90-ASM: .target sm_90

// SM_90-ASM-FAST: fma.rn.ftz.f32

// GFX90A-MLIR: llvm.func @saxpy(
// GFX90A-MLIR-SAME: rocdl.kernel
// GFX90A-MLIR: rocdl.workgroup.id.x

// GFX90A-LLVM: target triple = "amdgcn-amd-amdhsa"
// GFX90A-LLVM: define amdgpu_kernel void @saxpy(
// GFX90A-LLVM: !"amdhsa_code_object_version", i32 600

// GFX90A-ASM: .amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
// GFX90A-ASM: v_mul_f32
// GFX90A-ASM: v_add_f32
// GFX90A-ASM: .max_flat_workgroup_size: 128
