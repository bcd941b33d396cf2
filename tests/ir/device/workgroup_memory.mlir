// RUN: sm_60 llvm
// RUN: sm_60 asm
// RUN: gfx90a llvm
// RUN: gfx90a asm

gpu.module @k {
  gpu.func @reverse(%m: memref<64xf32>)
      workgroup(%tile: memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %i = gpu.thread_id x
    %last = arith.constant 63 : index
    %j = arith.subi %last, %i : index
    %v = memref.load %m[%i] : memref<64xf32>
    memref.store %v, %tile[%i] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %w = memref.load %tile[%j] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %w, %m[%i] : memref<64xf32>
    gpu.return
  }
}

// SM_60-LLVM: addrspace(3) global [64 x float]
// SM_60-ASM: .shared .align 4 .b8 {{.*}}[256]
// SM_60-ASM: st.shared.{{f|b}}32
// SM_60-ASM: bar{{(rier)?}}.sync
// SM_60-ASM: ld.shared.{{f|b}}32

// GFX90A-LLVM: addrspace(3) global [64 x float]
// GFX90A-ASM: ds_write_b32
// GFX90A-ASM: s_barrier
// GFX90A-ASM: ds_read_b32
// GFX90A-ASM: .group_segment_fixed_size: 256
