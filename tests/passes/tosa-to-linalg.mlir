// Control flow of TOSA becomes that of scf, with linalg in it.
// RUN: tosa tosa-to-linalg
func.func @flow(%a: tensor<4xi32>, %i: tensor<i32>) -> tensor<4xi32> {
  %r:2 = tosa.while_loop (%x = %i, %y = %a) : (tensor<i32>, tensor<4xi32>) -> (tensor<i32>, tensor<4xi32>) {
    %n = "tosa.const"() {values = dense<5> : tensor<i32>} : () -> tensor<i32>
    %more = tosa.greater %n, %x : (tensor<i32>, tensor<i32>) -> tensor<i1>
    tosa.yield %more : tensor<i1>
  } do {
  ^bb0(%x: tensor<i32>, %y: tensor<4xi32>):
    %p = tosa.add %x, %x : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %q = tosa.add %y, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
    tosa.yield %p, %q : tensor<i32>, tensor<4xi32>
  }
  return %r#1 : tensor<4xi32>
}
// CHECK: scf.while
// CHECK: linalg.generic
// CHECK-NOT: tosa.
