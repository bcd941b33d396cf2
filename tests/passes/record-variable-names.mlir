// RUN: cpu record-variable-names --debug-full

gpu.module @k {
  gpu.func @f(%m: memref<8xf32>) kernel attributes {gpubuild.argument_names = ["m"]} {
    gpu.return
  }
}

// CHECK:     gpu.func @f(%arg0: memref<8xf32>) kernel {
// CHECK-NOT: argument_names
