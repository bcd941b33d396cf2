// RUN: sm_60 widen-all-reduce
// RUN: gfx90a widen-all-reduce
// RUN: cpu widen-all-reduce

gpu.module @k {
  gpu.func @f(%a: i8, %b: f16, %c: i48) kernel {
    %x = gpu.all_reduce maxsi %a {} : (i8) -> i8
    %y = gpu.all_reduce add %b {} : (f16) -> f16
    %z = gpu.all_reduce and %c {} : (i48) -> i48
    "test.use"(%x, %y, %z) : (i8, f16, i48) -> ()
    gpu.return
  }
}

// CHECK: arith.extsi %arg0 : i8 to i32
// CHECK: gpu.all_reduce {{ *}}maxsi %{{.*}} uniform
// CHECK: arith.trunci %{{.*}} : i32 to i8
// CHECK: arith.extf %arg1 : f16 to f32
// CHECK: arith.extui %arg2 : i48 to i64
