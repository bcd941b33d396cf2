// RUN: cpu add-workgroup-functions..fission

// With source lanes known statically, vectors of a subgroup are shuffled.
gpu.module @k {
  gpu.func @f(%a: memref<?xf32>) kernel attributes {known_block_size = array<i32: 64, 1, 1>} {
    %t = gpu.thread_id x
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %x = memref.load %a[%t] : memref<?xf32>
    %y, %valid = gpu.shuffle xor %x, %c1, %c32 : f32
    memref.store %y, %a[%t] : memref<?xf32>
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @f.workgroup
// CHECK: [[GIVEN:%.+]] = memref.get_global @f.workgroup.shuffle.context.0
// CHECK: [[TAKEN:%.+]] = memref.get_global @f.workgroup.shuffle.context.1
// CHECK: memref.store {{%.+}}, [[GIVEN]]
// CHECK: scf.for [[FIRST:%.+]] = %c0 to {{%.+}} step %c32 {
// CHECK-NEXT: [[OWN:%.+]] = vector.load [[GIVEN]]{{.}}[[FIRST]]] : {{.*}}, vector<32xf32>
// CHECK-NEXT: [[MOVED:%.+]] = vector.shuffle [[OWN]], [[OWN]] [1, 0, 3, 2,
// CHECK-NEXT: vector.store [[MOVED]], [[TAKEN]]{{.}}[[FIRST]]]
// The last subgroup may lack lanes.
// CHECK: arith.cmpi ult, {{.*}} : vector<32xi32>
// CHECK: arith.select
// CHECK: scf.for
// CHECK: memref.load [[TAKEN]]
// CHECK-NOT: gpubuild.
// CHECK: gpu.func @f(
