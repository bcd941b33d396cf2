// RUN: cpu add-workgroup-functions..fission

gpu.module @k {
  gpu.func @kept(%a: memref<?xf32>, %f: memref<?xi1>, %n: index) kernel
      attributes {known_block_size = array<i32: 32, 1, 1>} {
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    // The same for all, computed once; cheap, computed again; the rest is kept, a bit as a byte.
    %same = arith.addi %n, %n : index
    %cheap = arith.addi %t, %same : index
    %v = memref.load %a[%t] : memref<?xf32>
    %b = arith.cmpf olt, %v, %v : f32
    gpu.barrier
    %z = arith.select %b, %v, %v : f32
    memref.store %z, %a[%cheap] : memref<?xf32>
    gpu.return
  }
  // A view is made again.
  gpu.func @view(%a: memref<?xf32>, %n: index) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %t = gpu.thread_id x
    %aligned = memref.assume_alignment %a, 16 : memref<?xf32>
    %zero = arith.constant 0.0 : f32
    memref.store %zero, %aligned[%t] : memref<?xf32>
    gpu.barrier
    %u = arith.subi %n, %t : index
    %v = memref.load %aligned[%u] : memref<?xf32>
    memref.store %v, %aligned[%t] : memref<?xf32>
    gpu.return
  }
  gpu.func @wide(%a: memref<?xi128>) kernel {
    %t = gpu.thread_id x
    %v = memref.load %a[%t] : memref<?xi128>
    gpu.barrier
    memref.store %v, %a[%t] : memref<?xi128>
    gpu.return
  }
}

// CHECK: memref.global "private" @kept.workgroup.context.0 : memref<32xf32
// CHECK: memref.global "private" @kept.workgroup.context.1 : memref<32xi8
// CHECK-NOT: context.2
// CHECK-LABEL: gpu.func @kept.workgroup
// CHECK: [[V:%.+]] = memref.get_global @kept.workgroup.context.0
// CHECK: [[B:%.+]] = memref.get_global @kept.workgroup.context.1
// CHECK: [[SAME:%.+]] = arith.addi %arg2, %arg2
// CHECK: scf.for
// CHECK: scf.for
// CHECK: scf.for
// CHECK: memref.store {{%.+}}, [[V]]
// CHECK: [[BYTE:%.+]] = arith.extui {{%.+}} : i1 to i8
// CHECK: memref.store [[BYTE]], [[B]]
// CHECK: scf.for
// CHECK: scf.for
// CHECK: scf.for [[T:%.+]] = %c0 to %block_dim_x
// CHECK: memref.load [[B]]
// CHECK: memref.load [[V]]
// CHECK: arith.addi [[T]], [[SAME]]
// CHECK-LABEL: gpu.func @view.workgroup
// CHECK: memref.assume_alignment
// CHECK: memref.assume_alignment
// CHECK: gpu.func @wide{{.*}}gpubuild.no_fission = "a value of type i128 is needed after a barrier"
