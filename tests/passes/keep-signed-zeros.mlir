// RUN: sm_60 keep-signed-zeros

gpu.module @k {
  gpu.func @f(%x: f32, %y: f32) kernel {
    %z = arith.constant 0.0 : f32
    %a = arith.maximumf %x, %y : f32
    %b = arith.maximumf %z, %x : f32
    %c = arith.maximumf %x, %y fastmath<nsz> : f32
    %d = arith.minimumf %x, %z : f32
    "test.use"(%a, %b, %c, %d) : (f32, f32, f32, f32) -> ()
    gpu.return
  }
}

// Equal operands differ in the sign of a zero, if at all: take the bits of both.
// CHECK: %[[BITS:.*]] = arith.andi %{{.*}} : i32
// CHECK: %[[SAME:.*]] = arith.cmpf oeq, %arg0, %arg1 : f32
// CHECK: %[[MAX:.*]] = arith.maximumf %arg0, %arg1 : f32
// CHECK: arith.select %[[SAME]], %{{.*}}, %[[MAX]] : f32
// A constant comes second, where arith-expand takes the second of two equal ones.
// CHECK: arith.maximumf %arg0, %{{.*}} : f32
// CHECK: arith.maximumf %arg0, %arg1 fastmath<nsz> : f32
// CHECK: arith.ori %{{.*}} : i32
// CHECK: arith.minimumf
