// RUN: gfx90a allow-large-workgroups

gpu.module @k {
  llvm.func @any() attributes {rocdl.kernel} {
    llvm.return
  }
  llvm.func @known() attributes {rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 64, 1, 1>} {
    llvm.return
  }
  llvm.func @helper() {
    llvm.return
  }
}

// CHECK: llvm.func @any() attributes {rocdl.flat_work_group_size = "1,1024", rocdl.kernel}
// CHECK: llvm.func @known() attributes {rocdl.kernel, rocdl.reqd_work_group_size = array<i32: 64, 1, 1>}
// CHECK: llvm.func @helper() {
