// RUN: sm_60 linalg-on-bools-to-loops

gpu.module @k {
  gpu.func @f(%a: memref<8xi1>, %b: memref<8xi1>, %x: memref<8xf32>, %y: memref<8xf32>) kernel {
    linalg.copy ins(%a : memref<8xi1>) outs(%b : memref<8xi1>)
    linalg.copy ins(%x : memref<8xf32>) outs(%y : memref<8xf32>)
    gpu.return
  }
}

// CHECK: scf.for
// CHECK: memref.load %{{.*}} : memref<8xi1>
// CHECK: memref.store %{{.*}} : memref<8xi1>
// CHECK: scf.for
// CHECK-NOT: linalg
