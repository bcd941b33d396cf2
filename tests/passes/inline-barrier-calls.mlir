// RUN: cpu inline-barrier-calls

gpu.module @k {
  func.func @waits(%c: i1) -> i32 {
    %one = arith.constant 1 : i32
    cf.cond_br %c, ^then, ^end
  ^then:
    gpu.barrier
    cf.br ^end
  ^end:
    return %one : i32
  }
  func.func @plain() {
    return
  }
  func.func @recursive() {
    gpu.barrier
    func.call @recursive() : () -> ()
    return
  }
  gpu.func @f.workgroup(%a: memref<?xi32>, %i: index, %c: i1) kernel attributes {gpubuild.workgroup_of = "f"} {
    %r = func.call @waits(%c) : (i1) -> i32
    func.call @plain() : () -> ()
    func.call @recursive() : () -> ()
    memref.store %r, %a[%i] : memref<?xi32>
    gpu.return
  }
}

// CHECK: gpu.func @f.workgroup
// CHECK-NEXT: [[ONE:%.+]] = arith.constant 1 : i32
// CHECK-NEXT: scf.if %arg2 {
// CHECK-NEXT: gpu.barrier
// CHECK: func.call @plain
// CHECK: func.call @recursive
// CHECK: memref.store [[ONE]]
