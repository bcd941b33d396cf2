// RUN: cpu expand-vector-type-casts..fission

gpu.module @k {
  gpu.func @parallel(%a: memref<?xi32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.parallel (%i, %j) = (%c0, %c0) to (%n, %n) step (%c1, %c1) {
      gpu.barrier
      scf.reduce
    }
    gpu.return
  }

  gpu.func @branches(%a: memref<?xi32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    cf.br ^head(%c0 : index)
  ^head(%i: index):
    %more = arith.cmpi slt, %i, %n : index
    cf.cond_br %more, ^body, ^end
  ^body:
    gpu.barrier
    %next = arith.addi %i, %c1 : index
    cf.br ^head(%next : index)
  ^end:
    gpu.return
  }
}

// What is the same for all needs neither context arrays nor tests.
// CHECK-LABEL: gpu.func @parallel.workgroup
// CHECK: scf.for
// CHECK-NEXT: scf.for
// CHECK-NOT: scf.parallel
// CHECK: gpu.return

// CHECK-LABEL: gpu.func @branches.workgroup
// CHECK: scf.for
// CHECK-NOT: cf.br
// CHECK-NOT: gpubuild.diverged
// CHECK: gpu.return
