// RUN: sm_90 find-ptx-version

gpu.module @k {
  gpu.func @f() kernel {
    %e = nvvm.elect.sync -> i1
    gpu.return
  }
}

// Nothing changes: the PTX version that the instructions need is left for the code generator.
// CHECK: gpu.func @f() kernel
// CHECK-NEXT: nvvm.elect.sync
// CHECK-NEXT: gpu.return
