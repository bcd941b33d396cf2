// RUN: sm_60 round-integers-once

gpu.module @k {
  gpu.func @f(%a: i32, %b: i16, %c: i64) kernel {
    %x = arith.sitofp %a : i32 to bf16
    %y = arith.sitofp %b : i16 to bf16
    %z = arith.uitofp %c : i64 to f32
    "test.use"(%x, %y, %z) : (bf16, bf16, f32) -> ()
    gpu.return
  }
}

// One low bit says whether there were any, so that f32 rounds as bf16 would.
// CHECK: %[[M:.*]] = arith.ori %{{.*}} : i32
// CHECK: %[[S:.*]] = arith.select %{{.*}}, %[[M]] : i32
// CHECK: %[[R:.*]] = arith.select %{{.*}}, %arg0, %[[S]] : i32
// CHECK: arith.sitofp %[[R]] : i32 to bf16
// f32 holds all of these, or the result is no bf16.
// CHECK: arith.sitofp %arg1 : i16 to bf16
// CHECK: arith.uitofp %arg2 : i64 to f32
