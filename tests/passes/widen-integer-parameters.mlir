// RUN: sm_60 widen-integer-parameters

gpu.module @k {
  gpu.func @f(%a: i24, %b: i1, %c: i32, %d: i48) kernel {
    "test.use"(%a, %b, %c, %d) : (i24, i1, i32, i48) -> ()
    gpu.return
  }
}

// CHECK: gpu.func @f(%arg0: i32, %arg1: i1, %arg2: i32, %arg3: i64) kernel
// CHECK: %[[A:.*]] = arith.trunci %arg0 : i32 to i24
// CHECK: %[[D:.*]] = arith.trunci %arg3 : i64 to i48
// CHECK: "test.use"(%[[A]], %arg1, %arg2, %[[D]])
