// RUN: spirv integers-to-bf16

gpu.module @k {
  gpu.func @f(%a: i32, %b: vector<4xi8>) kernel {
    %x = arith.sitofp %a : i32 to bf16
    %y = arith.uitofp %b : vector<4xi8> to vector<4xbf16>
    %z = arith.uitofp %a : i32 to f16
    "test.use"(%x, %y, %z) : (bf16, vector<4xbf16>, f16) -> ()
    gpu.return
  }
}

// CHECK: %[[X:.*]] = arith.sitofp %arg0 : i32 to f32
// CHECK: arith.truncf %[[X]] : f32 to bf16
// CHECK: %[[Y:.*]] = arith.uitofp %arg1 : vector<4xi8> to vector<4xf32>
// CHECK: arith.truncf %[[Y]] : vector<4xf32> to vector<4xbf16>
// CHECK: arith.uitofp %arg0 : i32 to f16
