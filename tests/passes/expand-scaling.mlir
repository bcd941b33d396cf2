// RUN: sm_60 expand-scaling

gpu.module @k {
  gpu.func @f(%v: f4E2M1FN, %s: f8E8M0FNU, %x: f32) kernel {
    %a = arith.scaling_extf %v, %s : f4E2M1FN, f8E8M0FNU to f32
    %b = arith.scaling_truncf %x, %s : f32, f8E8M0FNU to f4E2M1FN
    "test.use"(%a, %b) : (f32, f4E2M1FN) -> ()
    gpu.return
  }
}

// CHECK: %[[S:.*]] = arith.extf %arg1 : f8E8M0FNU to f32
// CHECK: %[[V:.*]] = arith.extf %arg0 : f4E2M1FN to f32
// CHECK: arith.mulf %[[V]], %[[S]] : f32
// CHECK: %[[Q:.*]] = arith.divf %arg2, %{{.*}} : f32
// CHECK: arith.truncf %[[Q]] : f32 to f4E2M1FN
