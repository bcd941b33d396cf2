// Products whose work-items compute tiles: of unknown and odd sizes, with a start, in batches, and a convolution.
func.func @product(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x?xf32>
  %n = tensor.dim %b, %c1 : tensor<?x?xf32>
  %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x?xf32>) -> tensor<?x?xf32>
  %c = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%zeros : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %c : tensor<?x?xf32>
}

func.func @started(%a: tensor<45x?xf32>, %b: tensor<?x130xf32>, %c: tensor<45x130xf32>) -> tensor<45x130xf32>
    attributes {llvm.emit_c_interface} {
  %sum = linalg.matmul ins(%a, %b : tensor<45x?xf32>, tensor<?x130xf32>)
      outs(%c : tensor<45x130xf32>) -> tensor<45x130xf32>
  %double = linalg.add ins(%sum, %sum : tensor<45x130xf32>, tensor<45x130xf32>)
      outs(%c : tensor<45x130xf32>) -> tensor<45x130xf32>
  return %double : tensor<45x130xf32>
}

func.func @batches(%a: tensor<3x?x17xi32>, %b: tensor<3x17x256xi32>) -> tensor<3x?x256xi32>
    attributes {llvm.emit_c_interface} {
  %c1 = arith.constant 1 : index
  %seven = arith.constant 7 : i32
  %m = tensor.dim %a, %c1 : tensor<3x?x17xi32>
  %empty = tensor.empty(%m) : tensor<3x?x256xi32>
  %start = linalg.fill ins(%seven : i32) outs(%empty : tensor<3x?x256xi32>) -> tensor<3x?x256xi32>
  %c = linalg.batch_matmul ins(%a, %b : tensor<3x?x17xi32>, tensor<3x17x256xi32>)
      outs(%start : tensor<3x?x256xi32>) -> tensor<3x?x256xi32>
  return %c : tensor<3x?x256xi32>
}

func.func @convolution(%x: tensor<2x6x40x3xf64>, %w: tensor<3x3x3x64xf64>) -> tensor<2x4x38x64xf64>
    attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0.0 : f64
  %empty = tensor.empty() : tensor<2x4x38x64xf64>
  %zeros = linalg.fill ins(%zero : f64) outs(%empty : tensor<2x4x38x64xf64>) -> tensor<2x4x38x64xf64>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<2x6x40x3xf64>, tensor<3x3x3x64xf64>)
      outs(%zeros : tensor<2x4x38x64xf64>) -> tensor<2x4x38x64xf64>
  return %y : tensor<2x4x38x64xf64>
}
