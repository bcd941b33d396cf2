// RUN: spirv record-added-parameters

gpu.module @k {
  llvm.func @f(%p: !llvm.ptr<1>, %memory: !llvm.ptr<3>) attributes {gpu.kernel, gpubuild.added = 1 : i32} {
    llvm.return
  }
}

// CHECK: llvm.func @f(%arg0: !llvm.ptr<1>, %arg1: !llvm.ptr<3>) attributes {gpu.kernel} {
