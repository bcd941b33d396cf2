// RUN: sm_60 expand-math

gpu.module @k {
  gpu.func @f(%x: f32, %n: i32) kernel {
    %a = math.clampf %x to [%x, %x] : f32
    %b = math.isnormal %x : f32
    %c = math.ipowi %n, %n : i32
    "test.use"(%a, %b, %c) : (f32, i1, i32) -> ()
    gpu.return
  }
}

// CHECK: %[[A:.*]] = arith.maximumf %arg0, %arg0 : f32
// CHECK: arith.minimumf %[[A]], %arg0 : f32
// The exponent of a normal number is neither the first nor the last.
// CHECK: arith.constant 2139095040 : i32
// CHECK: arith.cmpi ult
// By squaring, a bit of the exponent at a time.
// CHECK: %[[N:.*]] = arith.constant 32 : index
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[N]]
// CHECK-NOT: math.
