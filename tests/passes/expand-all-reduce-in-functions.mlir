// RUN: x86-64-v3 expand-all-reduce-in-functions
// RUN: sm_90 expand-all-reduce-in-functions

gpu.module @k {
  func.func private @called(%x: f32) -> f32 {
    %a = gpu.all_reduce add %x uniform {} : (f32) -> f32
    return %a : f32
  }
  gpu.func @f(%x: f32) kernel {
    %a = gpu.all_reduce add %x uniform {} : (f32) -> f32
    "test.use"(%a) : (f32) -> ()
    gpu.return
  }
}

// Upstream's conversion looks into kernels only.
// CHECK-LABEL: func.func private @called
// CHECK-COUNT-5: gpu.shuffle {{ *}}idx
// CHECK: gpu.barrier
// CHECK: gpu.func @f
// CHECK: gpu.all_reduce
