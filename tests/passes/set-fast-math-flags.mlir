// RUN: sm_60 set-fast-math-flags --fast-math

gpu.module @k {
  gpu.func @f(%x: f32, %y: f32) kernel {
    %s = arith.addf %x, %y : f32
    %e = math.exp %s fastmath<contract> : f32
    %c = arith.cmpf olt, %e, %x : f32
    %n = arith.fptosi %e : f32 to i32
    gpu.return
  }
}

// CHECK: arith.addf %{{.*}} fastmath<fast> : f32
// CHECK: math.exp %{{.*}} fastmath<fast> : f32
// CHECK: arith.cmpf olt, %{{.*}} fastmath<fast> : f32
// CHECK: arith.fptosi %{{[0-9]+}} : f32 to i32
