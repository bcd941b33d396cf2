// RUN: gfx90a expand-sincos

gpu.module @k {
  gpu.func @f(%x: f64) kernel {
    %s, %c = math.sincos %x fastmath<contract> : f64
    "test.use"(%s, %c) : (f64, f64) -> ()
    gpu.return
  }
}

// CHECK: %[[S:.*]] = math.sin %arg0 fastmath<contract> : f64
// CHECK: %[[C:.*]] = math.cos %arg0 fastmath<contract> : f64
// CHECK: "test.use"(%[[S]], %[[C]])
