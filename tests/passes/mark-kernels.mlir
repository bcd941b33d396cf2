// RUN: sm_60 mark-kernels
// RUN: gfx90a mark-kernels

gpu.module @k {
  llvm.func @f() attributes {gpu.kernel} {
    llvm.return
  }
  llvm.func @g() {
    llvm.return
  }
}

// SM_60: llvm.func @f() attributes {gpu.kernel, nvvm.kernel}
// SM_60: llvm.func @g() {
// GFX90A: llvm.func @f() attributes {gpu.kernel, rocdl.kernel}
// GFX90A: llvm.func @g() {
