#v = affine_map<(i) -> (i)>
#s = affine_map<(i) -> ()>
#m = affine_map<(i, j) -> (i, j)>
#c = affine_map<(i, j) -> (j)>
#z = affine_map<(i, j) -> ()>

// Twice x, which kernels make, and what it is reduced to: sum, sum of products with x, extrema.
func.func @numbers(%x: tensor<?xf32>)
    -> (tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) attributes {llvm.emit_c_interface} {
  %two = arith.constant 2.0 : f32
  %start = arith.constant 5.0 : f32
  %low = arith.constant -3.0e+38 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?xf32>
  %ey = tensor.empty(%n) : tensor<?xf32>
  %y = linalg.generic {indexing_maps = [#v, #v], iterator_types = ["parallel"]} ins(%x : tensor<?xf32>) outs(%ey : tensor<?xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = arith.mulf %a, %two : f32
    linalg.yield %p : f32
  } -> tensor<?xf32>
  %e = tensor.empty() : tensor<f32>
  %five = linalg.fill ins(%start : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %sum = linalg.reduce ins(%y : tensor<?xf32>) outs(%five : tensor<f32>) dimensions = [0]
    (%a: f32, %b: f32) { %q = arith.addf %a, %b : f32 linalg.yield %q : f32 }
  %dot = linalg.dot ins(%x, %y : tensor<?xf32>, tensor<?xf32>) outs(%five : tensor<f32>) -> tensor<f32>
  %lowest = linalg.fill ins(%low : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %max = linalg.reduce ins(%y : tensor<?xf32>) outs(%lowest : tensor<f32>) dimensions = [0]
    (%a: f32, %b: f32) { %q = arith.maximumf %a, %b fastmath<nnan, ninf> : f32 linalg.yield %q : f32 }
  %min = linalg.reduce ins(%y : tensor<?xf32>) outs(%five : tensor<f32>) dimensions = [0]
    (%a: f32, %b: f32) { %q = arith.minnumf %a, %b : f32 linalg.yield %q : f32 }
  return %y, %sum, %dot, %max, %min : tensor<?xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// Integers of all rows and columns, by each operation.
func.func @whole(%x: tensor<?x?xi32>)
    -> (tensor<?x?xi32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %three = arith.constant 3 : i32
  %rows = tensor.dim %x, %c0 : tensor<?x?xi32>
  %columns = tensor.dim %x, %c1 : tensor<?x?xi32>
  %ey = tensor.empty(%rows, %columns) : tensor<?x?xi32>
  %y = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xi32>) outs(%ey : tensor<?x?xi32>) {
  ^bb0(%a: i32, %o: i32):
    %p = arith.addi %a, %three : i32
    linalg.yield %p : i32
  } -> tensor<?x?xi32>
  %e = tensor.empty() : tensor<i32>
  %init = linalg.fill ins(%three : i32) outs(%e : tensor<i32>) -> tensor<i32>
  %sum = linalg.reduce ins(%y : tensor<?x?xi32>) outs(%init : tensor<i32>) dimensions = [0, 1]
    (%a: i32, %b: i32) { %q = arith.addi %a, %b : i32 linalg.yield %q : i32 }
  %product = linalg.reduce ins(%y : tensor<?x?xi32>) outs(%init : tensor<i32>) dimensions = [0, 1]
    (%a: i32, %b: i32) { %q = arith.muli %a, %b : i32 linalg.yield %q : i32 }
  %min = linalg.reduce ins(%y : tensor<?x?xi32>) outs(%init : tensor<i32>) dimensions = [0, 1]
    (%a: i32, %b: i32) { %q = arith.minsi %a, %b : i32 linalg.yield %q : i32 }
  %high = linalg.reduce ins(%y : tensor<?x?xi32>) outs(%init : tensor<i32>) dimensions = [0, 1]
    (%a: i32, %b: i32) { %q = arith.maxui %a, %b : i32 linalg.yield %q : i32 }
  %bits = linalg.reduce ins(%y : tensor<?x?xi32>) outs(%init : tensor<i32>) dimensions = [0, 1]
    (%a: i32, %b: i32) { %q = arith.xori %a, %b : i32 linalg.yield %q : i32 }
  return %y, %sum, %product, %min, %high, %bits
    : tensor<?x?xi32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>
}

// Few long rows: weighted sums, and softmax.
func.func @rows(%x: tensor<3x5001xf64>, %w: tensor<5001xf64>) -> (tensor<3xf64>, tensor<3x5001xf64>) attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<3xf64>
  %zeros = linalg.fill ins(%zero : f64) outs(%e : tensor<3xf64>) -> tensor<3xf64>
  %sums = linalg.matvec ins(%x, %w : tensor<3x5001xf64>, tensor<5001xf64>) outs(%zeros : tensor<3xf64>) -> tensor<3xf64>
  %es = tensor.empty() : tensor<3x5001xf64>
  %soft = linalg.softmax dimension(1) ins(%x : tensor<3x5001xf64>) outs(%es : tensor<3x5001xf64>) -> tensor<3x5001xf64>
  return %sums, %soft : tensor<3xf64>, tensor<3x5001xf64>
}
