// RUN: sm_90 workgroup-allocations-to-globals

gpu.module @k {
  gpu.func @f(%n: index, %x: f32) kernel {
    %c0 = arith.constant 0 : index
    %a = memref.alloc() {alignment = 64 : i64} : memref<4x8xf32, #gpu.address_space<workgroup>>
    memref.store %x, %a[%c0, %c0] : memref<4x8xf32, #gpu.address_space<workgroup>>
    memref.dealloc %a : memref<4x8xf32, #gpu.address_space<workgroup>>
    %b = memref.alloc() : memref<4xi8, 3>
    %c = memref.alloc(%n) : memref<?xf32, #gpu.address_space<workgroup>>
    %d = memref.alloc() : memref<4xf32>
    memref.dealloc %d : memref<4xf32>
    gpu.return
  }
}

// CHECK: memref.global "private" @gpubuild.workgroup.0 : memref<4x8xf32, #gpu.address_space<workgroup>> = uninitialized {alignment = 64 : i64}
// CHECK-NEXT: memref.global "private" @gpubuild.workgroup.1 : memref<4xi8, 3> = uninitialized
// CHECK: [[A:%.+]] = memref.get_global @gpubuild.workgroup.0
// CHECK-NEXT: memref.store %arg1, [[A]]
// CHECK-NEXT: memref.get_global @gpubuild.workgroup.1 : memref<4xi8, 3>
// CHECK-NEXT: memref.alloc(%arg0) : memref<?xf32, #gpu.address_space<workgroup>>
// CHECK-NEXT: [[D:%.+]] = memref.alloc() : memref<4xf32>
// CHECK-NEXT: memref.dealloc [[D]]
