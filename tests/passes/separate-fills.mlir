// RUN: linalg separate-fills
func.func @f(%a: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x4xf32>) -> tensor<4x4xf32>
  %p = linalg.matmul ins(%a, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  %q = linalg.matmul ins(%p, %a : tensor<4x4xf32>, tensor<4x4xf32>) outs(%z : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %p, %q : tensor<4x4xf32>, tensor<4x4xf32>
}
// CHECK: [[ONE:%.*]] = linalg.fill
// CHECK-NEXT: linalg.matmul {{.*}} outs([[ONE]] :
// CHECK-NEXT: [[OTHER:%.*]] = linalg.fill
// CHECK-NEXT: linalg.matmul {{.*}} outs([[OTHER]] :

// CHECK-LABEL: @memory
// CHECK-NEXT: linalg.fill
func.func @memory(%m: memref<4xf32>, %x: f32) {
  linalg.fill ins(%x : f32) outs(%m : memref<4xf32>)
  return
}
