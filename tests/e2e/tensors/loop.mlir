// Memory that scf.while carries: its host buffer is freed inside the loop.
#id = affine_map<(i) -> (i)>
#rev = affine_map<(i) -> (63 - i)>
func.func @loop(%x: tensor<64xf32>, %n: index) -> tensor<64xf32> attributes {llvm.emit_c_interface} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %r:2 = scf.while (%i = %c0, %t = %x) : (index, tensor<64xf32>) -> (index, tensor<64xf32>) {
    %more = arith.cmpi ult, %i, %n : index
    scf.condition(%more) %i, %t : index, tensor<64xf32>
  } do {
  ^bb0(%i: index, %t: tensor<64xf32>):
    %k = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%t : tensor<64xf32>) {
    ^bb0(%o: f32):
      %q = arith.addf %o, %one : f32
      linalg.yield %q : f32
    } -> tensor<64xf32>
    %e = tensor.empty() : tensor<64xf32>
    %u = linalg.generic {indexing_maps = [#rev, #id], iterator_types = ["parallel"]} ins(%k : tensor<64xf32>) outs(%e : tensor<64xf32>) {
    ^bb0(%o: f32, %p: f32):
      %q = arith.addf %o, %one : f32
      linalg.yield %q : f32
    } -> tensor<64xf32>
    %j = arith.addi %i, %c1 : index
    scf.yield %j, %u : index, tensor<64xf32>
  }
  return %r#1 : tensor<64xf32>
}
