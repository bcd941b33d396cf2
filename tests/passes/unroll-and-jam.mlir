// RUN: sm_90 unroll-and-jam
gpu.module @k {
  // A load that no index of the tile changes is shared, and the loop carries all sums.
  // CHECK-LABEL: gpu.func @product
  // CHECK: scf.if
  // CHECK: [[SUMS:%.*]]:4 = scf.for [[K:%arg[0-9]+]] = {{.*}} iter_args([[S0:%.*]] = {{.*}}, [[S1:%.*]] = {{.*}}, [[S2:%.*]] = {{.*}}, [[S3:%.*]] = {{.*}})
  // CHECK: [[A0:%.*]] = memref.load %arg0{{.}}[[I0:%[0-9]+]], [[K]]{{.}}
  // CHECK: [[A1:%.*]] = memref.load %arg0{{.}}[[I1:%[0-9]+]], [[K]]{{.}}
  // CHECK: [[B0:%.*]] = memref.load %arg1{{.}}[[K]], [[J0:%[0-9]+]]{{.}}
  // CHECK: [[B1:%.*]] = memref.load %arg1{{.}}[[K]], [[J1:%[0-9]+]]{{.}}
  // CHECK-NOT: memref.load
  // CHECK: scf.yield
  // CHECK: memref.store [[SUMS]]#0, %arg2{{.}}[[I0]], [[J0]]{{.}}
  // CHECK: memref.store [[SUMS]]#1, %arg2{{.}}[[I0]], [[J1]]{{.}}
  // CHECK: memref.store [[SUMS]]#2, %arg2{{.}}[[I1]], [[J0]]{{.}}
  // CHECK: memref.store [[SUMS]]#3, %arg2{{.}}[[I1]], [[J1]]{{.}}
  // CHECK: } else {
  // CHECK: scf.parallel
  // CHECK: scf.if
  gpu.func @product(%a: memref<?x8xf32>, %b: memref<8x?xf32>, %c: memref<?x?xf32>, %n: index, %m: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c8 = arith.constant 8 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %y = gpu.global_id y
    scf.parallel (%r, %s) = (%c0, %c0) to (%c2, %c2) step (%c1, %c1) {
      %i0 = arith.muli %y, %c2 : index
      %i = arith.addi %i0, %r : index
      %j0 = arith.muli %x, %c2 : index
      %j = arith.addi %j0, %s : index
      %above = arith.cmpi slt, %i, %n : index
      %left = arith.cmpi slt, %j, %m : index
      %inside = arith.andi %above, %left : i1
      scf.if %inside {
        %sum = scf.for %k = %c0 to %c8 step %c1 iter_args(%so_far = %zero) -> f32 {
          %p = memref.load %a[%i, %k] : memref<?x8xf32>
          %q = memref.load %b[%k, %j] : memref<8x?xf32>
          %term = arith.mulf %p, %q : f32
          %next = arith.addf %so_far, %term : f32
          scf.yield %next : f32
        }
        memref.store %sum, %c[%i, %j] : memref<?x?xf32>
      }
      scf.reduce
    }
    gpu.return
  }

  // Loads stay in front of the stores of all iterations, which are independent of each other.
  // CHECK-LABEL: gpu.func @without_a_condition
  // CHECK-NOT: scf.parallel
  // CHECK: [[V0:%.*]] = memref.load
  // CHECK: [[V1:%.*]] = memref.load
  // CHECK: memref.store [[V0]]
  // CHECK: memref.store [[V1]]
  gpu.func @without_a_condition(%a: memref<2xf32>, %b: memref<2xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    scf.parallel (%r) = (%c0) to (%c2) step (%c1) {
      %v = memref.load %a[%r] : memref<2xf32>
      memref.store %v, %b[%r] : memref<2xf32>
      scf.reduce
    }
    gpu.return
  }

  // Bounds that differ between iterations, unknown numbers of them, and other operations stay.
  // CHECK-LABEL: gpu.func @others
  // CHECK-COUNT-4: scf.parallel
  gpu.func @others(%a: memref<?xf32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %v = arith.constant 1.0 : f32
    scf.parallel (%r) = (%c0) to (%c2) step (%c1) {
      scf.for %k = %c0 to %r step %c1 {
        memref.store %v, %a[%k] : memref<?xf32>
      }
      scf.reduce
    }
    scf.parallel (%r) = (%c0) to (%c2) step (%c1) {
      %more = arith.addi %r, %n : index
      %some = arith.cmpi slt, %r, %n : index
      scf.if %some {
        scf.for %k = %c0 to %more step %c1 {
          memref.store %v, %a[%k] : memref<?xf32>
        }
      }
      scf.reduce
    }
    scf.parallel (%r) = (%c0) to (%n) step (%c1) {
      memref.store %v, %a[%r] : memref<?xf32>
      scf.reduce
    }
    scf.parallel (%r) = (%c0) to (%c2) step (%c1) {
      %old = memref.atomic_rmw addf %v, %a[%c0] : (f32, memref<?xf32>) -> f32
      scf.reduce
    }
    gpu.return
  }
}
