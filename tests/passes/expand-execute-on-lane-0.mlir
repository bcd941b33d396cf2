// RUN: sm_60 expand-execute-on-lane-0

gpu.module @k {
  gpu.func @f(%l: index, %m: memref<?xf32>, %i: index, %x: f32) kernel {
    gpu.warp_execute_on_lane_0(%l)[32] {
      memref.store %x, %m[%i] : memref<?xf32>
    }
    gpu.return
  }

  gpu.func @values(%l: index, %x: f32, %v: vector<1x2xi32>) -> (f32, vector<1x1xi32>) {
    %sum, %part = gpu.warp_execute_on_lane_0(%l)[32] args(%x, %v : f32, vector<1x2xi32>)
        -> (f32, vector<1x1xi32>) {
    ^bb0(%own: f32, %whole: vector<4x16xi32>):
      %half = vector.extract_strided_slice %whole {offsets = [0, 0], sizes = [4, 8], strides = [1, 1]}
        : vector<4x16xi32> to vector<4x8xi32>
      gpu.yield %own, %half : f32, vector<4x8xi32>
    }
    gpu.return %sum, %part : f32, vector<1x1xi32>
  }
}

// CHECK: %[[Z:.*]] = arith.constant 0 : index
// CHECK: %[[F:.*]] = arith.cmpi eq, %arg0, %[[Z]] : index
// CHECK: scf.if %[[F]] {
// CHECK: memref.store %arg3, %arg1[%arg2]

// Slices of all lanes, along the last dimension first.
// CHECK-LABEL: gpu.func @values
// CHECK: gpu.shuffle idx
// CHECK: vector.insert_strided_slice {{.*}} {offsets = [0, 0], strides = [1, 1]} : vector<1x2xi32> into vector<4x16xi32>
// CHECK: vector.insert_strided_slice {{.*}} {offsets = [0, 2], strides = [1, 1]}
// CHECK: vector.insert_strided_slice {{.*}} {offsets = [1, 0], strides = [1, 1]}
// CHECK: vector.insert_strided_slice {{.*}} {offsets = [3, 14], strides = [1, 1]}
// CHECK: %[[BOTH:.*]]:2 = scf.if {{.*}} -> (f32, vector<4x8xi32>) {
// CHECK: scf.yield %arg1, %{{.*}} : f32, vector<4x8xi32>
// CHECK: } else {
// CHECK: scf.yield %{{.*}}, %{{.*}} : f32, vector<4x8xi32>
// The first lane's number is read by all; of the vector each keeps its slice.
// CHECK: %[[BITS:.*]] = arith.bitcast %[[BOTH]]#0 : f32 to i32
// CHECK: gpu.shuffle idx %[[BITS]], %{{c0_i32.*}}, %{{c32_i32.*}} : i32
// CHECK: vector.extract_strided_slice %[[BOTH]]#1 {offsets = [3, 7], sizes = [1, 1], strides = [1, 1]}
// CHECK: gpu.shuffle idx
// CHECK: arith.cmpi eq, %arg0, %{{c31.*}} : index
// CHECK: arith.select
