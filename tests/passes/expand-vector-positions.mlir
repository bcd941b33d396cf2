// RUN: sm_60 expand-vector-positions

gpu.module @k {
  gpu.func @f(%v: vector<2x3xf32>, %w: vector<4xf32>, %x: f32, %i: index) kernel {
    %a = vector.extract %v[1, %i] : f32 from vector<2x3xf32>
    %b = vector.insert %x, %v[%i, 2] : f32 into vector<2x3xf32>
    %c = vector.extract %w[%i] : f32 from vector<4xf32>
    "test.use"(%a, %b, %c) : (f32, vector<2x3xf32>, f32) -> ()
    gpu.return
  }
}

// CHECK: vector.extract %arg0[1] : vector<3xf32> from vector<2x3xf32>
// CHECK-COUNT-2: arith.select {{.*}} : f32
// CHECK: vector.insert %{{.*}} [0] : vector<3xf32> into vector<2x3xf32>
// CHECK: vector.insert %{{.*}} [1] : vector<3xf32> into vector<2x3xf32>
// One index of one dimension is upstream's.
// CHECK: vector.extract %arg1[%arg3] : f32 from vector<4xf32>
