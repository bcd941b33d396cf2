// RUN: cpu expand-masked-lanes --sanitize=bounds

gpu.module @k {
  gpu.func @f(%a: memref<?xf32>, %i: index, %mask: vector<4xi1>, %v: vector<4xf32>) kernel {
    vector.maskedstore %a[%i], %mask, %v : memref<?xf32>, vector<4xi1>, vector<4xf32>
    gpu.return
  }
}

// CHECK: scf.for [[LANE:%.+]] = %c0 to %c4
// CHECK: [[ACTIVE:%.+]] = vector.extract %arg2{{.}}[[LANE]]]
// CHECK: scf.if [[ACTIVE]] {
// CHECK: memref.store
// CHECK-NOT: vector.maskedstore
