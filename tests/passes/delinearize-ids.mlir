// RUN: cpu add-workgroup-functions..delinearize-ids

// Row and column of one number. In a part of the workgroup all work-items have the same row.
gpu.module @k {
  gpu.func @rows(%a: memref<?x?xf32>, %n: index, %all: index) kernel {
    %i = gpu.global_id x
    %in = arith.cmpi ult, %i, %all : index
    scf.if %in {
      %row = arith.divui %i, %n : index
      %column = arith.remui %i, %n : index
      %p = memref.load %a[%row, %column] : memref<?x?xf32>
      %q = arith.addf %p, %p : f32
      memref.store %q, %a[%row, %column] : memref<?x?xf32>
    }
    gpu.return
  }
  // A loop in steps of the grid: each iteration runs in parts.
  gpu.func @grid(%a: memref<?x?xf32>, %v: f32, %n: index, %all: index, %step: index) kernel {
    %first = gpu.global_id x
    scf.for %i = %first to %all step %step {
      %row = arith.divui %i, %n : index
      %column = arith.remui %i, %n : index
      memref.store %v, %a[%row, %column] : memref<?x?xf32>
    }
    gpu.return
  }
  // The divisor is one of several results.
  gpu.func @sized(%a: memref<?x?xf32>, %v: f32) kernel {
    %i = gpu.global_id x
    %b, %offset, %sizes:2, %strides:2 = memref.extract_strided_metadata %a
      : memref<?x?xf32> -> memref<f32>, index, index, index, index, index
    %row = arith.divui %i, %sizes#1 : index
    memref.store %v, %a[%row, %i] : memref<?x?xf32>
    gpu.return
  }
  // Not where the divisor is small or loaded, where x is not in the dividend alone,
  // where work-items have private memory, or where they meet.
  gpu.func @others(%c: memref<?xindex>, %n: index) kernel {
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %x = gpu.thread_id x
    %twice = arith.muli %x, %c2 : index
    %loaded = memref.load %c[%c2] : memref<?xindex>
    %p = arith.divui %x, %c4 : index
    %q = arith.divui %x, %loaded : index
    %r = arith.divui %twice, %n : index
    %s = arith.addi %p, %q : index
    %t = arith.addi %r, %s : index
    %below = arith.cmpi ult, %x, %n : index
    scf.if %below {
      memref.store %t, %c[%x] : memref<?xindex>
    }
    gpu.return
  }
  gpu.func @keeps(%c: memref<?xindex>, %n: index, %all: index, %step: index)
      private(%own: memref<1xindex, #gpu.address_space<private>>) kernel {
    %c0 = arith.constant 0 : index
    %x = gpu.global_id x
    memref.store %x, %own[%c0] : memref<1xindex, #gpu.address_space<private>>
    scf.for %i = %x to %all step %step {
      %row = arith.divui %i, %n : index
      memref.store %row, %c[%i] : memref<?xindex>
    }
    gpu.return
  }
  gpu.func @meets(%c: memref<?xindex>, %n: index) kernel {
    %x = gpu.thread_id x
    %row = arith.divui %x, %n : index
    gpu.barrier
    memref.store %row, %c[%x] : memref<?xindex>
    gpu.return
  }
  gpu.func @exchanges(%c: memref<?xindex>, %n: index) kernel {
    %one = arith.constant 1 : i32
    %all = arith.constant 32 : i32
    %x = gpu.thread_id x
    %row = arith.divui %x, %n : index
    %i = arith.index_cast %row : index to i32
    %other, %valid = gpu.shuffle xor %i, %one, %all : i32
    %j = arith.index_cast %other : i32 to index
    memref.store %j, %c[%x] : memref<?xindex>
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @rows.workgroup
// CHECK: [[FIRST:%.+]] = arith.addi {{%.+}}, %c0
// CHECK: arith.cmpi sge, %arg1, %c16
// CHECK: scf.if {{%.+}} {
// CHECK: scf.while
// CHECK: ([[START:%.+]]: index):
// CHECK-NEXT: gpu.barrier
// CHECK-NEXT: [[REST:%.+]] = arith.subi %block_dim_x, [[START]]
// CHECK-NEXT: [[NUMBER:%.+]] = arith.addi [[FIRST]], [[START]]
// CHECK-NEXT: [[ROW:%.+]] = arith.divui [[NUMBER]], %arg1
// CHECK-NEXT: [[BEFORE:%.+]] = arith.muli [[ROW]], %arg1
// CHECK-NEXT: [[COLUMN:%.+]] = arith.subi [[NUMBER]], [[BEFORE]]
// CHECK-NEXT: [[LEFT:%.+]] = arith.subi %arg1, [[COLUMN]]
// CHECK-NEXT: [[COUNT:%.+]] = arith.minsi [[REST]], [[LEFT]]
// CHECK: [[IN_PART:%.+]] = arith.cmpi ult, %thread_id_x, [[COUNT]]
// CHECK: [[ID:%.+]] = arith.addi %global_id_x, [[START]]
// CHECK: [[IN:%.+]] = arith.cmpi ult, [[ID]], %arg2
// CHECK: [[BOTH:%.+]] = arith.andi [[IN_PART]], [[IN]]
// CHECK: scf.if [[BOTH]] {
// CHECK: [[OWN:%.+]] = arith.addi {{%.+}}, [[COLUMN]]
// CHECK: memref.load %arg0{{.}}[[ROW]], [[OWN]]]
// CHECK: [[NEXT:%.+]] = arith.addi [[START]], [[COUNT]]
// CHECK-NEXT: scf.yield [[NEXT]]
// CHECK: } else {
// CHECK: arith.divui %global_id_x, %arg1
// CHECK: {gpubuild.versioned}
// CHECK-LABEL: gpu.func @rows(
// CHECK-LABEL: gpu.func @grid.workgroup
// CHECK: [[FIRST:%.+]] = arith.addi {{%.+}}, %c0
// CHECK: scf.for [[BASE:%.+]] = [[FIRST]] to %arg3 step %arg4 {
// CHECK-NEXT: gpu.barrier
// CHECK: [[NUMBER:%.+]] = arith.addi [[BASE]], %c0
// CHECK: scf.while
// CHECK: ([[START:%.+]]: index):
// CHECK: [[AT:%.+]] = arith.addi [[NUMBER]], [[START]]
// CHECK: [[ROW:%.+]] = arith.divui [[AT]], %arg2
// CHECK: [[OWN:%.+]] = arith.addi %thread_id_x{{.*}}, [[START]]
// CHECK: [[I:%.+]] = arith.addi [[BASE]], [[OWN]]
// CHECK: arith.cmpi slt, [[I]], %arg3
// CHECK: memref.store %arg1, %arg0{{.}}[[ROW]], {{%.+}}]
// CHECK: } else {
// CHECK: arith.divui
// CHECK-LABEL: gpu.func @sized.workgroup
// CHECK: memref.extract_strided_metadata
// CHECK: %offset{{.*}}, [[OF:%sizes[_0-9]*]]:2, {{%.+}}:2 = memref.extract_strided_metadata %arg0
// CHECK: arith.cmpi sge, [[OF]]#1, %c16
// CHECK: scf.while
// CHECK: arith.divui {{%.+}}, [[OF]]#1
// CHECK-LABEL: gpu.func @others.workgroup
// CHECK-NOT: scf.while
// CHECK-LABEL: gpu.func @keeps
// CHECK-NOT: scf.while
// CHECK-LABEL: gpu.func @meets.workgroup
// CHECK-NOT: scf.while
// CHECK-LABEL: gpu.func @exchanges.workgroup
// CHECK-NOT: scf.while
// CHECK-LABEL: gpu.func @exchanges(
