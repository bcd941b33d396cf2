// (a * b) * (c * d): the first two products depend on nothing but arguments.
func.func @product(%a: tensor<?x5xf32>, %b: tensor<5x6xf32>, %c: tensor<6x7xf32>, %d: tensor<7x3xf32>)
    -> (tensor<?x3xf32>, tensor<6x3xf32>) attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %a, %c0 : tensor<?x5xf32>
  %e1 = tensor.empty(%rows) : tensor<?x6xf32>
  %e2 = tensor.empty() : tensor<6x3xf32>
  %e3 = tensor.empty(%rows) : tensor<?x3xf32>
  %z1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<?x6xf32>) -> tensor<?x6xf32>
  %z2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<6x3xf32>) -> tensor<6x3xf32>
  %z3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<?x3xf32>) -> tensor<?x3xf32>
  %left = linalg.matmul ins(%a, %b : tensor<?x5xf32>, tensor<5x6xf32>) outs(%z1 : tensor<?x6xf32>) -> tensor<?x6xf32>
  %right = linalg.matmul ins(%c, %d : tensor<6x7xf32>, tensor<7x3xf32>) outs(%z2 : tensor<6x3xf32>) -> tensor<6x3xf32>
  %all = linalg.matmul ins(%left, %right : tensor<?x6xf32>, tensor<6x3xf32>) outs(%z3 : tensor<?x3xf32>)
      -> tensor<?x3xf32>
  return %all, %right : tensor<?x3xf32>, tensor<6x3xf32>
}
