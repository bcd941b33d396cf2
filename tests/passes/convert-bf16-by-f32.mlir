// RUN: spirv convert-bf16-by-f32

gpu.module @k {
  gpu.func @f(%a: i32, %b: vector<4xi8>, %c: f64, %d: bf16) kernel {
    %x = arith.sitofp %a : i32 to bf16
    %y = arith.uitofp %b : vector<4xi8> to vector<4xbf16>
    %z = arith.uitofp %a : i32 to f16
    %u = arith.truncf %c : f64 to bf16
    %v = arith.extf %d : bf16 to f64
    %w = arith.extf %d : bf16 to f32
    "test.use"(%x, %y, %z, %u, %v, %w) : (bf16, vector<4xbf16>, f16, bf16, f64, f32) -> ()
    gpu.return
  }
}

// CHECK: %[[X:.*]] = arith.sitofp %arg0 : i32 to f32
// CHECK: arith.truncf %[[X]] : f32 to bf16
// CHECK: %[[Y:.*]] = arith.uitofp %arg1 : vector<4xi8> to vector<4xf32>
// CHECK: arith.truncf %[[Y]] : vector<4xf32> to vector<4xbf16>
// CHECK: arith.uitofp %arg0 : i32 to f16
// Rounded twice, a number between two of bf16 could become another one: an inexact f32 is odd.
// CHECK: %[[N:.*]] = arith.truncf %arg2 : f64 to f32
// CHECK: arith.cmpf ogt
// CHECK: arith.cmpf one
// CHECK: %[[O:.*]] = arith.ori
// CHECK: %[[S:.*]] = arith.select %{{.*}}, %[[O]]
// CHECK: %[[F:.*]] = arith.bitcast %[[S]] : i32 to f32
// CHECK: arith.truncf %[[F]] : f32 to bf16
// CHECK: %[[W:.*]] = arith.extf %arg3 : bf16 to f32
// CHECK: arith.extf %[[W]] : f32 to f64
// CHECK: arith.extf %arg3 : bf16 to f32
