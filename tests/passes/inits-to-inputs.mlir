// What an operation changes is read from an input, if another operation may be fused with it: the user has
// more dimensions, so that its iterations would change one element several times.
// RUN: linalg inits-to-inputs
#all = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
#id = affine_map<(i) -> (i)>
func.func @f(%a: tensor<?xi8>, %b: tensor<9x?xi8>) -> (tensor<9x?xi8>, tensor<?xi8>) {
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<?xi8>) outs(%a : tensor<?xi8>) {
  ^bb0(%in: i8, %out: i8):
    %product = arith.muli %in, %out : i8
    linalg.yield %product : i8
  } -> tensor<?xi8>
  %y = linalg.generic {indexing_maps = [#column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?xi8>) outs(%b : tensor<9x?xi8>) {
  ^bb0(%in: i8, %out: i8):
    %sum = arith.addi %in, %out : i8
    linalg.yield %sum : i8
  } -> tensor<9x?xi8>
  return %y, %x : tensor<9x?xi8>, tensor<?xi8>
}
// CHECK: [[EMPTY:%.*]] = tensor.empty(%{{.*}}) : tensor<?xi8>
// CHECK: [[X:%.*]] = linalg.generic {{.*}} ins(%arg0, %arg0 : tensor<?xi8>, tensor<?xi8>) outs([[EMPTY]] :
// CHECK-NEXT: ^bb0([[IN:%.*]]: i8, [[WAS:%.*]]: i8, %{{.*}}: i8):
// CHECK-NEXT: arith.muli [[IN]], [[WAS]]
// Nothing is fused with what is returned.
// CHECK: linalg.generic {{.*}} ins([[X]] : tensor<?xi8>) outs(%arg1 : tensor<9x?xi8>)
