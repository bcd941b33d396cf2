// RUN: cpu add-workgroup-functions..tree-reductions

gpu.module @k {
  gpu.func @tree(%a: memref<?xf32>) workgroup(%s : memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @small(%a: memref<?xf32>) workgroup(%s : memref<63xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<63xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%t] : memref<63xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%t] : memref<63xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<63xf32, #gpu.address_space<workgroup>>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @global(%a: memref<?xf32>, %s: memref<64xf32>)  kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32>
        %low = memref.load %s[%t] : memref<64xf32>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%t] : memref<64xf32>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<64xf32>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @other(%a: memref<?xf32>) workgroup(%s : memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ule, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @column(%a: memref<?xf32>) workgroup(%s : memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    %y = gpu.thread_id y
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%y] : memref<64xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%y] : memref<64xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @more(%a: memref<?xf32>) workgroup(%s : memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
        memref.store %z, %a[%t] : memref<?xf32>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @third(%a: memref<?xf32>) workgroup(%s : memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %three = arith.constant 3 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.divui %n, %three : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @odd(%a: memref<?xf32>) workgroup(%s : memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c33 = arith.constant 33 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c33) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high fastmath<contract> : f32
        memref.store %z, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    %b = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %b, %a[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @prints(%a: memref<?xf32>) workgroup(%s : memref<64xf32, #gpu.address_space<workgroup>>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c32 = arith.constant 32 : index
    %two = arith.constant 2 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %c6 step %c1 iter_args(%n = %c32) -> index {
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {
        gpu.printf "%d\n", %n : index
        %o = arith.addi %n, %t : index
        %high = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
        %low = memref.load %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
        %z = arith.addf %low, %high : f32
        memref.store %z, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
      }
      gpu.barrier
      %next = arith.divui %n, %two : index
      scf.yield %next : index
    }
    gpu.return
  }
}

// The first work-item runs the last iterations in registers, and stores the elements that stay.
// CHECK-LABEL: gpu.func @tree.workgroup
// CHECK: arith.cmpi uge, %block_dim_x
// CHECK: scf.if
// CHECK-COUNT-8: vector.load {{.*}} vector<8xf32>
// CHECK: [[A:%.+]] = arith.addf {{.*}} fastmath<contract> : vector<8xf32>
// CHECK: vector.store {{.*}} vector<8xf32>
// CHECK: vector.store {{.*}} vector<8xf32>
// CHECK: arith.addf {{.*}} fastmath<contract> : vector<8xf32>
// CHECK: vector.store {{.*}} vector<8xf32>
// CHECK: vector.store {{.*}} vector<4xf32>
// CHECK: vector.store {{.*}} vector<2xf32>
// CHECK: vector.store {{.*}} vector<1xf32>
// CHECK: arith.addf {{.*}} fastmath<contract> : vector<1xf32>
// CHECK: vector.store {{.*}}[%c0{{.*}} vector<1xf32>
// CHECK: } else {
// CHECK: scf.for

// Memory that is too small, or not of the workgroup; other conditions, indices, steps; more operations.
// CHECK-LABEL: gpu.func @small.workgroup
// CHECK-NOT: vector.load
