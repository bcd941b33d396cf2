// RUN: cpu index-loop-counters

gpu.module @k {
  gpu.func @f.workgroup(%a: memref<?xi32>, %n: i32) kernel attributes {gpubuild.workgroup_of = "f"} {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    scf.for %i = %c0 to %n step %c1 : i32 {
      %at = arith.index_cast %i : i32 to index
      memref.store %i, %a[%at] : memref<?xi32>
    }
    gpu.return
  }
  gpu.func @wide.workgroup(%n: i128) kernel attributes {gpubuild.workgroup_of = "wide"} {
    scf.for %i = %n to %n step %n : i128 {
    }
    gpu.return
  }
  gpu.func @wide(%n: i128) kernel {
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @f.workgroup
// CHECK: [[N:%.+]] = arith.index_cast %arg1 : i32 to index
// CHECK: scf.for [[I:%.+]] = %c0 to [[N]] step %c1 {
// CHECK: [[NARROW:%.+]] = arith.index_cast [[I]] : index to i32
// CHECK: memref.store [[NARROW]], %arg0{{.}}[[I]]]
// CHECK-NOT: @wide.workgroup
// CHECK: gpu.func @wide{{.*}}gpubuild.no_fission = "a loop that counts in i128"
