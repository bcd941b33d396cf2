// RUN: gfx90a take-message-formats

gpu.module @k attributes {gpubuild.formats = ["00,a"]} {
  llvm.func @f() attributes {rocdl.kernel} {
    llvm.return
  }
}

// Nothing below knows the attribute; the formats become metadata of the code object.
// CHECK: gpu.module @k {
