// RUN: sm_60 widen-contract-factors

gpu.module @k {
  gpu.func @f(%a: vector<2x4xf16>, %b: vector<4x3xf16>, %c: vector<2x3xf32>) kernel {
    %r = vector.contract {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %c : vector<2x4xf16>, vector<4x3xf16> into vector<2x3xf32>
    "test.use"(%r) : (vector<2x3xf32>) -> ()
    gpu.return
  }
}

// CHECK: %[[A:.*]] = arith.extf %arg0 : vector<2x4xf16> to vector<2x4xf32>
// CHECK: %[[B:.*]] = arith.extf %arg1 : vector<4x3xf16> to vector<4x3xf32>
// CHECK: vector.contract {{.*}} %[[A]], %[[B]], %arg2
