// RUN: sm_60 expand-vector-type-casts

gpu.module @k {
  gpu.func @f(%m: memref<4x3xf32>, %r: memref<4x3xf32>) kernel {
    %v = vector.type_cast %m : memref<4x3xf32> to memref<vector<4x3xf32>>
    %x = memref.load %v[] : memref<vector<4x3xf32>>
    %w = vector.type_cast %r : memref<4x3xf32> to memref<vector<4x3xf32>>
    memref.store %x, %w[] : memref<vector<4x3xf32>>
    gpu.return
  }
}

// CHECK-NOT: vector.type_cast
// CHECK: %[[V:.*]] = vector.load %arg0[%{{.*}}, %{{.*}}] : memref<4x3xf32>, vector<4x3xf32>
// CHECK: vector.store %[[V]], %arg1[%{{.*}}, %{{.*}}] : memref<4x3xf32>, vector<4x3xf32>
