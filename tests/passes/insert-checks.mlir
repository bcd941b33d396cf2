// RUN: cpu insert-checks --sanitize=bounds,race

gpu.module @k {
  gpu.func @f(%a: memref<?xf32>, %i: index) kernel {
    %x = memref.load %a[%i] : memref<?xf32>
    gpu.barrier
    %v = memref.load %a[%i] {gpubuild.proven = ["bounds", "race"]} : memref<?xf32>
    gpu.return
  }
}

// CHECK: gpu.func @f
// CHECK: [[SIZE:%.+]] = memref.dim %arg0
// CHECK: [[IN:%.+]] = arith.cmpi ult, %arg1, [[SIZE]]
// CHECK: scf.if [[IN]] -> (f32) {
// CHECK: func.call @gpubuild.check_access
// CHECK: [[X:%.+]] = memref.load
// CHECK: scf.yield [[X]]
// CHECK: } else {
// CHECK: func.call @gpubuild.check_bounds
// CHECK: arith.constant 0.0
// CHECK: gpu.barrier
// CHECK-NEXT: func.call @gpubuild.check_meet
// CHECK-NEXT: memref.load
// CHECK-NEXT: gpu.return
