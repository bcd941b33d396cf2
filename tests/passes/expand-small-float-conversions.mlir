// RUN: sm_60 expand-small-float-conversions

gpu.module @k {
  gpu.func @f(%a: f8E5M2, %x: f64, %h: f16) kernel {
    %b = arith.extf %a : f8E5M2 to f32
    %c = arith.truncf %x : f64 to f6E2M3FN
    %d = arith.extf %h : f16 to f32
    "test.use"(%b, %c, %d) : (f32, f6E2M3FN, f32) -> ()
    gpu.return
  }
}

// CHECK: %[[BYTE:.*]] = arith.bitcast %arg0 : f8E5M2 to i8
// CHECK: arith.extui %[[BYTE]] : i8 to i32
// CHECK: arith.bitcast %{{.*}} : i32 to f32
// From f64 by way of an f32 that is rounded to odd, so that it is rounded once.
// CHECK: arith.truncf %arg1 : f64 to f32
// CHECK: math.absf
// CHECK: %[[BITS:.*]] = arith.trunci %{{.*}} : i32 to i6
// CHECK: arith.bitcast %[[BITS]] : i6 to f6E2M3FN
// CHECK: arith.extf %arg2 : f16 to f32
