// RUN: cpu pass-work-items..lower-barriers

gpu.module @k {
  llvm.func @f(%x: i32, %m: i32) {
    nvvm.barrier0
    %c = llvm.mlir.constant(31 : i32) : i32
    %r = nvvm.shfl.sync bfly %m, %x, %x, %c : i32 -> i32
    llvm.return
  }
  llvm.func @cluster() {
    nvvm.cluster.arrive
    nvvm.cluster.wait
    llvm.return
  }
}

// CHECK-LABEL: llvm.func @f(
// CHECK-SAME: gpubuild.waits = "nvvm.barrier0 at k.mlir:{{[0-9]+}}:5"
// CHECK: llvm.call {{%.+}}(%arg2, {{%.+}}) : !llvm.ptr, (!llvm.ptr, i32) -> ()
// CHECK: [[BOTH:%.+]] = llvm.call {{.*}} -> i64
// CHECK: llvm.trunc [[BOTH]] : i64 to i32
// CHECK: llvm.func @cluster
// CHECK-SAME: gpubuild.cluster_barrier, gpubuild.waits = "nvvm.cluster.wait
// CHECK-NOT: nvvm.cluster.arrive{{$}}
