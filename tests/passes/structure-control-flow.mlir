// RUN: cpu structure-control-flow

gpu.module @k {
  gpu.func @f.workgroup(%n: index) kernel attributes {gpubuild.workgroup_of = "f"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.index_switch %n
    case 3 {
      gpu.barrier
      scf.yield
    }
    default {
      scf.yield
    }
    scf.parallel (%i, %j) = (%c0, %c0) to (%n, %n) step (%c1, %c1) {
      gpu.barrier
      scf.reduce
    }
    // Without a barrier inside, it is left.
    scf.parallel (%i) = (%c0) to (%n) step (%c1) {
      scf.reduce
    }
    gpu.return
  }
}

// CHECK: [[IS:%.+]] = arith.cmpi eq, %arg0, %c3
// CHECK: scf.if [[IS]] {
// CHECK-NEXT: gpu.barrier
// CHECK: scf.for
// CHECK-NEXT: scf.for
// CHECK-NEXT: gpu.barrier
// CHECK: scf.parallel
// CHECK-NEXT: scf.reduce
