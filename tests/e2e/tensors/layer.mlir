// A dense layer in TOSA: max(x * w + b, 0) with a sum of each row.
func.func @layer(%x: tensor<1x4x3xf32>) -> (tensor<1x4x2xf32>, tensor<1x4x1xf32>) attributes {llvm.emit_c_interface} {
  %w = "tosa.const"() {values = dense<[[[1.0, -1.0], [2.0, 0.5], [0.25, 3.0]]]> : tensor<1x3x2xf32>} : () -> tensor<1x3x2xf32>
  %b = "tosa.const"() {values = dense<[[[0.5, -2.0]]]> : tensor<1x1x2xf32>} : () -> tensor<1x1x2xf32>
  %z = "tosa.const"() {values = dense<0.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %p = tosa.matmul %x, %w, %z, %z : (tensor<1x4x3xf32>, tensor<1x3x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x2xf32>
  %s = tosa.add %p, %b : (tensor<1x4x2xf32>, tensor<1x1x2xf32>) -> tensor<1x4x2xf32>
  %y = tosa.clamp %s {min_val = 0.0 : f32, max_val = 3.4e38 : f32} : (tensor<1x4x2xf32>) -> tensor<1x4x2xf32>
  %r = tosa.reduce_sum %y {axis = 2 : i32} : (tensor<1x4x2xf32>) -> tensor<1x4x1xf32>
  return %y, %r : tensor<1x4x2xf32>, tensor<1x4x1xf32>
}
