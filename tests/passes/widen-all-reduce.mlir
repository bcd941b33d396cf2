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

// SM_60: arith.extsi %arg0 : i8 to i32
// SM_60: gpu.all_reduce {{ *}}maxsi %{{.*}} uniform
// SM_60: arith.trunci %{{.*}} : i32 to i8
// SM_60: arith.extf %arg1 : f16 to f32
// SM_60: arith.extui %arg2 : i48 to i64
// GFX90A: arith.extsi %arg0 : i8 to i32
// GFX90A: gpu.all_reduce {{ *}}maxsi %{{.*}} uniform
// GFX90A: arith.trunci %{{.*}} : i32 to i8
// GFX90A: arith.extf %arg1 : f16 to f32
// GFX90A: arith.extui %arg2 : i48 to i64
// CPU: arith.extsi %arg0 : i8 to i32
// CPU: gpu.all_reduce {{ *}}maxsi %{{.*}} uniform
// CPU: arith.trunci %{{.*}} : i32 to i8
// CPU: arith.extf %arg1 : f16 to f32
// CPU: arith.extui %arg2 : i48 to i64
