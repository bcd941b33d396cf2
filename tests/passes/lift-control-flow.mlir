// RUN: cpu lift-control-flow

gpu.module @k {
  gpu.func @f.workgroup(%a: memref<?xf32>, %c: i1, %x: f32) kernel attributes {gpubuild.workgroup_of = "f"} {
    %i = gpu.thread_id x
    cf.cond_br %c, ^then, ^end
  ^then:
    memref.store %x, %a[%i] : memref<?xf32>
    cf.br ^end
  ^end:
    gpu.barrier
    gpu.return
  }
  gpu.func @f(%a: memref<?xf32>, %c: i1, %x: f32) kernel {
    cf.br ^end
  ^end:
    gpu.return
  }
}

// CHECK-LABEL: gpu.func @f.workgroup
// CHECK: scf.if %arg1 {
// CHECK-NEXT: memref.store
// CHECK-NOT: ^bb
// CHECK: gpu.func @f(
// CHECK: ^bb1
