// The loops of a reduction are the innermost ones, in their order: others would launch kernels again and again.
// RUN: linalg move-reductions-inside
func.func @f(%x: memref<2x3x5x7xf32>, %y: memref<7x3xf32>) {
  linalg.generic {
    indexing_maps = [affine_map<(a, b, c, d) -> (a, b, c, d)>, affine_map<(a, b, c, d) -> (d, b)>],
    iterator_types = ["reduction", "parallel", "reduction", "parallel"]
  } ins(%x : memref<2x3x5x7xf32>) outs(%y : memref<7x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = linalg.index 0 : index
    %b = linalg.index 1 : index
    %sum = arith.addi %a, %b : index
    %i = arith.index_cast %sum : index to i32
    %g = arith.sitofp %i : i32 to f32
    %p = arith.mulf %in, %g : f32
    %s = arith.addf %p, %out : f32
    linalg.yield %s : f32
  }
  return
}
// CHECK: affine_map<(d0, d1, d2, d3) -> (d2, d0, d3, d1)>
// CHECK-SAME: affine_map<(d0, d1, d2, d3) -> (d1, d0)>
// CHECK-SAME: iterator_types = ["parallel", "parallel", "reduction", "reduction"]
// CHECK: linalg.index 2
// CHECK: linalg.index 0
