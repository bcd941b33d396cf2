// RUN: sm_60 split-vector-accesses

gpu.module @k {
  gpu.func @f(%m: memref<?x8x4xf32>, %i: index) kernel {
    %v = vector.load %m[%i, %i, %i] {nontemporal = true, alignment = 16 : i64} : memref<?x8x4xf32>, vector<2x2x4xf32>
    vector.store %v, %m[%i, %i, %i] : memref<?x8x4xf32>, vector<2x2x4xf32>
    %w = vector.load %m[%i, %i, %i] : memref<?x8x4xf32>, vector<4xf32>
    "test.use"(%w) : (vector<4xf32>) -> ()
    gpu.return
  }
}

// What is known of the alignment holds for the first row only.
// CHECK: ub.poison : vector<2x2x4xf32>
// CHECK-COUNT-4: vector.load {{.*}} {nontemporal = true} : memref<?x8x4xf32>, vector<4xf32>
// CHECK-COUNT-4: vector.store {{.*}} : memref<?x8x4xf32>, vector<4xf32>
// CHECK: vector.load %arg0[%arg1, %arg1, %arg1] : memref<?x8x4xf32>, vector<4xf32>
