// RUN: cpu add-workgroup-functions

gpu.module @k {
  gpu.func @barrier(%a: memref<?xf32>) kernel attributes {gpubuild.streaming} {
    gpu.barrier
    gpu.return
  }
  func.func @waits() {
    gpu.barrier
    return
  }
  gpu.func @calls() kernel {
    func.call @waits() : () -> ()
    gpu.return
  }
  // A bounds check becomes the bounds of a loop over work-items.
  gpu.func @guarded(%a: memref<?xf32>, %n: index, %x: f32) kernel {
    %i = gpu.global_id x
    %in = arith.cmpi ult, %i, %n : index
    scf.if %in {
      memref.store %x, %a[%i] : memref<?xf32>
    }
    gpu.return
  }
  gpu.func @plain(%a: memref<?xf32>, %x: f32) kernel {
    %i = gpu.global_id x
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @taken() kernel {
    gpu.barrier
    gpu.return
  }
  func.func @taken.workgroup() {
    return
  }
}

// CHECK: gpu.func @barrier.workgroup{{.*}} attributes {gpubuild.streaming, gpubuild.workgroup_of = "barrier"}
// CHECK: gpu.func @barrier(
// CHECK: gpu.func @calls.workgroup
// CHECK: gpu.func @guarded.workgroup
// CHECK-NOT: gpu.func @plain.workgroup
// CHECK: gpu.func @taken{{.*}} {gpubuild.no_fission = "the module has a symbol @taken.workgroup"}
