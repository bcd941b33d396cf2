// RUN: gfx90a expand-isinf

gpu.module @k {
  gpu.func @f(%x: f32, %y: vector<2xf16>) kernel {
    %a = math.isinf %x : f32
    %b = math.isinf %y : vector<2xf16>
    "test.use"(%a, %b) : (i1, vector<2xi1>) -> ()
    gpu.return
  }
}

// CHECK: %[[X:.*]] = arith.bitcast %arg0 : f32 to i32
// CHECK: %[[M:.*]] = arith.andi %[[X]], %{{.*}} : i32
// CHECK: %[[I:.*]] = arith.constant 2139095040 : i32
// CHECK: arith.cmpi eq, %[[M]], %[[I]] : i32
// CHECK: arith.cmpi eq, %{{.*}} : vector<2xi16>
