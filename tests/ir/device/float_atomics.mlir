// RUN: sm_60 llvm
// RUN: gfx90a llvm

gpu.module @k {
  gpu.func @f(%x: f32, %i: index, %m: memref<?xf32>) kernel {
    %old = memref.generic_atomic_rmw %m[%i] : memref<?xf32> {
    ^bb0(%current: f32):
      %new = arith.mulf %current, %x : f32
      memref.atomic_yield %new : f32
    }
    gpu.return
  }
}

// SM_60-LLVM: bitcast i32 %{{.*}} to float
// SM_60-LLVM: fmul float
// SM_60-LLVM: cmpxchg ptr {{.*}} i32

// GFX90A-LLVM: fmul float
// GFX90A-LLVM: cmpxchg ptr {{.*}} i32
