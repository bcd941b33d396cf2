// RUN: cpu allocate-private-attributions

gpu.module @k {
  gpu.func @f.workgroup(%x: f32) workgroup(%s: memref<4xf32, #gpu.address_space<workgroup>>)
      private(%p: memref<4xf32, #gpu.address_space<private>>) kernel
      attributes {gpubuild.workgroup_of = "f"} {
    %c0 = arith.constant 0 : index
    memref.store %x, %p[%c0] : memref<4xf32, #gpu.address_space<private>>
    memref.store %x, %s[%c0] : memref<4xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
}

// CHECK: gpu.func @f.workgroup({{[^)]*}}) workgroup({{[^)]*}}) kernel
// CHECK-NEXT: [[P:%.+]] = memref.alloca() : memref<4xf32, #gpu.address_space<private>>
// CHECK: memref.store {{.*}}, [[P]]
