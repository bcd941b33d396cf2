// RUN: cpu divergent-loops-to-while

gpu.module @k {
  gpu.func @f.workgroup(%n: index) kernel attributes {gpubuild.workgroup_of = "f"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %t step %c1 {
      gpu.barrier
    }
    scf.for %i = %c0 to %n step %c1 {
      gpu.barrier
    }
    gpu.return
  }
}

// CHECK: [[T:%.+]] = gpu.thread_id x
// CHECK: scf.while
// CHECK: arith.cmpi slt, {{.*}}, [[T]]
// CHECK: gpu.barrier
// CHECK: scf.for {{.*}} to %arg0
// CHECK-NEXT: gpu.barrier
