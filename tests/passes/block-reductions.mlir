// RUN: cpu add-workgroup-functions..block-reductions

// A tile of 2 x 2 sums. All but the last block of each are added in front of the tile's own loop.
gpu.module @k {
  gpu.func @product(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) kernel
      attributes {known_block_size = array<i32: 32, 8, 1>} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %x = gpu.thread_id x
    %n = memref.dim %a, %c1 : memref<?x?xf32>
    scf.parallel (%i, %j) = (%c0, %c0) to (%c2, %c2) step (%c1, %c1) {
      %in = arith.cmpi slt, %j, %x : index
      scf.if %in {
        %first = memref.load %c[%i, %x] : memref<?x?xf32>
        %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %first) -> f32 {
          %p = memref.load %a[%i, %k] : memref<?x?xf32>
          %q = memref.load %b[%k, %x] : memref<?x?xf32>
          %r = arith.mulf %p, %q : f32
          %t = arith.addf %s, %r : f32
          scf.yield %t : f32
        }
        memref.store %sum, %c[%i, %x] : memref<?x?xf32>
      }
    }
    gpu.return
  }
  // Not where the loop is short, has other bounds in each work-item, stores, or where a store comes first.
  gpu.func @others(%a: memref<?x?xf32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c512 = arith.constant 512 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.thread_id x
    scf.parallel (%i) = (%c0) to (%c2) step (%c1) {
      %sum = scf.for %k = %c0 to %c512 step %c1 iter_args(%s = %zero) -> f32 {
        %p = memref.load %a[%i, %k] : memref<?x?xf32>
        %t = arith.addf %s, %p : f32
        scf.yield %t : f32
      }
      memref.store %sum, %a[%i, %x] : memref<?x?xf32>
    }
    scf.parallel (%i) = (%c0) to (%c2) step (%c1) {
      %sum = scf.for %k = %c0 to %x step %c1 iter_args(%s = %zero) -> f32 {
        %p = memref.load %a[%i, %k] : memref<?x?xf32>
        %t = arith.addf %s, %p : f32
        scf.yield %t : f32
      }
      memref.store %sum, %a[%i, %x] : memref<?x?xf32>
    }
    scf.parallel (%i) = (%c0) to (%c2) step (%c1) {
      %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
        %p = memref.load %a[%i, %k] : memref<?x?xf32>
        %t = arith.addf %s, %p : f32
        memref.store %t, %a[%i, %k] : memref<?x?xf32>
        scf.yield %t : f32
      }
      memref.store %sum, %a[%i, %x] : memref<?x?xf32>
    }
    scf.parallel (%i) = (%c0) to (%c2) step (%c1) {
      memref.store %zero, %a[%i, %x] : memref<?x?xf32>
      %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
        %p = memref.load %a[%i, %k] : memref<?x?xf32>
        %t = arith.addf %s, %p : f32
        scf.yield %t : f32
      }
      memref.store %sum, %a[%i, %x] : memref<?x?xf32>
    }
    gpu.return
  }
}

// CHECK: memref.global "private" [[SUMS:@product.workgroup.sums.+]] : memref<1024xf32, #gpu.address_space<workgroup>>
// CHECK-LABEL: gpu.func @product.workgroup
// CHECK: [[N:%.+]] = memref.dim %arg0
// CHECK: [[KEPT:%.+]] = memref.get_global [[SUMS]]
// CHECK: [[LONG:%.+]] = arith.cmpi sgt, {{%.+}}, %c512
// CHECK: [[LAST:%.+]] = arith.select [[LONG]], {{%.+}}, %c0
// CHECK: scf.for [[START:%.+]] = %c0 to [[LAST]] step %c128
// CHECK: [[END:%.+]] = arith.addi [[START]], %c128
// CHECK: [[LATER:%.+]] = arith.cmpi ne, [[START]], %c0
// CHECK: scf.parallel
// CHECK-NEXT: gpu.barrier
// CHECK: scf.if
// CHECK: [[C:%.+]] = memref.load %arg2
// CHECK: [[SO_FAR:%.+]] = memref.load [[KEPT]]{{.}}[[AT:%.+]]]
// CHECK: [[FIRST:%.+]] = arith.select [[LATER]], [[SO_FAR]], [[C]]
// CHECK: [[SUM:%.+]] = scf.for {{%.+}} = [[START]] to [[END]] step %c1 iter_args({{%.+}} = [[FIRST]])
// CHECK: memref.store [[SUM]], [[KEPT]]{{.}}[[AT]]]
// CHECK-NEXT: }
// CHECK: scf.parallel
// CHECK-NOT: gpu.barrier
// CHECK: [[C:%.+]] = memref.load %arg2
// CHECK: [[SO_FAR:%.+]] = memref.load [[KEPT]]
// CHECK: [[FIRST:%.+]] = arith.select [[LONG]], [[SO_FAR]], [[C]]
// CHECK: scf.for {{%.+}} = [[LAST]] to [[N]] step %c1 iter_args({{%.+}} = [[FIRST]])
// CHECK: memref.store {{%.+}}, %arg2
// CHECK-LABEL: gpu.func @product(
// CHECK-LABEL: gpu.func @others.workgroup
// CHECK-NOT: step %c128
// CHECK-LABEL: gpu.func @others(
