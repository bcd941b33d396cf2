// RUN: spirv require-workgroups

gpu.module @k {
  llvm.func @rows() attributes {gpu.kernel, gpu.known_block_size = array<i32: 16, 4, 2>} {
    llvm.return
  }
  llvm.func @lanes() attributes {gpu.kernel, gpu.known_block_size = array<i32: 16, 4, 2>, intel_reqd_sub_group_size = 32 : i32} {
    llvm.return
  }
  llvm.func @any() attributes {gpu.kernel} {
    llvm.return
  }
}

// CHECK: llvm.func @rows() attributes {{.*}}reqd_work_group_size = array<i32: 16, 4, 2>
// CHECK: llvm.func @lanes() attributes {{.*}}reqd_work_group_size = array<i32: 128, 1, 1>
// CHECK: llvm.func @any() attributes {gpu.kernel} {
