// Operations of arith and math on tensors become linalg; a choice of a whole tensor stays.
// RUN: linalg elementwise-to-linalg
func.func @f(%a: tensor<?xf32>, %b: tensor<?xf32>, %first: i1) -> tensor<?xf32> {
  %c = arith.select %first, %a, %b : tensor<?xf32>
  %d = arith.addf %c, %c : tensor<?xf32>
  return %d : tensor<?xf32>
}
// CHECK: [[C:%.*]] = arith.select %arg2, %arg0, %arg1 : tensor<?xf32>
// CHECK: linalg.generic {{.*}} ins([[C]], [[C]]
// CHECK: arith.addf {{.*}} : f32
