// RUN: cpu refuse-unsupported

gpu.module @k {
  llvm.func @f(%p: !llvm.ptr) {
    nvvm.cp.async.wait.group 0
    llvm.return
  }
}

// CHECK: error: target cpu cannot compile 'nvvm.cp.async.wait.group': CPU kernels do not support it
// CHECK: error: 'nvvm.cp.async.wait.group' is not supported on CPUs
