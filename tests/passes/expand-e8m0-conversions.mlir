// RUN: sm_60 expand-e8m0-conversions

gpu.module @k {
  gpu.func @f(%s: f8E8M0FNU, %x: f32, %h: f16) kernel {
    %a = arith.extf %s : f8E8M0FNU to f32
    %b = arith.truncf %x : f32 to f8E8M0FNU
    %c = arith.extf %h : f16 to f32
    "test.use"(%a, %b, %c) : (f32, f8E8M0FNU, f32) -> ()
    gpu.return
  }
}

// The smallest scale is 2 to the -127th: a subnormal f32.
// CHECK: %[[E:.*]] = arith.shli
// CHECK: arith.constant 4194304 : i32
// CHECK: arith.select %{{.*}}, %[[E]] : i32
// Halves go up, and the sign goes.
// CHECK: arith.constant 2147483647 : i32
// CHECK: %[[B:.*]] = arith.trunci %{{.*}} : i32 to i8
// CHECK: arith.bitcast %[[B]] : i8 to f8E8M0FNU
// CHECK: arith.extf %arg2 : f16 to f32
