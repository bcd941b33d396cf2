// RUN: sm_60 flush-denormals --fast-math

gpu.module @k {
  llvm.func @f() attributes {passthrough = ["cold"]} {
    llvm.return
  }
}

// CHECK: passthrough = ["cold", ["denormal-fp-math-f32", "preserve-sign"]]
