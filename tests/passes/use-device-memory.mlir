// Memory that only kernels use is on the device; arguments are copied there, and results back.
// RUN: linalg use-device-memory
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @double(%x: memref<8xf32>, %y: memref<8xf32>) kernel {
      %t = gpu.thread_id x
      %base, %first, %size, %stride = memref.extract_strided_metadata %x
          : memref<8xf32> -> memref<f32>, index, index, index
      %i = arith.addi %first, %t : index
      %v = memref.load %x[%i] : memref<8xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %y[%i] : memref<8xf32>
      gpu.return
    }
  }
  func.func @f(%a: memref<8xf32>, %b: memref<8xf32> {bufferize.result}) {
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %t = memref.alloc() : memref<8xf32>
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%a : memref<8xf32>, %t : memref<8xf32>)
    gpu.launch_func @k::@double blocks in (%c1, %c1, %c1) threads in (%c8, %c1, %c1)
        args(%t : memref<8xf32>, %b : memref<8xf32>)
    memref.dealloc %t : memref<8xf32>
    return
  }
}
// CHECK-LABEL: func.func @f
// CHECK: [[B:%.*]] = gpu.alloc
// CHECK: [[A:%.*]] = gpu.alloc
// CHECK: [[T:%.*]] = gpu.alloc
// CHECK: gpu.memcpy{{ +}}[[A]], %arg0 : {{.*}} {gpubuild.mirror}
// CHECK: gpu.launch_func{{ +}}@k::@double {{.*}} args([[A]] : {{.*}}, [[T]] :
// CHECK-NEXT: gpu.launch_func{{ +}}@k::@double {{.*}} args([[T]] : {{.*}}, [[B]] :
// CHECK-NOT: gpu.memcpy{{ +}}{{.*}}[[T]]
// CHECK-NOT: gpu.memcpy{{ +}}%arg0
// CHECK: gpu.memcpy{{ +}}%arg1, [[B]]
// CHECK-NOT: gpu.memcpy{{ +}}%arg0
