// RUN: cpu add-workgroup-functions..fission

// Loops that only load and compute are built in vectors of 16 work-items, which stay in registers. A chunk of
// 4 rows shares what it loads.
gpu.module @k {
  gpu.func @product(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %y = gpu.global_id y
    %n = memref.dim %a, %c1 : memref<?x?xf32>
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %p = memref.load %a[%y, %k] : memref<?x?xf32>
      %q = memref.load %b[%k, %x] : memref<?x?xf32>
      %t = arith.mulf %p, %q : f32
      %u = arith.addf %s, %t : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%y, %x] : memref<?x?xf32>
    gpu.return
  }
  // Bounds that a chunk does not lie in whole are a smaller chunk, where that is a rectangle.
  gpu.func @part(%b: memref<?x?xf32>, %c: memref<?x?xf32>, %width: index, %height: index) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %y = gpu.global_id y
    %n = memref.dim %b, %c0 : memref<?x?xf32>
    %in_x = arith.cmpi slt, %x, %width : index
    %in_y = arith.cmpi slt, %y, %height : index
    %in = arith.andi %in_x, %in_y : i1
    scf.if %in {
      %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
        %q = memref.load %b[%k, %x] : memref<?x?xf32>
        %u = arith.addf %s, %q : f32
        scf.yield %u : f32
      }
      memref.store %sum, %c[%y, %x] : memref<?x?xf32>
    }
    gpu.return
  }
  // A short loop in it belongs to it. What each work-item has loaded before comes from an array.
  gpu.func @convolution(%a: memref<?x?xf32>, %w: memref<?x3xf32>, %f: memref<?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %a, %c0 : memref<?x?xf32>
    %own = memref.load %f[%x] : memref<?xf32>
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %row = scf.for %j = %c0 to %c3 step %c1 iter_args(%r = %s) -> f32 {
        %at = arith.addi %x, %j : index
        %p = memref.load %a[%k, %at] : memref<?x?xf32>
        %q = memref.load %w[%k, %j] : memref<?x3xf32>
        %t = arith.mulf %p, %q : f32
        %u = arith.mulf %t, %own : f32
        %v = arith.addf %r, %u : f32
        scf.yield %v : f32
      }
      scf.yield %row : f32
    }
    memref.store %sum, %c[%x] : memref<?xf32>
    gpu.return
  }
  // Where each work-item reads a row, vectors along the rows are transposed, 16 iterations at a time.
  gpu.func @rows(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %y = gpu.global_id y
    %n = memref.dim %a, %c1 : memref<?x?xf32>
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %p = memref.load %a[%y, %k] : memref<?x?xf32>
      %q = memref.load %b[%x, %k] : memref<?x?xf32>
      %t = arith.mulf %p, %q : f32
      %u = arith.addf %s, %t : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%y, %x] : memref<?x?xf32>
    gpu.return
  }
  // LLVM makes vectors of iterations itself if it may change the order of a sum.
  gpu.func @any_order(%b: memref<?x?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %b, %c1 : memref<?x?xf32>
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %q = memref.load %b[%x, %k] : memref<?x?xf32>
      %u = arith.addf %s, %q fastmath<reassoc> : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%x] : memref<?xf32>
    gpu.return
  }
  // What a signed sum overflows to is negative, and not in bounds.
  gpu.func @signed(%b: memref<?xf32>, %c: memref<?xf32>, %n: i32) kernel {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %narrow = arith.index_cast %x : index to i32
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 : i32 {
      %row = arith.muli %k, %n : i32
      %at = arith.addi %row, %narrow : i32
      %wide = arith.extsi %at : i32 to i64
      %index = arith.index_cast %wide : i64 to index
      %q = memref.load %b[%index] : memref<?xf32>
      %u = arith.addf %s, %q : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%x] : memref<?xf32>
    gpu.return
  }
  // An unsigned sum of 32 bits may overflow between two work-items: their elements need not be neighbours.
  gpu.func @overflow(%b: memref<?x?xf32>, %c: memref<?xf32>, %from: i32) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %b, %c0 : memref<?x?xf32>
    %narrow = arith.index_cast %x : index to i32
    %moved = arith.addi %narrow, %from : i32
    %at = arith.index_castui %moved : i32 to index
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %q = memref.load %b[%k, %at] : memref<?x?xf32>
      %u = arith.addf %s, %q : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%x] : memref<?xf32>
    gpu.return
  }
  gpu.func @overflow_of_row(%b: memref<?x?xf32>, %c: memref<?xf32>, %from: i32) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %b, %c0 : memref<?x?xf32>
    %narrow = arith.index_cast %x : index to i32
    %moved = arith.addi %narrow, %from : i32
    %at = arith.index_castui %moved : i32 to index
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %p = memref.load %b[%at, %k] : memref<?x?xf32>
      %u = arith.addf %s, %p : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%x] : memref<?xf32>
    gpu.return
  }
  // Neither is a difference equal in a row, in which the overflow of 8 bits remains.
  gpu.func @difference(%b: memref<?x?xf32>, %c: memref<?xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %zero = arith.constant 0.0 : f32
    %x = gpu.global_id x
    %n = memref.dim %b, %c0 : memref<?x?xf32>
    %moved = arith.addi %x, %c3 : index
    %narrow = arith.index_cast %moved : index to i8
    %wide = arith.index_cast %narrow : i8 to index
    %at = arith.subi %moved, %wide : index
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
      %p = memref.load %b[%k, %x] : memref<?x?xf32>
      %q = memref.load %b[%k, %at] : memref<?x?xf32>
      %t = arith.mulf %p, %q : f32
      %u = arith.addf %s, %t : f32
      scf.yield %u : f32
    }
    memref.store %sum, %c[%x] : memref<?xf32>
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @product.workgroup
// One row of 64:
// CHECK: scf.for [[K:%.+]] = {{.+}} iter_args({{.+}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK-COUNT-4: memref.load %arg0{{.}}{{%.+}}, [[K]]] : memref<?x?xf32>
// CHECK-COUNT-4: vector.load %arg1{{.}}[[K]], {{%.+}}] : memref<?x?xf32>, vector<16xf32>
// CHECK-COUNT-4: arith.mulf {{.+}} : vector<16xf32>
// CHECK-COUNT-4: arith.addf {{.+}} : vector<16xf32>
// CHECK-COUNT-4: vector.store
// Four rows of 16:
// CHECK: scf.for {{.+}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// The rest, of up to 4 rows of up to 16, whose extents are known at run time only:
// CHECK: [[WIDTH:%.+]] = arith.minsi {{.+}}, %c16
// CHECK: [[HEIGHT:%.+]] = arith.minsi {{.+}}, %c4
// Rows that do not exist read the last one that does.
// CHECK: [[LAST:%.+]] = arith.subi [[HEIGHT]], %c1
// CHECK: arith.minsi {{.+}}, [[LAST]]
// CHECK: scf.for [[K2:%.+]] = {{.+}} iter_args({{.+}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK: scf.if
// CHECK: vector.load %arg1{{.}}[[K2]]
// CHECK: } else {
// CHECK: vector.maskedload %arg1{{.}}[[K2]]
// CHECK: }
// CHECK-NOT: vector.load %arg1
// CHECK-LABEL: gpu.func @part.workgroup
// One row of 64: whole, a part, or one by one.
// CHECK: scf.if
// CHECK: scf.for {{.+}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK: } else {
// CHECK: arith.minsi
// CHECK: [[COUNT:%.+]] = arith.minsi
// CHECK: arith.cmpi sge, [[COUNT]], %c4
// CHECK: scf.if
// CHECK: scf.for {{.+}} -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK: vector.maskedload
// CHECK: } else {
// CHECK: scf.for {{.+}} -> (f32) {
// CHECK-LABEL: gpu.func @convolution.workgroup
// CHECK: [[FACTOR:%.+]] = vector.load {{%.+}}{{.}}{{%.+}}] : memref<64xf32, #gpu.address_space<workgroup>>, vector<16xf32>
// CHECK: scf.for [[K3:%.+]] = {{.+}} iter_args
// CHECK: scf.for [[J:%.+]] = {{.+}} to %c3 {{.+}} iter_args
// CHECK: vector.load %arg0{{.}}[[K3]], {{%.+}}] : memref<?x?xf32>, vector<16xf32>
// CHECK: memref.load %arg1{{.}}[[K3]], [[J]]] : memref<?x3xf32>
// CHECK-LABEL: gpu.func @rows.workgroup
// One row of 64 work-items, each of which reads a row of its own: four strips.
// CHECK: scf.for [[K4:%.+]] = {{.+}} iter_args({{.+}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK: scf.for {{%.+}} = {{%.+}} to %c64{{.*}} step %c16
// CHECK-COUNT-16: vector.load %arg1{{.}}{{%.+}}, [[K4]]] : memref<?x?xf32>, vector<16xf32>
// CHECK-COUNT-64: vector.shuffle
// CHECK-COUNT-16: vector.store {{.+}} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<16xf32>
// CHECK: scf.for {{.+}} iter_args({{.+}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK-COUNT-4: vector.load {{.+}} : memref<1024xf32, #gpu.address_space<workgroup>>, vector<16xf32>
// CHECK-COUNT-4: memref.load %arg0
// CHECK-COUNT-4: arith.addf {{.+}} : vector<16xf32>
// The rest of the iterations:
// CHECK: scf.for [[K5:%.+]] = {{.+}} iter_args({{.+}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK: scf.for {{%.+}} = {{%.+}} to %c64{{.*}} step %c1
// CHECK: memref.load %arg1{{.}}{{%.+}}, [[K5]]]
// CHECK: arith.addf {{.+}} : vector<16xf32>
// Four rows of 16 work-items, which share what they read:
// CHECK: scf.for {{.+}} iter_args({{.+}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK: scf.for {{%.+}} = {{%.+}} to %c16{{.*}} step %c16
// CHECK-COUNT-16: vector.load %arg1
// CHECK-NOT: vector.load %arg1
// CHECK: scf.for {{.+}} iter_args({{.+}}) -> (vector<16xf32>, vector<16xf32>, vector<16xf32>, vector<16xf32>) {
// CHECK-LABEL: gpu.func @rows(
// CHECK-NOT: @any_order.workgroup
// CHECK-LABEL: gpu.func @signed.workgroup
// CHECK: scf.for {{.+}} -> (vector<16xf32>
// CHECK: vector.load %arg0{{.}}{{%.+}}] : memref<?xf32>, vector<16xf32>
// CHECK-LABEL: gpu.func @overflow.workgroup
// CHECK-NOT: vector
// CHECK: gpu.func @overflow(
// CHECK-NOT: @overflow_of_row.workgroup
// CHECK-LABEL: gpu.func @difference.workgroup
// CHECK-NOT: vector
// CHECK: gpu.func @difference(
