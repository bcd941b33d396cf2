// RUN: cpu add-workgroup-functions..promote-private-memory

// Sums in private memory become values that the loop carries; a short loop over it is unrolled.
gpu.module @k {
  gpu.func @sums(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %a, %c1 : memref<?x?xf32>
    %own = memref.alloca() : memref<2xf32, #gpu.address_space<private>>
    scf.for %i = %c0 to %c2 step %c1 {
      memref.store %zero, %own[%i] : memref<2xf32, #gpu.address_space<private>>
    }
    scf.for %k = %c0 to %n step %c1 {
      %q = memref.load %b[%k, %x] : memref<?x?xf32>
      scf.for %i = %c0 to %c2 step %c1 {
        %p = memref.load %a[%i, %k] : memref<?x?xf32>
        %s = memref.load %own[%i] : memref<2xf32, #gpu.address_space<private>>
        %t = arith.mulf %p, %q : f32
        %u = arith.addf %s, %t : f32
        memref.store %u, %own[%i] : memref<2xf32, #gpu.address_space<private>>
      }
    }
    scf.for %i = %c0 to %c2 step %c1 {
      %s = memref.load %own[%i] : memref<2xf32, #gpu.address_space<private>>
      memref.store %s, %c[%i, %x] : memref<?x?xf32>
    }
    gpu.return
  }
  // Not where an index is known at run time only, or a loop would not be found again.
  gpu.func @unknown(%b: memref<?xf32>, %c: memref<?xf32>, %at: index, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %x = gpu.global_id x
    %own = memref.alloca() : memref<2xf32, #gpu.address_space<private>>
    scf.for %k = %c0 to %n step %c1 {
      %q = memref.load %b[%k] : memref<?xf32>
      memref.store %q, %own[%at] : memref<2xf32, #gpu.address_space<private>>
    }
    gpu.barrier
    %s = memref.load %own[%c0] : memref<2xf32, #gpu.address_space<private>>
    memref.store %s, %c[%x] : memref<?xf32>
    gpu.return
  }
  gpu.func @steps(%b: memref<?xf32>, %c: memref<?xf32>, %step: index, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %x = gpu.global_id x
    %own = memref.alloca() : memref<f32, #gpu.address_space<private>>
    scf.for %k = %c0 to %n step %step {
      %q = memref.load %b[%k] : memref<?xf32>
      memref.store %q, %own[] : memref<f32, #gpu.address_space<private>>
    }
    gpu.barrier
    %s = memref.load %own[] : memref<f32, #gpu.address_space<private>>
    memref.store %s, %c[%x] : memref<?xf32>
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @sums.workgroup
// CHECK-NOT: memref.alloca
// CHECK: [[SUMS:%.+]]:2 = scf.for [[K:%.+]] = %c0 to {{%.+}} step {{.+}} iter_args([[A:%.+]] = %cst, [[B:%.+]] = %cst) -> (f32, f32) {
// CHECK: memref.load %arg0[%c0, [[K]]]
// CHECK: memref.load %arg0[%c1, [[K]]]
// CHECK: scf.yield
// CHECK: memref.store [[SUMS]]#{{[01]}}, %arg2[%c0,
// CHECK: memref.store [[SUMS]]#{{[01]}}, %arg2[%c1,
// CHECK-LABEL: gpu.func @sums(
// CHECK: memref.alloca
// CHECK-LABEL: gpu.func @unknown.workgroup
// CHECK: memref.store {{%.+}}, %alloca[%arg2]
// CHECK-LABEL: gpu.func @unknown(
// CHECK-LABEL: gpu.func @steps.workgroup
// CHECK: scf.for {{%.+}} = %c0 to %arg3 step %arg2
// CHECK: memref.store {{%.+}}, %alloca[]
