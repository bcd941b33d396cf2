// RUN: sm_90 descriptor-parameters-to-pointers
// RUN: cpu descriptor-parameters-to-pointers

gpu.module @k {
  gpu.func @f(%d: !nvgpu.tensormap.descriptor<tensor = memref<32x32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>, %n: i32) kernel {
    nvgpu.tma.prefetch.descriptor %d : !nvgpu.tensormap.descriptor<tensor = memref<32x32xf32, 3>, swizzle = none, l2promo = none, oob = zero, interleave = none>
    gpu.return
  }
}

// CHECK: gpu.func @f(%arg0: !llvm.ptr, %arg1: i32) kernel
// CHECK: %[[D:.*]] = builtin.unrealized_conversion_cast %arg0 : !llvm.ptr to !nvgpu.tensormap.descriptor
// CHECK: nvgpu.tma.prefetch.descriptor %[[D]]
