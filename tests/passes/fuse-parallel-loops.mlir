// Loops over the same elements become one; not where the second reads what another iteration writes.
// RUN: linalg fuse-parallel-loops
func.func @own(%a: memref<8xf32>, %b: memref<8xf32> {bufferize.result}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = memref.alloc() : memref<8xf32>
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %v = memref.load %a[%i] : memref<8xf32>
    %w = math.exp %v : f32
    memref.store %w, %t[%i] : memref<8xf32>
  }
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %v = memref.load %t[%i] : memref<8xf32>
    %w = math.sqrt %v : f32
    memref.store %w, %b[%i] : memref<8xf32>
  }
  memref.dealloc %t : memref<8xf32>
  return
}
func.func @shifted(%a: memref<8xf32>, %b: memref<8xf32> {bufferize.result}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c7 = arith.constant 7 : index
  %t = memref.alloc() : memref<8xf32>
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %v = memref.load %a[%i] : memref<8xf32>
    memref.store %v, %t[%i] : memref<8xf32>
  }
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %k = arith.subi %c7, %i : index
    %v = memref.load %t[%k] : memref<8xf32>
    memref.store %v, %b[%i] : memref<8xf32>
  }
  memref.dealloc %t : memref<8xf32>
  return
}
// What was chosen may be what the first loop changes.
func.func @chosen(%a: memref<8xf32>, %p: i1, %b: memref<8xf32> {bufferize.result}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %t = memref.alloc() : memref<8xf32>
  %one = arith.select %p, %t, %a : memref<8xf32>
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %v = memref.load %a[%i] : memref<8xf32>
    memref.store %v, %t[%i] : memref<8xf32>
  }
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %v = memref.load %one[%i] : memref<8xf32>
    memref.store %v, %b[%i] : memref<8xf32>
  }
  memref.dealloc %t : memref<8xf32>
  return
}
// CHECK-LABEL: @own
// CHECK: scf.parallel
// CHECK: math.exp
// CHECK-NOT: scf.parallel
// CHECK: math.sqrt
// CHECK-LABEL: @shifted
// CHECK: scf.parallel
// CHECK: memref.store
// CHECK: scf.parallel
// CHECK: memref.load
// CHECK-LABEL: @chosen
// CHECK: scf.parallel
// CHECK: memref.store
// CHECK: scf.parallel
// CHECK: memref.load
