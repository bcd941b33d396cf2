// A tensor that a loop carries is written back to where it was: it stays in one buffer.
// RUN: linalg keep-carried-tensors
func.func @f(%a: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %a) -> tensor<4xf32> {
    %e = tensor.empty() : tensor<4xf32>
    %y = linalg.exp ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  %same = scf.for %i = %c0 to %n step %c1 iter_args(%x = %r) -> tensor<4xf32> {
    scf.yield %x : tensor<4xf32>
  }
  return %same : tensor<4xf32>
}
// CHECK: scf.for {{.*}} iter_args([[X:%.*]] = %arg0)
// CHECK: [[Y:%.*]] = linalg.exp
// CHECK: [[Z:%.*]] = bufferization.materialize_in_destination [[Y]] in [[X]]
// CHECK: scf.yield [[Z]]
// CHECK: scf.for {{.*}} iter_args([[SAME:%.*]] = 
// CHECK-NEXT: scf.yield [[SAME]]
