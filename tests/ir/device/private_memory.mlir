// RUN: gfx90a llvm opt_level=0
// RUN: sm_60 llvm opt_level=0

gpu.module @k {
  gpu.func @f(%x: f32, %i: index, %m: memref<?xf32>) kernel {
    %p = memref.alloca() : memref<8xf32>
    memref.store %x, %p[%i] : memref<8xf32>
    %v = memref.load %p[%i] : memref<8xf32>
    memref.store %v, %m[%i] : memref<?xf32>
    gpu.return
  }
}

// GFX90A-LLVM: [[P:%.*]] = alloca float, i64 8, align 4, addrspace(5)
// GFX90A-LLVM: addrspacecast ptr addrspace(5) [[P]] to ptr

// SM_60-LLVM: alloca float, i64 8, align 4
// SM_60-LLVM-NOT: addrspace(5)
