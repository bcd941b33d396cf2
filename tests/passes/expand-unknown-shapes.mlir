// Several unknown extents from one dimension: upstream's conversion aborts. Others stay as they are.
// RUN: sm_60 expand-unknown-shapes
gpu.module @k {
  gpu.func @f(%m: memref<?x4xf32, strided<[?, 1], offset: ?>>, %n: memref<?xf32>, %a: index, %b: index) kernel {
    %c0 = arith.constant 0 : index
    %e = memref.expand_shape %m [[0, 1], [2, 3]] output_shape [%a, %b, 2, 2]
      : memref<?x4xf32, strided<[?, 1], offset: ?>> into memref<?x?x2x2xf32, strided<[?, ?, 2, 1], offset: ?>>
    %x = memref.load %e[%c0, %a, %c0, %c0] : memref<?x?x2x2xf32, strided<[?, ?, 2, 1], offset: ?>>
    %s = memref.expand_shape %n [[0, 1]] output_shape [%a, 2] : memref<?xf32> into memref<?x2xf32>
    memref.store %x, %s[%c0, %c0] : memref<?x2xf32>
    gpu.return
  }
}

// CHECK: %[[BASE:.*]], %[[OFFSET:.*]], %{{.*}}:2, %[[STRIDES:.*]]:2 = memref.extract_strided_metadata %arg0
// CHECK: %[[OUTER:.*]] = arith.muli %[[STRIDES]]#0, %arg3
// CHECK: memref.reinterpret_cast %[[BASE]] to offset: [%[[OFFSET]]], sizes: [%arg2, %arg3, 2, 2], strides: [%[[OUTER]], %[[STRIDES]]#0, 2, 1]
// CHECK: memref.expand_shape %arg1
