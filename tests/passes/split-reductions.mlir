// A reduction to one number, or of few long rows, becomes partial ones in a parallel loop, and a short one.
// RUN: linalg split-reductions
#v = affine_map<(i) -> (i)>
#m = affine_map<(i, j) -> (i, j)>
#r = affine_map<(i, j) -> (i)>
#s = affine_map<(i) -> ()>
#z = affine_map<(i, j) -> ()>

func.func @squares(%n: index, %sum: memref<f32>) {
  %x = memref.alloc(%n) : memref<?xf32>
  linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
      ins(%x : memref<?xf32>) outs(%sum : memref<f32>) {
  ^bb0(%a: f32, %so_far: f32):
    %p = arith.mulf %a, %a : f32
    %t = arith.addf %so_far, %p : f32
    linalg.yield %t : f32
  }
  return
}
// CHECK-LABEL: func.func @squares
// CHECK: [[X:%.*]] = memref.alloc(%arg0) : memref<?xf32>
// CHECK: [[N:%.*]] = memref.dim [[X]]
// CHECK: [[ROWS:%.*]] = arith.divsi [[N]], %c32
// CHECK: [[GROUPS:%.*]] = arith.maxsi
// CHECK: [[HEIGHT:%.*]] = arith.divsi [[ROWS]], [[GROUPS]] :
// CHECK: [[PARTIAL:%.*]] = memref.alloc({{.*}}) : memref<?xf32>
// CHECK: scf.parallel ([[GROUP:%.*]], [[COLUMN:%.*]]) =
// CHECK: arith.constant -0.000000e+00 : f32
// CHECK: scf.for {{.*}} to [[HEIGHT]] step {{.*}} -> (f32)
// CHECK: memref.load [[X]]
// CHECK: arith.mulf
// CHECK: arith.addf
// CHECK: arith.cmpi slt, {{.*}}, [[N]]
// CHECK: scf.if
// CHECK: memref.store {{.*}}, [[PARTIAL]]
// CHECK: scf.reduce
// CHECK: memref.load %arg1[]
// CHECK: scf.for
// CHECK: memref.load [[PARTIAL]]
// CHECK-NOT: arith.mulf
// CHECK: arith.addf
// CHECK: memref.store {{.*}}, %arg1[]
// CHECK: memref.dealloc [[PARTIAL]]

func.func @wraps(%n: index, %sum: memref<i32>) {
  %x = memref.alloc(%n) : memref<?xi32>
  linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
      ins(%x : memref<?xi32>) outs(%sum : memref<i32>) {
  ^bb0(%a: i32, %so_far: i32):
    %p = arith.muli %a, %a overflow<nsw> : i32
    %t = arith.addi %so_far, %p overflow<nsw> : i32
    linalg.yield %t : i32
  }
  return
}
// In another order a sum may overflow; a product of two elements is the same.
// CHECK-LABEL: func.func @wraps
// CHECK: arith.muli %{{.*}}, %{{.*}} overflow<nsw> : i32
// CHECK-NEXT: arith.addi %{{.*}}, %{{.*}} : i32

func.func @rows(%most: memref<3xi32>) {
  %x = memref.alloc() : memref<3x5000xi32>
  linalg.generic {indexing_maps = [#m, #r], iterator_types = ["parallel", "reduction"]}
      ins(%x : memref<3x5000xi32>) outs(%most : memref<3xi32>) {
  ^bb0(%a: i32, %so_far: i32):
    %t = arith.maxsi %a, %so_far : i32
    linalg.yield %t : i32
  }
  return
}
// CHECK-LABEL: func.func @rows
// CHECK: memref.alloc({{.*}}) : memref<3x?xi32>
// CHECK: scf.parallel ({{.*}}, {{.*}}, {{.*}}) =
// CHECK: arith.constant -2147483648 : i32
// CHECK: scf.parallel ({{%[^,]*}}) =
// CHECK: arith.maxsi

// Contiguous dimensions are one, without a division of each index. Flags that exclude the neutral number go.
func.func @all(%n: index, %least: memref<f32>) {
  %x = memref.alloc(%n) : memref<?x7xf32>
  linalg.generic {indexing_maps = [#m, #z], iterator_types = ["reduction", "reduction"]}
      ins(%x : memref<?x7xf32>) outs(%least : memref<f32>) {
  ^bb0(%a: f32, %so_far: f32):
    %t = arith.minimumf %a, %so_far fastmath<ninf> : f32
    linalg.yield %t : f32
  }
  return
}
// CHECK-LABEL: func.func @all
// CHECK: memref.reinterpret_cast {{.*}} to offset: [0], sizes: [{{%.*}}], strides: [1] : memref<?x7xf32> to memref<?xf32>
// CHECK: arith.constant 0x7F800000 : f32
// CHECK: arith.minimumf {{%[^ ]*}}, {{%[^ ]*}} : f32

// Short rows, and a function that is not known.
func.func @others(%x: memref<?xf32>, %y: memref<8x100xf32>, %sum: memref<f32>, %sums: memref<8xf32>) {
  linalg.generic {indexing_maps = [#m, #r], iterator_types = ["parallel", "reduction"]}
      ins(%y : memref<8x100xf32>) outs(%sums : memref<8xf32>) {
  ^bb0(%a: f32, %so_far: f32):
    %t = arith.addf %a, %so_far : f32
    linalg.yield %t : f32
  }
  %c = arith.constant 0 : index
  %n = memref.dim %x, %c : memref<?xf32>
  %z = memref.alloc(%n) : memref<?xf32>
  linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
      ins(%z : memref<?xf32>) outs(%sum : memref<f32>) {
  ^bb0(%a: f32, %so_far: f32):
    %t = arith.subf %so_far, %a : f32
    linalg.yield %t : f32
  }
  return
}
// CHECK-LABEL: func.func @others
// CHECK-NOT: scf.parallel
// CHECK-COUNT-2: linalg.generic

// Iterations of a parallel loop are work-items already.
func.func @inside(%n: index, %sums: memref<?xf32>) {
  %x = memref.alloc(%n) : memref<?xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %sum = memref.subview %sums[%i] [1] [1] : memref<?xf32> to memref<f32, strided<[], offset: ?>>
    linalg.generic {indexing_maps = [#v, #s], iterator_types = ["reduction"]}
        ins(%x : memref<?xf32>) outs(%sum : memref<f32, strided<[], offset: ?>>) {
    ^bb0(%a: f32, %so_far: f32):
      %t = arith.addf %a, %so_far : f32
      linalg.yield %t : f32
    }
  }
  return
}
// CHECK-LABEL: func.func @inside
// CHECK: scf.parallel
// CHECK-NEXT: memref.subview
// CHECK-NEXT: linalg.generic
// CHECK-NOT: scf.parallel
