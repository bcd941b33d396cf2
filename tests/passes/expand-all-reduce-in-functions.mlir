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
// X86-64-V3-LABEL: func.func private @called
// X86-64-V3-COUNT-5: gpu.shuffle {{ *}}idx
// X86-64-V3: gpu.barrier
// X86-64-V3: gpu.func @f
// X86-64-V3: gpu.all_reduce

// SM_90-LABEL: func.func private @called
// SM_90-COUNT-5: gpu.shuffle {{ *}}idx
// SM_90: gpu.barrier
// SM_90: gpu.func @f
// SM_90: gpu.all_reduce
