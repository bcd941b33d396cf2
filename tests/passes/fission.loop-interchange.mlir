// RUN: cpu add-workgroup-functions..fission

// Work-items that read neighbours in x run an iteration together, 64 of them at a time.
gpu.module @k {
  gpu.func @neighbours(%a: memref<?x?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %col = gpu.global_id x
    %n = memref.dim %a, %c0 : memref<?x?xf32>
    %in = arith.cmpi ult, %col, %n : index
    scf.if %in {
      %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
        %v = memref.load %a[%k, %col] : memref<?x?xf32>
        %t = arith.addf %s, %v : f32
        scf.yield %t : f32
      }
      memref.store %r, %out[%col] : memref<?xf32>
    }
    gpu.return
  }
  // Of these, each follows a row of integers, which LLVM reads in vectors: the loop stays inside.
  gpu.func @rows(%a: memref<?x?xi32>, %out: memref<?xi32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0 : i32
    %col = gpu.global_id x
    %n = memref.dim %a, %c0 : memref<?x?xi32>
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> i32 {
      %v = memref.load %a[%col, %k] : memref<?x?xi32>
      %t = arith.addi %s, %v : i32
      scf.yield %t : i32
    }
    memref.store %r, %out[%col] : memref<?xi32>
    gpu.return
  }
  // The address of a table is taken inside the bounds check: that keeps no loop inside.
  memref.global "private" constant @table : memref<64x64xf32> = dense<1.0>
  gpu.func @constants(%n: index, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %zero = arith.constant 0.0 : f32
    %col = gpu.global_id x
    %in = arith.cmpi ult, %col, %n : index
    scf.if %in {
      %table = memref.get_global @table : memref<64x64xf32>
      %r = scf.for %k = %c0 to %c64 step %c1 iter_args(%s = %zero) -> f32 {
        %v = memref.load %table[%k, %col] : memref<64x64xf32>
        %t = arith.addf %s, %v : f32
        scf.yield %t : f32
      }
      memref.store %r, %out[%col] : memref<?xf32>
    }
    gpu.return
  }
  // All load the same element, and each computes its own value of it.
  gpu.func @together(%a: memref<?xf32>, %x: memref<?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %col = gpu.global_id x
    %n = memref.dim %a, %c0 : memref<?xf32>
    %mine = memref.load %x[%col] : memref<?xf32>
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %a[%k] : memref<?xf32>
      %d = arith.subf %v, %mine : f32
      %e = math.absf %d : f32
      %near = arith.cmpf olt, %e, %mine : f32
      %f = scf.if %near -> f32 {
        %sqrt = math.sqrt %e : f32
        scf.yield %sqrt : f32
      } else {
        scf.yield %e : f32
      }
      %t = arith.addf %s, %f : f32
      scf.yield %t : f32
    }
    memref.store %r, %out[%col] : memref<?xf32>
    gpu.return
  }
  // Few may need the exponential, which all would compute: the loop stays inside.
  gpu.func @costly(%a: memref<?xf32>, %x: memref<?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %col = gpu.global_id x
    %n = memref.dim %a, %c0 : memref<?xf32>
    %mine = memref.load %x[%col] : memref<?xf32>
    %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %v = memref.load %a[%k] : memref<?xf32>
      %near = arith.cmpf olt, %v, %mine : f32
      %f = scf.if %near -> f32 {
        %exp = math.exp %v : f32
        scf.yield %exp : f32
      } else {
        scf.yield %v : f32
      }
      %t = arith.addf %s, %f : f32
      scf.yield %t : f32
    }
    memref.store %r, %out[%col] : memref<?xf32>
    gpu.return
  }
  // LLVM unrolls few iterations of f32, but not those of types whose operations are many instructions.
  gpu.func @short_f32(%x: memref<?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %col = gpu.global_id x
    %mine = memref.load %x[%col] : memref<?xf32>
    %r = scf.for %k = %c0 to %c8 step %c1 iter_args(%s = %mine) -> f32 {
      %t = arith.mulf %s, %mine : f32
      scf.yield %t : f32
    }
    memref.store %r, %out[%col] : memref<?xf32>
    gpu.return
  }
  gpu.func @short_f16(%x: memref<?xf16>, %out: memref<?xf16>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %col = gpu.global_id x
    %mine = memref.load %x[%col] : memref<?xf16>
    %r = scf.for %k = %c0 to %c8 step %c1 iter_args(%s = %mine) -> f16 {
      %t = arith.mulf %s, %mine : f16
      scf.yield %t : f16
    }
    memref.store %r, %out[%col] : memref<?xf16>
    gpu.return
  }
  // Nor does it unroll a few iterations around a long loop, or iterations with many operations together.
  gpu.func @short_around_long(%a: memref<?x?xf32>, %out: memref<?x?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0.0 : f32
    %n = memref.dim %a, %c0 : memref<?x?xf32>
    %col = gpu.global_id x
    scf.for %i = %c0 to %c4 step %c1 {
      %r = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
        %p = memref.load %a[%k, %col] : memref<?x?xf32>
        %t = arith.addf %s, %p : f32
        scf.yield %t : f32
      }
      memref.store %r, %out[%i, %col] : memref<?x?xf32>
    }
    gpu.return
  }
  gpu.func @short_of_many(%a: memref<?x?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %col = gpu.global_id x
    %r = scf.for %k = %c0 to %c32 step %c1 iter_args(%s0 = %zero) -> f32 {
      %p = memref.load %a[%k, %col] : memref<?x?xf32>
      %s1 = arith.mulf %s0, %p : f32
      %s2 = arith.addf %s1, %p : f32
      %s3 = arith.mulf %s2, %p : f32
      %s4 = arith.addf %s3, %p : f32
      %s5 = arith.mulf %s4, %p : f32
      %s6 = arith.addf %s5, %p : f32
      %s7 = arith.mulf %s6, %p : f32
      %s8 = arith.addf %s7, %p : f32
      %s9 = arith.mulf %s8, %p : f32
      %s10 = arith.addf %s9, %p : f32
      %s11 = arith.mulf %s10, %p : f32
      %s12 = arith.addf %s11, %p : f32
      scf.yield %s12 : f32
    }
    memref.store %r, %out[%col] : memref<?xf32>
    gpu.return
  }
  // Subgroups have a row each, and the last workgroup fewer: the others run the loop without the mask.
  gpu.func @rows_of_subgroups(%a: memref<?x?xf32>, %out: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %lane = gpu.thread_id x
    %row = gpu.global_id y
    %n = memref.dim %a, %c0 : memref<?x?xf32>
    %m = memref.dim %a, %c1 : memref<?x?xf32>
    %in = arith.cmpi ult, %row, %n : index
    scf.if %in {
      %r = scf.for %k = %lane to %m step %c32 iter_args(%s = %zero) -> f32 {
        %v = memref.load %a[%row, %k] : memref<?x?xf32>
        %t = arith.addf %s, %v : f32
        scf.yield %t : f32
      }
      %one = arith.constant 1 : i32
      %width = arith.constant 32 : i32
      %sum, %valid = gpu.shuffle xor %r, %one, %width : f32
      memref.store %sum, %out[%row] : memref<?xf32>
    }
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @neighbours.workgroup
// CHECK: [[PARTIAL:%.+]] = memref.get_global @neighbours.workgroup.context.0 : memref<64xf32
// CHECK: [[SIZE:%.+]] = memref.dim %arg0
// Bounds are compared once for a chunk; inside, an iteration has the vectors of its 64 work-items.
// CHECK: scf.for [[X:%.+]] = %c0 to {{%.+}} step %c64 {
// CHECK: [[LAST:%.+]] = arith.cmpi ult, {{%.+}}, [[SIZE]]
// CHECK: scf.if
// CHECK: vector.load [[PARTIAL]]
// CHECK: scf.for [[K:%.+]] = {{.*}} to [[SIZE]] {{.+}} iter_args
// CHECK: vector.load %arg0{{.}}[[K]], {{%.+}}]
// CHECK: vector.store {{%.+}}, [[PARTIAL]]
// CHECK: gpu.func @neighbours(
// CHECK-NOT: @rows.workgroup
// CHECK: gpu.func @rows(
// CHECK-LABEL: gpu.func @constants.workgroup
// CHECK: scf.for [[K2:%.+]] = %c0_0 to %c64 step %c1_1 iter_args
// CHECK: vector.load {{%.+}}{{.}}[[K2]], {{%.+}}]
// CHECK-LABEL: gpu.func @together.workgroup
// CHECK: [[SIZE3:%.+]] = memref.dim %arg0
// CHECK: scf.for [[K3:%.+]] = {{%.+}} to [[SIZE3]] step
// CHECK-NEXT: scf.for {{%.+}} = %c0 to %c64{{.*}} step %c1 {
// CHECK: memref.load %arg0{{.}}[[K3]]]
// CHECK-NOT: @costly.workgroup
// CHECK: gpu.func @costly(
// CHECK-NOT: @short_f32.workgroup
// CHECK-LABEL: gpu.func @short_f16.workgroup
// CHECK: scf.for {{%.+}} = {{%.+}} to %c8 {{.+}} -> (vector<16xf16>
// CHECK-LABEL: gpu.func @short_around_long.workgroup
// CHECK: scf.for {{%.+}} = {{%.+}} to %c4
// CHECK: scf.for {{%.+}} = {{%.+}} to {{%.+}} -> (vector<16xf32>
// CHECK-LABEL: gpu.func @short_of_many.workgroup
// CHECK: scf.for {{%.+}} = {{%.+}} to %c32 {{.+}} -> (vector<16xf32>
// CHECK-LABEL: gpu.func @rows_of_subgroups.workgroup
// CHECK: [[ALL:%.+]] = arith.cmpi eq, {{%.+}}, {{%.+}} : index
// CHECK-NEXT: scf.if [[ALL]] {
// CHECK: scf.for {{%.+}} = %c0 to %c64{{.*}} step %c1 {
// CHECK: memref.load %arg0
// CHECK: } else {
// CHECK: memref.load %arg0
