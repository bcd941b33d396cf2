// RUN: cpu version-aliases

gpu.module @k {
  gpu.func @copy(%a: memref<?xf32>, %b: memref<16x?xf32, strided<[?, 1], offset: 4>>, %i: index) kernel {
    %x = memref.load %a[%i] : memref<?xf32>
    memref.store %x, %b[%i, %i] : memref<16x?xf32, strided<[?, 1], offset: 4>>
    gpu.return
  }
  gpu.func @fill(%a: memref<?xf32>, %x: f32, %i: index) kernel {
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }
  // A tile stored to at [y, x] makes a workgroup of its shape likely.
  gpu.func @tile(%a: memref<?xf32>) workgroup(%s: memref<8x32xf32, #gpu.address_space<workgroup>>) kernel {
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %x = memref.load %a[%tx] : memref<?xf32>
    memref.store %x, %s[%ty, %tx] : memref<8x32xf32, #gpu.address_space<workgroup>>
    gpu.return
  }
  gpu.func @unknown(%a: memref<?xf32>, %b: memref<?xf32>, %i: index) kernel {
    %c = memref.reinterpret_cast %a to offset: [0], sizes: [4], strides: [1] : memref<?xf32> to memref<4xf32>
    %x = memref.load %c[%i] : memref<4xf32>
    memref.store %x, %b[%i] : memref<?xf32>
    gpu.return
  }
}

// CHECK: gpu.func @copy
// CHECK-SAME: gpubuild.alias_versions = "{'count': 13,
// CHECK-SAME: 'first': 0, {{.*}}'written': False
// CHECK-SAME: 'first': 5, {{.*}}'written': True, {{.*}}'offset': 4, 'sizes': (16, None), 'strides': (None, 1)
// CHECK-SAME: 'block': None}"
// CHECK: gpu.func @fill({{.*}}) kernel {
// CHECK: gpu.func @tile{{.*}}gpubuild.alias_versions = {{.*}}'block': (32, 8, 1)}"
// CHECK: gpu.func @unknown({{.*}}) kernel {
