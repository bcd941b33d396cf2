// Elementwise operations become generic, so that they can be fused; products keep their names.
// RUN: linalg generalize-elementwise
func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>, %o: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %p = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x4xf32>) outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = linalg.exp ins(%p : tensor<4x4xf32>) outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %e : tensor<4x4xf32>
}
// CHECK: [[P:%.*]] = linalg.matmul
// CHECK: linalg.generic
// CHECK: math.exp
// CHECK-NOT: linalg.exp
