// RUN: linalg separate-results
func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  return %a, %b, %a : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}
// CHECK: [[COPY:%.*]] = bufferization.alloc_tensor() copy(%arg0)
// CHECK: return %arg0, %arg1, [[COPY]]
