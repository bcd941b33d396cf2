// RUN: cpu read-special-registers

gpu.module @k {
  llvm.func @f(%item: !llvm.ptr) {
    %x = nvvm.read.ptx.sreg.tid.x : i32
    %y = nvvm.read.ptx.sreg.ctaid.y : i32
    %lane = nvvm.read.ptx.sreg.laneid : i32
    %c = nvvm.read.ptx.sreg.clusterid.x : i32
    llvm.return
  }
}

// CHECK: llvm.load %arg0 : !llvm.ptr -> i32
// CHECK-NEXT: [[Y:%.+]] = llvm.getelementptr %arg0[28]
// CHECK-NEXT: llvm.load [[Y]] : !llvm.ptr -> i32
// CHECK: [[LINEAR:%.+]] = llvm.load
// CHECK: llvm.and [[LINEAR]]
// CHECK: llvm.udiv
// CHECK-NOT: nvvm.
