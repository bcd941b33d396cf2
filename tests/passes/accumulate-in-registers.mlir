// A sum that a loop keeps in memory is kept in a value, and stored once.
// RUN: linalg accumulate-in-registers
func.func @f(%a: memref<8x16xf32>, %s: memref<8xf32> {bufferize.result}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    scf.for %k = %c0 to %c16 step %c1 {
      %v = memref.load %a[%i, %k] : memref<8x16xf32>
      %o = memref.load %s[%i] : memref<8xf32>
      %n = arith.addf %o, %v : f32
      memref.store %n, %s[%i] : memref<8xf32>
    }
  }
  return
}
// CHECK: [[FIRST:%.*]] = memref.load %arg1[%arg2]
// CHECK: [[SUM:%.*]] = scf.for {{.*}} iter_args([[OLD:%.*]] = [[FIRST]])
// CHECK: [[NEW:%.*]] = arith.addf [[OLD]],
// CHECK-NEXT: scf.yield [[NEW]]
// CHECK: memref.store [[SUM]], %arg1[%arg2]
