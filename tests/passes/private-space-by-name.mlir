// RUN: sm_80 private-space-by-name

gpu.module @k {
  func.func private @sum(memref<2xf32, 5>) -> f32
  gpu.func @f(%x: f32) workgroup(%w: memref<32xf32, 3>) private(%p: memref<2xf32, 5>) kernel {
    %c = arith.constant 0 : index
    memref.store %x, %p[%c] : memref<2xf32, 5>
    %v = memref.subview %p[1] [1] [1] : memref<2xf32, 5> to memref<1xf32, strided<[1], offset: 1>, 5>
    memref.store %x, %v[%c] : memref<1xf32, strided<[1], offset: 1>, 5>
    %s = func.call @sum(%p) : (memref<2xf32, 5>) -> f32
    "test.use"(%s) : (f32) -> ()
    gpu.return
  }
}

// CHECK: func.func private @sum(memref<2xf32, #gpu.address_space<private>>) -> f32
// CHECK: workgroup(%{{.*}} : memref<32xf32, 3>) private(%[[P:[a-z0-9]+]] : memref<2xf32, #gpu.address_space<private>>)
// CHECK: memref.subview %[[P]]{{.*}} to memref<1xf32, strided<[1], offset: 1>, #gpu.address_space<private>>
// CHECK-NOT: memref<{{.*}}, 5>
