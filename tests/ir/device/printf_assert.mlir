// RUN: sm_60 llvm

gpu.module @k {
  gpu.func @f(%n: i32) kernel {
    %zero = arith.constant 0 : i32
    %good = arith.cmpi sgt, %n, %zero : i32
    cf.assert %good, "n must be positive"
    gpu.printf "n = %d\n", %n : i32
    gpu.return
  }
}

// SM_60-LLVM: c"n = %d\0A\00"
// SM_60-LLVM: call void @__assertfail(
// SM_60-LLVM: call i32 @vprintf(
