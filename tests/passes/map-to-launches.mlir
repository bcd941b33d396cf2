// RUN: linalg map-to-launches
func.func @f(%a: memref<1000xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1000 : index
  scf.parallel (%i) = (%c0) to (%n) step (%c1) {
    %v = memref.load %a[%i] : memref<1000xf32>
    %w = math.exp %v : f32
    memref.store %w, %a[%i] : memref<1000xf32>
  }
  return
}
// CHECK: [[GROUPS:%.*]] = arith.ceildivsi %c1000, %c256
// CHECK: gpu.launch {{.*}} in ({{.*}} = [[GROUPS]], {{.*}} module(@f_kernels)
// CHECK: [[I:%.*]] = arith.addi {{.*}}, %arg4
// CHECK: [[INSIDE:%.*]] = arith.cmpi slt, [[I]], %c1000
// CHECK: scf.if [[INSIDE]]
// CHECK: memref.store {{.*}}, %arg0{{.}}[[I]]{{.}}

// Rows and columns share loads: a work-item computes 4 rows and 2 of the 64 columns.
func.func @product(%a: memref<?x8xf32>, %b: memref<8x64xf32>, %c: memref<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %n = memref.dim %a, %c0 : memref<?x8xf32>
  %zero = arith.constant 0.0 : f32
  scf.parallel (%i, %j) = (%c0, %c0) to (%n, %c64) step (%c1, %c1) {
    %sum = scf.for %k = %c0 to %c8 step %c1 iter_args(%so_far = %zero) -> f32 {
      %p = memref.load %a[%i, %k] : memref<?x8xf32>
      %q = memref.load %b[%k, %j] : memref<8x64xf32>
      %term = arith.mulf %p, %q : f32
      %next = arith.addf %so_far, %term : f32
      scf.yield %next : f32
    }
    memref.store %sum, %c[%i, %j] : memref<?x64xf32>
  }
  return
}
// CHECK-LABEL: func.func @product
// CHECK-DAG: [[TILES:%.*]] = arith.ceildivsi %dim, %c32
// CHECK: gpu.launch
// CHECK: scf.parallel ([[R:%.*]], [[C:%.*]]) = ({{.*}}) to (%c4{{[_0-9]*}}, %c2{{[_0-9]*}})
// CHECK-DAG: arith.muli [[R]], %c8
// CHECK-DAG: arith.muli [[C]], %c32
// CHECK: [[INSIDE:%.*]] = arith.cmpi slt, {{.*}}, %dim
// CHECK: scf.if [[INSIDE]]
// CHECK: scf.reduce

// All work-items of a workgroup are in the only row.
func.func @row(%a: memref<1x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = memref.dim %a, %c1 : memref<1x?xf32>
  scf.parallel (%i, %j) = (%c0, %c0) to (%c1, %n) step (%c1, %c1) {
    %v = memref.load %a[%i, %j] : memref<1x?xf32>
    %w = math.exp %v : f32
    memref.store %w, %a[%i, %j] : memref<1x?xf32>
  }
  return
}
// CHECK-LABEL: func.func @row
// CHECK: gpu.launch {{.*}} threads{{.*}} in ({{%.*}} = %c256{{[_0-9]*}}, {{%.*}} = %c1{{[_0-9]*}}, {{%.*}} = %c1{{[_0-9]*}})
