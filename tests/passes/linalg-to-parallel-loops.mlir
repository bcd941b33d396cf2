// Operations become parallel loops; those whose operands have equal extents get the same bounds.
// RUN: linalg linalg-to-parallel-loops
#id = affine_map<(i) -> (i)>
func.func @f(%a: memref<?xf32>, %b: memref<?xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : memref<?xf32>) outs(%b : memref<?xf32>) {
  ^bb0(%x: f32, %y: f32):
    %e = math.exp %x : f32
    linalg.yield %e : f32
  }
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%b : memref<?xf32>) outs(%a : memref<?xf32>) {
  ^bb0(%x: f32, %y: f32):
    %e = math.sqrt %x : f32
    linalg.yield %e : f32
  }
  return
}
// CHECK-LABEL: func.func @f(%arg0: memref<?xf32>
// CHECK: [[N:%.*]] = memref.dim %arg0,
// CHECK: scf.parallel (%arg2) = (%c0) to ([[N]])
// CHECK: memref.load %arg0[%arg2]
// CHECK: math.exp
// CHECK: memref.store {{.*}}, %arg1[%arg2]
// CHECK: [[M:%.*]] = memref.dim %arg0,
// CHECK: scf.parallel (%arg2) = (%c0) to ([[M]])
// CHECK: math.sqrt

// An operation that may not run says nothing about the extents of others.
func.func @under_condition(%a: memref<?xf32>, %b: memref<?xf32>, %c: i1) {
  scf.if %c {
    linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
        ins(%a : memref<?xf32>) outs(%b : memref<?xf32>) {
    ^bb0(%x: f32, %y: f32):
      linalg.yield %x : f32
    }
  }
  linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%b : memref<?xf32>) {
  ^bb0(%y: f32):
    %e = math.sqrt %y : f32
    linalg.yield %e : f32
  }
  return
}
// CHECK-LABEL: func.func @under_condition
// CHECK: memref.dim %arg1,
// CHECK: math.sqrt
