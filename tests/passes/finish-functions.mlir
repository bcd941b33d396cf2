// RUN: cpu finish-functions

gpu.module @k {
  llvm.func internal @f(%p: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel, gpubuild.streaming,
      gpubuild.waits = "gpu.barrier", nvvm.reqntid = array<i32: 8, 4>} {
    llvm.return
  }
  llvm.func internal @g(%p: !llvm.ptr) {
    llvm.return
  }
}

// CHECK: llvm.func @f(%arg0: !llvm.ptr) attributes {passthrough = {{\[\[}}"prefer-vector-width", "256"]
// CHECK-NOT: gpubuild.
// CHECK: llvm.func @g(%arg0: !llvm.ptr)
// CHECK-NOT: prefer-vector-width
