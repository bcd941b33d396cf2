// RUN: cpu pass-work-items

gpu.module @k {
  llvm.func @declared(i32)
  llvm.func @f(%x: i32 {gpu.mark, llvm.noundef}, %y: !llvm.struct<(i32, ptr)>) {
    llvm.return
  }
}

// CHECK: llvm.mlir.global external @gpubuild_cpu_image()
// CHECK: llvm.func @declared(i32)
// CHECK: llvm.func @f(%arg0: i32 {llvm.noundef}, %arg1: !llvm.struct<(i32, ptr)>, %arg2: !llvm.ptr)
