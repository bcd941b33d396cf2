// What an operation changes is read from an input, if another operation may be fused with it: the user has
// more dimensions, so that its iterations would change one element several times.
// RUN: linalg inits-to-inputs
#all = affine_map<(i, j) -> (i, j)>
#column = affine_map<(i, j) -> (j)>
#id = affine_map<(i) -> (i)>
func.func @f(%a: tensor<?xi8>, %b: tensor<9x?xi8>, %m: index, %n: index) -> (tensor<9x?xi8>, tensor<?xi8>) {
  %x = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<?xi8>) outs(%a : tensor<?xi8>) {
  ^bb0(%in: i8, %out: i8):
    %product = arith.muli %in, %out : i8
    linalg.yield %product : i8
  } -> tensor<?xi8>
  %shaped = tensor.expand_shape %x [[0, 1]] output_shape [%m, %n] : tensor<?xi8> into tensor<?x?xi8>
  %flat = tensor.collapse_shape %shaped [[0, 1]] : tensor<?x?xi8> into tensor<?xi8>
  %y = linalg.generic {indexing_maps = [#column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%flat : tensor<?xi8>) outs(%b : tensor<9x?xi8>) {
  ^bb0(%in: i8, %out: i8):
    %sum = arith.addi %in, %out : i8
    linalg.yield %sum : i8
  } -> tensor<9x?xi8>
  return %y, %x : tensor<9x?xi8>, tensor<?xi8>
}
// CHECK: [[EMPTY:%.*]] = tensor.empty(%{{.*}}) : tensor<?xi8>
// CHECK: linalg.generic {{.*}} ins(%arg0, %arg0 : tensor<?xi8>, tensor<?xi8>) outs([[EMPTY]] :
// CHECK-NEXT: ^bb0([[IN:%.*]]: i8, [[WAS:%.*]]: i8, %{{.*}}: i8):
// CHECK-NEXT: arith.muli [[IN]], [[WAS]]
// Nothing is fused with what is returned.
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<?xi8>) outs(%arg1 : tensor<9x?xi8>)
