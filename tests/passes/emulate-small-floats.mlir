// RUN: sm_60 emulate-small-floats

gpu.module @k {
  gpu.func @f(%a: f8E4M3FN, %b: f8E4M3FN) kernel {
    %s = arith.addf %a, %b : f8E4M3FN
    "test.use"(%s) : (f8E4M3FN) -> ()
    gpu.return
  }
}

// CHECK-DAG: %[[A:.*]] = arith.extf %arg0 fastmath<contract> : f8E4M3FN to f32
// CHECK-DAG: %[[B:.*]] = arith.extf %arg1 fastmath<contract> : f8E4M3FN to f32
// CHECK: %[[S:.*]] = arith.addf %[[A]], %[[B]] : f32
// CHECK: arith.truncf %[[S]] fastmath<contract> : f32 to f8E4M3FN
