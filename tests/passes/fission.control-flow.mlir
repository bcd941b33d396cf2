// RUN: cpu expand-vector-type-casts..fission

!shared = memref<1024xi32, #gpu.address_space<workgroup>>
gpu.module @k {
  // A bound out of memory: all are asked in each iteration, and the loop runs once for all.
  gpu.func @loaded(%a: memref<?xi32>, %b: memref<1xindex>) workgroup(%s: !shared) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    %n = memref.load %b[%c0] : memref<1xindex>
    %v = memref.load %a[%t] : memref<?xi32>
    scf.for %i = %c0 to %n step %c1 {
      memref.store %v, %s[%t] : !shared
      gpu.barrier
    }
    gpu.return
  }

  // A subgroup on its own: whoever takes part has a byte in a mask.
  gpu.func @subgroup(%a: memref<?xi32>) kernel {
    %c32 = arith.constant 32 : index
    %i1 = arith.constant 1 : i32
    %i32 = arith.constant 32 : i32
    %t = gpu.thread_id x
    %in = arith.cmpi ult, %t, %c32 : index
    %v = memref.load %a[%t] : memref<?xi32>
    scf.if %in {
      %r, %ok = gpu.shuffle xor %v, %i1, %i32 : i32
      memref.store %r, %a[%t] : memref<?xi32>
    }
    gpu.barrier
    gpu.return
  }

  gpu.func @turns(%a: memref<?xi32>, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %t = gpu.thread_id x
    scf.for %i = %c0 to %n step %c1 {
      %mine = arith.cmpi eq, %i, %t : index
      scf.if %mine { gpu.barrier }
    }
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @loaded.workgroup
// CHECK: scf.while
// CHECK: arith.cmpi slt
// CHECK: memref.store {{.*}} : memref<1024xi8, #gpu.address_space<workgroup>>
// CHECK: [[TOTAL:%.*]] = arith.index_castui
// CHECK: [[SOME:%.*]] = arith.cmpi ne, [[TOTAL]]
// CHECK: arith.cmpi ne, [[TOTAL]]
// CHECK: scf.if
// CHECK-NEXT: memref.extract_aligned_pointer_as_index
// CHECK: func.call @gpubuild.diverged
// CHECK: scf.condition
// CHECK-NOT: gpu.barrier
// CHECK: gpu.return

// CHECK-LABEL: gpu.func @subgroup.workgroup
// CHECK: arith.cmpi ult
// CHECK: [[ANY:%.*]] = arith.cmpi ne
// CHECK: scf.if [[ANY]]
// CHECK: func.call @gpubuild.diverged
// CHECK: [[BYTE:%.*]] = memref.load {{.*}} : memref<1024xi8
// CHECK: [[IN:%.*]] = arith.trunci [[BYTE]] : i8 to i1
// CHECK: scf.if [[IN]]
// CHECK-NOT: gpu.shuffle
// CHECK: gpu.return

// CHECK: gpu.func @turns{{.*}}gpubuild.no_fission = "gpu.barrier in a divergent scf.if"
