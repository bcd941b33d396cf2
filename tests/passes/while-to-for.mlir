// RUN: cpu add-workgroup-functions..while-to-for

// A loop that counts to a bound, as branches or as `scf.while`, becomes `scf.for`.
gpu.module @k {
  gpu.func @branches(%a: memref<?x?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %a, %c0 : memref<?x?xf32>
    cf.br ^head(%c0, %zero : index, f32)
  ^head(%i: index, %s: f32):
    %more = arith.cmpi slt, %i, %n : index
    cf.cond_br %more, ^body, ^end
  ^body:
    %p = memref.load %a[%i, %x] : memref<?x?xf32>
    %t = arith.addf %s, %p : f32
    %next = arith.addi %i, %c1 : index
    cf.br ^head(%next, %t : index, f32)
  ^end:
    memref.store %s, %c[%x] : memref<?xf32>
    gpu.return
  }
  // The order of what is carried and passed on may change, and the comparison be turned round.
  gpu.func @turned(%a: memref<?x?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %a, %c0 : memref<?x?xf32>
    %r:2 = scf.while (%s = %zero, %i = %c2) : (f32, index) -> (index, f32) {
      %more = arith.cmpi sgt, %n, %i : index
      scf.condition(%more) %i, %s : index, f32
    } do {
    ^bb0(%i: index, %s: f32):
      %p = memref.load %a[%i, %x] : memref<?x?xf32>
      %t = arith.addf %s, %p : f32
      %next = arith.addi %c2, %i : index
      scf.yield %t, %next : f32, index
    }
    memref.store %r#1, %c[%x] : memref<?xf32>
    gpu.return
  }
  // From the work-item's own place in steps of the size of the grid.
  gpu.func @grid(%a: memref<?xf32>, %c: memref<?xf32>, %n: index) kernel {
    %x = gpu.global_id x
    %groups = gpu.grid_dim x
    %size = gpu.block_dim x
    %all = arith.muli %groups, %size : index
    %last = scf.while (%i = %x) : (index) -> index {
      %more = arith.cmpi slt, %i, %n : index
      scf.condition(%more) %i : index
    } do {
    ^bb0(%i: index):
      %p = memref.load %a[%i] : memref<?xf32>
      memref.store %p, %c[%i] : memref<?xf32>
      %next = arith.addi %i, %all : index
      scf.yield %next : index
    }
    gpu.return
  }
  // Unsigned, from a number that is not negative.
  gpu.func @unsigned(%a: memref<?x?xf32>, %c: memref<?xf32>, %from: index, %n: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %r:2 = scf.while (%i = %c0, %s = %zero) : (index, f32) -> (index, f32) {
      %more = arith.cmpi ult, %i, %n : index
      scf.condition(%more) %i, %s : index, f32
    } do {
    ^bb0(%i: index, %s: f32):
      %p = memref.load %a[%i, %x] : memref<?x?xf32>
      %t = arith.addf %s, %p : f32
      %next = arith.addi %i, %c1 : index
      scf.yield %next, %t : index, f32
    }
    %q:2 = scf.while (%i = %from, %s = %r#1) : (index, f32) -> (index, f32) {
      %more = arith.cmpi ult, %i, %n : index
      scf.condition(%more) %i, %s : index, f32
    } do {
    ^bb0(%i: index, %s: f32):
      %p = memref.load %a[%i, %x] : memref<?x?xf32>
      %t = arith.addf %s, %p : f32
      %next = arith.addi %i, %c1 : index
      scf.yield %next, %t : index, f32
    }
    memref.store %q#1, %c[%x] : memref<?xf32>
    gpu.return
  }
  // Not where the last count is used, where it could overflow, or where the bound could be jumped over.
  gpu.func @used(%a: memref<?x?xf32>, %c: memref<?xindex>, %n: i32) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %i0 = arith.constant 0 : i32
    %i2 = arith.constant 2 : i32
    %x = gpu.global_id x
    %last = scf.while (%i = %c0) : (index) -> index {
      %more = arith.cmpi slt, %i, %x : index
      scf.condition(%more) %i : index
    } do {
    ^bb0(%i: index):
      %next = arith.addi %i, %c1 : index
      scf.yield %next : index
    }
    %narrow = scf.while (%i = %i0) : (i32) -> i32 {
      %more = arith.cmpi slt, %i, %n : i32
      scf.condition(%more) %i : i32
    } do {
    ^bb0(%i: i32):
      %next = arith.addi %i, %i2 : i32
      scf.yield %next : i32
    }
    %jumps = scf.while (%i = %i0) : (i32) -> i32 {
      %more = arith.cmpi ne, %i, %n : i32
      scf.condition(%more) %i : i32
    } do {
    ^bb0(%i: i32):
      %next = arith.addi %i, %i2 : i32
      scf.yield %next : i32
    }
    gpu.barrier
    memref.store %last, %c[%x] : memref<?xindex>
    gpu.return
  }
  // Nothing is gained where no work-items can run an iteration together.
  gpu.func @alone(%a: memref<?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %x = gpu.global_id x
    %first = memref.load %a[%x] : memref<?xf32>
    %zero = arith.constant 0.0 : f32
    %r = scf.while (%s = %first) : (f32) -> f32 {
      %more = arith.cmpf ogt, %s, %zero : f32
      scf.condition(%more) %s : f32
    } do {
    ^bb0(%s: f32):
      %t = math.sin %s : f32
      scf.yield %t : f32
    }
    memref.store %r, %c[%x] : memref<?xf32>
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @branches.workgroup
// CHECK: [[N:%.+]] = memref.dim
// CHECK: [[SUM:%.+]] = scf.for [[I:%.+]] = %c0 to [[N]] step {{%.+}} iter_args([[S:%.+]] = %cst) -> (f32) {
// CHECK-NEXT: [[P:%.+]] = memref.load %arg0{{.}}[[I]], {{%.+}}]
// CHECK-NEXT: [[T:%.+]] = arith.addf [[S]], [[P]]
// CHECK: scf.yield [[T]] : f32
// CHECK: memref.store [[SUM]], %arg1
// CHECK-LABEL: gpu.func @branches(
// CHECK: cf.cond_br
// CHECK-LABEL: gpu.func @turned.workgroup
// CHECK: scf.for [[J:%.+]] = %c2 to {{%.+}} step {{%.+}} iter_args
// CHECK-NEXT: memref.load %arg0{{.}}[[J]], {{%.+}}]
// CHECK-LABEL: gpu.func @turned(
// CHECK-LABEL: gpu.func @grid.workgroup
// CHECK: [[ALL:%.+]] = arith.muli
// CHECK: scf.for {{%.+}} = %global_id_x to %arg2 step [[ALL]] {
// CHECK-LABEL: gpu.func @unsigned.workgroup
// CHECK: [[R:%.+]] = scf.for {{%.+}} = %c0 to %arg3 step
// CHECK: scf.while ([[I:%.+]] = %arg2, [[T:%.+]] = [[R]])
// CHECK-LABEL: gpu.func @used.workgroup
// CHECK-NOT: scf.for
// CHECK-LABEL: gpu.func @used(
// CHECK-NOT: @alone.workgroup
// CHECK: gpu.func @alone(
