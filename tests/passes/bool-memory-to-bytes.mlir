// RUN: sm_60 bool-memory-to-bytes

gpu.module @k {
  gpu.func @f(%m: memref<2x?xi1, strided<[?, 1], offset: ?>, 1>, %i: index, %x: memref<?xf32>) kernel {
    %c = arith.constant 0 : index
    %v = memref.load %m[%c, %i] : memref<2x?xi1, strided<[?, 1], offset: ?>, 1>
    memref.store %v, %m[%c, %c] : memref<2x?xi1, strided<[?, 1], offset: ?>, 1>
    %w = vector.load %m[%c, %i] : memref<2x?xi1, strided<[?, 1], offset: ?>, 1>, vector<4xi1>
    %f = memref.load %x[%i] : memref<?xf32>
    "test.use"(%w) : (vector<4xi1>) -> ()
    gpu.return
  }
}

// CHECK: %[[M:.*]] = builtin.unrealized_conversion_cast %arg0 : {{.*}} to memref<2x?xi8, strided<[?, 1], offset: ?>, 1>
// CHECK: %[[L:.*]] = memref.load %[[M]]
// CHECK: %[[B:.*]] = arith.trunci %[[L]] : i8 to i1
// CHECK: %[[S:.*]] = arith.extui %[[B]] : i1 to i8
// CHECK: memref.store %[[S]], %{{.*}} : memref<2x?xi8
// CHECK: vector.load %{{.*}} : memref<2x?xi8, {{.*}}>, vector<4xi8>
// CHECK: arith.trunci %{{.*}} : vector<4xi8> to vector<4xi1>
// Other memory stays.
// CHECK: memref.load %arg2[%arg1] : memref<?xf32>
