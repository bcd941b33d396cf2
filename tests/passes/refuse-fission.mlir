// RUN: cpu refuse-fission

gpu.module @k {
  func.func @waits() {
    gpu.barrier
    return
  }
  gpu.func @call.workgroup() kernel attributes {gpubuild.workgroup_of = "call"} {
    func.call @waits() : () -> ()
    gpu.return
  }
  gpu.func @call() kernel {
    gpu.return
  }
  gpu.func @foreign.workgroup() kernel attributes {gpubuild.workgroup_of = "foreign"} {
    nvvm.cp.async.wait.group 0
    gpu.return
  }
  gpu.func @foreign() kernel {
    gpu.return
  }
  gpu.func @array.workgroup(%n: index) kernel attributes {gpubuild.workgroup_of = "array"} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %p = memref.alloca() : memref<4xf32>
      gpu.barrier
    }
    gpu.return
  }
  gpu.func @array(%n: index) kernel {
    gpu.return
  }
  gpu.func @known.workgroup() kernel attributes {gpubuild.workgroup_of = "known"} {
    gpu.barrier
    gpu.return
  }
  gpu.func @known() kernel {
    gpu.return
  }
}

// CHECK: gpu.func @call() kernel attributes {gpubuild.no_fission = "a call of @waits, which waits"}
// CHECK: gpu.func @foreign() kernel attributes {gpubuild.no_fission = "nvvm.cp.async.wait.group"}
// CHECK: gpu.func @array{{.*}} {gpubuild.no_fission = "private memory (memref.alloca) in scf.for"}
// CHECK: gpu.func @known.workgroup
// CHECK: gpu.func @known() kernel {
