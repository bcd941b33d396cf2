// RUN: cpu relax-float-operations --fast-math

gpu.module @k {
  llvm.func @f(%x: f32) -> f32 {
    %y = llvm.fmul %x, %x : f32
    %z = llvm.intr.sqrt(%y) : (f32) -> f32
    llvm.return %z : f32
  }
}

// CHECK: llvm.fmul {{.*}} {fastmathFlags = #llvm.fastmath<nsz, arcp, contract, afn, reassoc>}
// CHECK: llvm.intr.sqrt{{.*}} {fastmathFlags = #llvm.fastmath<nsz, arcp, contract, afn, reassoc>}
