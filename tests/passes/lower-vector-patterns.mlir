// RUN: sm_60 lower-vector-patterns

gpu.module @k {
  gpu.func @f(%v: vector<2x4xf32>, %z: vector<2xf32>) kernel {
    %r = vector.multi_reduction <add>, %v, %z [1] : vector<2x4xf32> to vector<2xf32>
    "test.use"(%r) : (vector<2xf32>) -> ()
    gpu.return
  }
}

// CHECK-COUNT-2: vector.reduction <add>
// CHECK-NOT: vector.multi_reduction
