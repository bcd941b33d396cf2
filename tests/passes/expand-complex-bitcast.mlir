// RUN: sm_60 expand-complex-bitcast

gpu.module @k {
  gpu.func @f(%c: complex<f32>, %n: i64) kernel {
    %a = complex.bitcast %c : complex<f32> to i64
    %b = complex.bitcast %n : i64 to complex<f32>
    "test.use"(%a, %b) : (i64, complex<f32>) -> ()
    gpu.return
  }
}

// The real part is the lower half.
// CHECK: complex.re %arg0
// CHECK: complex.im %arg0
// CHECK: arith.shli
// CHECK: arith.ori
// CHECK: arith.shrui %arg1
// CHECK: %[[R:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK: %[[I:.*]] = arith.bitcast %{{.*}} : i32 to f32
// CHECK: complex.create %[[R]], %[[I]]
