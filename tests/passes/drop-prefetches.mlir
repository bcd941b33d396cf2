// RUN: spirv drop-prefetches

gpu.module @k {
  gpu.func @f(%x: memref<4xf32>, %i: index) kernel {
    memref.prefetch %x[%i], read, locality<3>, data : memref<4xf32>
    gpu.return
  }
}

// CHECK: gpu.func @f
// CHECK-NEXT: gpu.return
