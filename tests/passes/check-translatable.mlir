// RUN: cpu check-translatable

gpu.module @k {
  llvm.func @f(%x: vector<4xf32>) attributes {gpu.kernel} {
    %y = math.exp %x : vector<4xf32>
    llvm.return
  }
}

// CHECK: error: target cpu cannot lower math.exp
// CHECK: error: 'math.exp' op was not lowered
