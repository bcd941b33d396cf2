// RUN: cpu relax-workgroup-atomics

// One thread runs all work-items of a workgroup; global memory stays atomic.
gpu.module @k {
  llvm.func @f(%s: !llvm.ptr<3>, %g: !llvm.ptr<1>, %x: i32) {
    %a = llvm.atomicrmw add %s, %x monotonic : !llvm.ptr<3>, i32
    %b = llvm.atomicrmw add %g, %x monotonic : !llvm.ptr<1>, i32
    %c = llvm.cmpxchg %s, %x, %a acq_rel monotonic : !llvm.ptr<3>, i32
    llvm.return
  }
}

// CHECK: [[OLD:%.+]] = llvm.load %arg0
// CHECK-NEXT: [[NEW:%.+]] = llvm.add [[OLD]], %arg2
// CHECK-NEXT: llvm.store [[NEW]], %arg0
// CHECK-NEXT: llvm.atomicrmw add %arg1
// CHECK-NEXT: [[NOW:%.+]] = llvm.load %arg0
// CHECK-NEXT: [[SAME:%.+]] = llvm.icmp "eq" [[NOW]], %arg2
// CHECK-NEXT: [[KEPT:%.+]] = llvm.select [[SAME]], [[OLD]], [[NOW]]
// CHECK-NEXT: llvm.store [[KEPT]], %arg0
